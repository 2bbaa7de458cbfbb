"""Test what is learned from past jobs, with a backtest on simulated trainings."""

import math
import random
from statistics import fmean

import pytest
from scipy import stats

from benchmarks.decisions.planner import simulate
from pipelines.errors import SpecError
from pipelines.planning.recommendation.correction import (
    T_QUANTILES_95,
    Observation,
    learn_correction,
    measure_accuracy,
)
from pipelines.planning.recommendation.history import list_observations
from tests.tools.ledger_rows import make_row


@pytest.mark.parametrize("seed", range(5))
def test_the_error_shrinks_over_runs(seed: int) -> None:
    accuracy = measure_accuracy(simulate(150, seed))
    assert accuracy
    assert accuracy.corrected_error < 0.6 * accuracy.raw_error
    assert accuracy.last_error < 0.15, "the noise of a job alone is 0.07 in the median"
    assert accuracy.cost_error == pytest.approx(accuracy.corrected_error)


def test_the_first_jobs_are_predicted_worse_than_the_later_ones() -> None:
    early, late = [], []
    for seed in range(20):
        first, whole = measure_accuracy(simulate(10, seed)), measure_accuracy(simulate(150, seed))
        assert first and whole
        early.append(first.corrected_error)
        late.append(whole.last_error)
    assert fmean(early) > 2 * fmean(late)


@pytest.mark.parametrize("seed", range(5))
def test_predictions_that_are_right_are_not_made_worse(seed: int) -> None:
    accuracy = measure_accuracy(simulate(150, seed, is_biased=False))
    assert accuracy and accuracy.corrected_error < accuracy.raw_error + 0.03


def test_few_jobs_are_hardly_believed() -> None:
    correction_of_one = learn_correction([Observation("a", "m5", 100, 400)], "a", "m5")
    assert correction_of_one.factor == pytest.approx(4 ** (1 / 3)) and (
        correction_of_one.low,
        correction_of_one.high,
        correction_of_one.jobs,
    ) == (None, None, 1)
    many = learn_correction([Observation("a", "m5", 100, 400)] * 50, "a", "m5")
    assert many.factor == pytest.approx(4 ** (50 / 52)) and many.low == 1
    assert many.high == pytest.approx(4 / many.factor), "the band still has the time of the jobs"
    assert learn_correction([], "a", "m5").factor == 1


def test_other_models_and_families_count_less() -> None:
    observations = [
        Observation(model, family, 100, actual_s)
        for model, family, actual_s in (("a", "m5", 200), ("a", "c5", 150), ("b", "g5", 50))
        for _ in range(10)
    ]
    same, family, other = (
        learn_correction(observations, *key).factor for key in (("a", "m5"), ("a", "g5"), ("c", "m5"))
    )
    assert same > family > other and same == pytest.approx(2, rel=0.1)


def test_a_job_that_went_wrong_is_ignored() -> None:
    observations = [Observation("a", "m5", 100, 100)] * 9 + [Observation("a", "m5", 100, 9_000)]
    assert learn_correction(observations, "a", "m5").factor == pytest.approx(1)


@pytest.mark.parametrize("jobs", [3, 4, 6, 8, 9, 12, 19, 60])
def test_the_band_holds_nine_of_ten_jobs(jobs: int) -> None:
    generator = random.Random(jobs)
    inside = []
    for _ in range(1_500):
        *past_jobs, job = [
            Observation("a", "m5", 100, 100 * math.exp(generator.gauss(0.3, 0.2))) for _ in range(jobs + 1)
        ]
        correction = learn_correction(past_jobs, "a", "m5")
        assert correction.low and correction.high
        inside.append(correction.low <= math.exp(job.log_ratio) / correction.factor <= correction.high)
    assert 0.86 < fmean(inside) < 0.95, "the bands of the first version held 57 % after 3 jobs, and 86 % after 60"


def test_the_band_of_many_jobs_ignores_those_that_went_wrong() -> None:
    usual_jobs = [Observation("a", "m5", 100, 100 + number) for number in range(20)]
    correction = learn_correction([*usual_jobs, Observation("a", "m5", 100, 9_000)], "a", "m5")
    assert correction.high and correction.high < 1.2


def test_the_quantiles_are_those_of_students_distribution() -> None:
    expected_quantiles = {count: pytest.approx(stats.t.ppf(0.95, count - 1), abs=5e-4) for count in T_QUANTILES_95}
    assert expected_quantiles == T_QUANTILES_95


def test_accuracy_in_words() -> None:
    accuracy = measure_accuracy([Observation("a", "m5", 100, 200)] * 4)
    assert accuracy and accuracy.describe().startswith(
        "4 past job(s): predictions of the time were off by 100% without"
    )
    assert measure_accuracy([]) is None
    with pytest.raises(SpecError, match="times must be positive"):
        Observation("a", "m5", 0, 1)


def test_observations_of_the_ledger() -> None:
    rows = [
        make_row(1, training_s=1_000, cpu_mean=100, memory_peak=5),
        make_row(2, training_s=1_100, cpu_mean=100, memory_peak=5),
        make_row(3, training_s=900, cpu_mean=100, memory_peak=5, instance_type="ml.c5.2xlarge"),
        make_row(4, status="Failed"),
        make_row(5, training_s=None),
        make_row(6, model="new", training_s=50, uncorrected_s=40.0, uncorrected_usd=0.01),
        make_row(7, training_s=1_000, spot=True, saving=0.5, cpu_mean=100, memory_peak=5),
    ]
    observations = list_observations(rows)
    assert [(entry.model, entry.family, entry.actual_s) for entry in observations] == [
        ("flights", "m5", 1_100),
        ("flights", "c5", 900),
        ("new", "m5", 50),
        ("flights", "m5", 1_000),
    ]
    assert [entry.predicted_s for entry in observations] == [1_000, 1_050, 40, 1_050]
    assert observations[2].predicted_usd == 0.01
