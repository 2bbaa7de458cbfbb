"""Test the intervals of checkpoints with published figures, and with a seeded simulation of interruptions."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from pipelines.errors import SpecError
from pipelines.planning.checkpoints import (
    COMMON_INTERVALS_S,
    compute_checkpoint_bytes,
    compute_daly_interval_s,
    compute_interruptions_per_h,
    compute_mean_time_s,
    compute_worthwhile_save_s,
    compute_young_interval_s,
    estimate_interrupted_run,
    estimate_save_s,
)
from pipelines.planning.memory import TrainingSetup

HOUR_S = 3600.0


def simulate_run(
    work_s: float, interval_s: float, save_s: float, mean_s: float, restart_s: float, seed: int
) -> tuple[float, int]:
    """Return time and interruptions of a training, second by second of the clock, without any formula."""
    generator = random.Random(seed)
    clock, done, interruptions = 0.0, 0.0, 0
    next_interruption = generator.expovariate(1 / mean_s)
    is_restarting = False
    while done < work_s - 1e-6:
        length = restart_s if is_restarting else min(interval_s, work_s - done) + save_s
        if clock + length <= next_interruption:
            clock += length
            done += 0.0 if is_restarting else length - save_s
            is_restarting = False
        else:
            clock, interruptions, is_restarting = next_interruption, interruptions + 1, True
            next_interruption += generator.expovariate(1 / mean_s)
    return clock, interruptions


def simulate_mean(interval_s: float, save_s: float, mean_s: float, restart_s: float) -> tuple[float, float]:
    runs = [simulate_run(40 * HOUR_S, interval_s, save_s, mean_s, restart_s, seed) for seed in range(300)]
    return sum(clock for clock, _ in runs) / len(runs), sum(count for _, count in runs) / len(runs)


@pytest.mark.parametrize(
    ("interval_s", "save_s", "mean_s", "restart_s"),
    [(1200, 60, 4 * HOUR_S, 300), (900, 300, 2 * HOUR_S, 600), (7200, 30, 6 * HOUR_S, 0)],
)
def test_expected_time_is_that_of_a_simulation(
    interval_s: float, save_s: float, mean_s: float, restart_s: float
) -> None:
    """300 simulated trainings of 40 hours: their mean is within 1.5 % of Daly's formula."""
    run = estimate_interrupted_run(40 * HOUR_S, interval_s, save_s, mean_s, restart_s)
    clock, interruptions = simulate_mean(interval_s, save_s, mean_s, restart_s)
    assert clock == pytest.approx(run.total_s, rel=0.015)
    assert interruptions == pytest.approx(run.interruptions, rel=0.05)


@pytest.mark.parametrize(("save_s", "mean_s"), [(60, 4 * HOUR_S), (600, 2 * HOUR_S)])
def test_daly_s_interval_is_the_best_one(save_s: float, mean_s: float) -> None:
    """No interval of a fine grid takes less time, neither in the formula nor, beyond its noise, in the simulation."""
    best_s = compute_daly_interval_s(save_s, mean_s)
    times = {
        factor: estimate_interrupted_run(40 * HOUR_S, factor * best_s, save_s, mean_s).total_s
        for factor in [0.25 + 0.01 * step for step in range(400)]
    }
    assert min(times, key=times.__getitem__) == pytest.approx(1, abs=0.05)
    best_clock = simulate_mean(best_s, save_s, mean_s, 0)[0]
    for factor in (0.3, 3):
        assert simulate_mean(factor * best_s, save_s, mean_s, 0)[0] > 1.01 * best_clock


def test_daly_corrects_young() -> None:
    """They agree for short saves. For a save of a tenth of the mean time, Young's is 17 % longer."""
    assert compute_young_interval_s(60, 4 * HOUR_S) == math.sqrt(2 * 60 * 14400)
    assert compute_daly_interval_s(1e-3, HOUR_S) == pytest.approx(compute_young_interval_s(1e-3, HOUR_S), rel=1e-3)
    assert compute_young_interval_s(360, HOUR_S) / compute_daly_interval_s(360, HOUR_S) == pytest.approx(1.17, abs=0.01)


def test_every_15_to_30_minutes() -> None:
    """It is right for one interruption in some 5 hours and a save of a minute, and not for others."""
    assert COMMON_INTERVALS_S[0] < compute_daly_interval_s(60, 5 * HOUR_S) < COMMON_INTERVALS_S[1]
    assert compute_daly_interval_s(60, 100 * HOUR_S) > 3 * COMMON_INTERVALS_S[1]
    assert compute_daly_interval_s(5, HOUR_S) < COMMON_INTERVALS_S[0] / 4


