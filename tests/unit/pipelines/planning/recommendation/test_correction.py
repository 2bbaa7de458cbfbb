"""Test what is learned from past jobs, with a backtest on simulated trainings."""

import math
import random
from statistics import fmean

import pytest

from benchmarks.decisions.planner import simulate
from pipelines.errors import SpecError
from pipelines.planning.recommendation.correction import Observation, learn_correction, measure_accuracy
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
    one = learn_correction([Observation("a", "m5", 100, 400)], "a", "m5")
    assert 1 < one.factor < 4 and (one.low, one.high, one.jobs) == (None, None, 1)
    many = learn_correction([Observation("a", "m5", 100, 400)] * 50, "a", "m5")
    assert many.factor == pytest.approx(4, rel=0.05) and many.low == many.high == 1
    assert learn_correction([], "a", "m5").factor == 1


def test_other_models_and_families_count_less() -> None:
    observations = [Observation("a", "m5", 100, 200)] * 10 + [Observation("b", "g5", 100, 50)] * 10
    same, family, other = (
        learn_correction(observations, *key).factor for key in (("a", "m5"), ("a", "g5"), ("c", "m5"))
    )
    assert same > family > other and same == pytest.approx(2, rel=0.2)


def test_a_job_that_went_wrong_is_ignored() -> None:
    observations = [Observation("a", "m5", 100, 100)] * 9 + [Observation("a", "m5", 100, 9_000)]
    assert learn_correction(observations, "a", "m5").factor == pytest.approx(1)


def test_the_band_holds_nine_of_ten_jobs() -> None:
    generator = random.Random(3)
    observations = [Observation("a", "m5", 100, 100 * math.exp(generator.gauss(0.3, 0.2))) for _ in range(400)]
    learned = learn_correction(observations[:200], "a", "m5")
    assert learned.low and learned.high
    inside = [
        learned.low <= entry.actual_s / (entry.predicted_s * learned.factor) <= learned.high
        for entry in observations[200:]
    ]
    assert 0.84 < sum(inside) / len(inside) < 0.96


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