def test_llama_3() -> None:
    """Grattafiori et al. 2024, section 3.3.4: 466 interruptions in 54 days, and over 90 % of the time effective.

    They do not name the times of saves and restarts. With 10 s and 3 minutes, the formula gives 94 %; with 30 s and 5
    minutes, 90 %.
    """
    mean_s = compute_mean_time_s(466 / (54 * 24))
    assert mean_s / HOUR_S == pytest.approx(2.78, abs=0.01)
    for save_s, restart_s, share in ((10, 180, 0.94), (30, 300, 0.90)):
        interval_s = compute_daly_interval_s(save_s, mean_s)
        run = estimate_interrupted_run(54 * 24 * HOUR_S, interval_s, save_s, mean_s, restart_s)
        assert run.work_s / run.total_s == pytest.approx(share, abs=0.005)


def test_checkpoint_of_bloom() -> None:
    """BLOOM's 176B parameters: 14 bytes for each, 2.47 TB = 2.24 TiB; its authors name 2.3 TB."""
    assert compute_checkpoint_bytes(176.25e9) / 1024**4 == pytest.approx(2.3, abs=0.06)


def test_checkpoint_of_a_full_fine_tuning() -> None:
    """docs/how-to/fine-tune-a-language-model.md: 84 GB of 7B parameters, weights in fp32 and Adam's states."""
    assert compute_checkpoint_bytes(7e9, TrainingSetup("fp32")) == 84e9
    assert estimate_save_s(84e9, 1.4) == pytest.approx(60)


def test_parts_of_an_interrupted_run() -> None:
    run = estimate_interrupted_run(10 * HOUR_S, 1800, 60, 5 * HOUR_S, 300)
    assert run.saving_s == 10 * HOUR_S / 1800 * 60
    assert run.total_s == pytest.approx(run.work_s + run.saving_s + run.lost_s)
    assert run.interruptions == pytest.approx(run.total_s / (5 * HOUR_S))
    # To first order, an interruption undoes half of an interval, and costs a restart.
    assert run.lost_s / run.interruptions == pytest.approx((1800 + 60) / 2 + 300, rel=0.05)
    short = estimate_interrupted_run(600, 1800, 60, 5 * HOUR_S)
    assert short.saving_s == 60  # it saves once, at its end


def test_worthwhile_save() -> None:
    """A training that saves every 30 minutes loses 15 for each interruption: right for the save whose optimum it is."""
    save_s = compute_worthwhile_save_s(900, 5 * HOUR_S)
    assert save_s == 90
    assert compute_young_interval_s(save_s, 5 * HOUR_S) == pytest.approx(1800)


def test_share_of_a_month() -> None:
    """5 % a month is one interruption in 14,232 hours; 30 of such instances are interrupted every 474 hours."""
    assert 1 / compute_interruptions_per_h(0.05) == pytest.approx(14_232, abs=1)
    assert compute_mean_time_s(compute_interruptions_per_h(0.05), 30) / HOUR_S == pytest.approx(474.4, abs=0.1)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: compute_mean_time_s(0), "interruptions_per_h must be a positive number, not 0."),
        (lambda: compute_mean_time_s(float("nan")), "interruptions_per_h must be a positive number, not nan."),
        (lambda: compute_mean_time_s(1, 0), "instances must be a positive number, not 0."),
        (lambda: compute_young_interval_s(0, 60), "save_s must be a positive number, not 0."),
        (
            lambda: compute_daly_interval_s(60, 60),
            "there is more than one interruption for each save: a save takes 60 s",
        ),
        (lambda: compute_young_interval_s(90, 60), "there is more than one interruption for each save"),
        (lambda: estimate_interrupted_run(1, 1, 90, 60), "there is more than one interruption for each save"),
        (lambda: estimate_interrupted_run(-1, 1, 1, 60), "work_s must be a positive number, not -1."),
        (lambda: estimate_interrupted_run(1e5, 1e4, 1, 60), "the training would never end: 10001 s of work"),
        (lambda: estimate_interrupted_run(9, 9, 1, 60, -1), "restart_s must be a number of at least 0, not -1."),
        (lambda: compute_interruptions_per_h(0), "month_share must be a positive number, not 0."),
        (lambda: compute_interruptions_per_h(1), "month_share must be less than 1."),
        (lambda: compute_interruptions_per_h(5), "month_share must be at most 1, not 5. It is a share: 30 % is 0.3."),
        (lambda: compute_checkpoint_bytes(-7e9), "trained_parameters must be a positive number, not -7000000000.0."),
        (lambda: compute_worthwhile_save_s(0, 1), "lost_s must be a positive number, not 0."),
        (lambda: estimate_save_s(1, 0), "write_gb_s must be a positive number, not 0."),
    ],
)
def test_wrong_numbers_are_refused(call: Callable[[], object], text: str) -> None:
    with pytest.raises(SpecError) as caught:
        call()
    assert text in str(caught.value)
