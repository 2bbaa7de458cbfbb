"""Test the predictions of past jobs, with a backtest on simulated trainings whose data grows."""

import random
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

import pytest

from pipelines.planning.recommendation.correction import Accuracy, measure_accuracy
from pipelines.planning.recommendation.history import list_observations
from tests.tools.ledger_rows import make_row

GIB = 2**30


def simulate(seed: int, months: int = 24, noise: float = 0.03) -> list[dict[str, Any]]:
    """Return the rows of monthly trainings on data that changes between a half and four times from month to month.

    The time has a fixed part of 300 s and 600 s a GiB. One job of 20 takes three times as long.
    """
    generator = random.Random(seed)
    rows = []
    for number in range(months):
        gib = 2 ** generator.uniform(-1, 3)
        seconds = (300 + 600 * gib) * generator.lognormvariate(0, noise) * (3 if generator.random() < 0.05 else 1)
        rows.append(make_row(number, training_s=round(seconds), input_bytes=round(gib * GIB)))
    return rows


def without_sizes(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "input_bytes": None} for row in rows]


def measure(rows: Sequence[dict[str, Any]]) -> Accuracy:
    accuracy = measure_accuracy(list_observations(rows))
    assert accuracy
    return accuracy


def test_with_sizes_the_error_shrinks_and_without_them_it_does_not() -> None:
    worlds = [simulate(seed) for seed in range(30)]
    first_error, last_error = (
        fmean(median(error_list) for error_list in errors)
        for errors in zip(*(_split_errors(world) for world in worlds), strict=True)
    )
    assert last_error < 0.05 < first_error / 2, (first_error, last_error)
    first_error, last_error = (
        fmean(median(error_list) for error_list in errors)
        for errors in zip(*(_split_errors(without_sizes(world)) for world in worlds), strict=True)
    )
    assert last_error > 0.4 and last_error > 0.7 * first_error, (first_error, last_error)


def _split_errors(rows: Sequence[dict[str, Any]]) -> tuple[list[float], list[float]]:
    """Return the relative errors, without correction, of the first three predictions and of those after the tenth."""
    observations = list_observations(rows)
    ratios = [entry.actual_s / entry.predicted_s for entry in observations]
    errors = [max(ratio, 1 / ratio) - 1 for ratio in ratios]
    return errors[:3], errors[10:]


@pytest.mark.parametrize("seed", range(5))
def test_the_accuracy_is_that_of_the_predictions_by_size(seed: int) -> None:
    rows = simulate(seed)
    with_sizes, without = measure(rows), measure(without_sizes(rows))
    assert with_sizes.last_error < 0.1 and with_sizes.corrected_error < without.corrected_error / 3
    assert {entry.basis for entry in list_observations(rows)} == {"sized"}
    assert {entry.basis for entry in list_observations(without_sizes(rows))} == {"measured"}


def test_each_job_is_predicted_by_its_own_size_from_the_jobs_before_it() -> None:
    sizes = (1, 2, 4, 8, 3)
    rows = [make_row(n, training_s=100 * gib, input_bytes=gib * GIB) for n, gib in enumerate(sizes)]
    observations = list_observations(rows)
    assert [entry.predicted_s for entry in observations] == pytest.approx([100 * 2**0.5, 400, 800, 300])
    longer = [*rows[:3], {**rows[3], "training_s": 9_000}, rows[4]]
    assert list_observations(longer)[:2] == observations[:2], "later jobs change nothing"


def test_old_rows_without_a_size_are_read_as_before() -> None:
    rows = [make_row(n, training_s=100 + n) for n in range(4)]
    assert "input_bytes" not in rows[0]
    assert list_observations(rows) == list_observations(without_sizes(rows))
    newer_rows = [make_row(n, training_s=100 * n, input_bytes=n * GIB) for n in range(4, 8)]
    bases = [entry.basis for entry in list_observations([*rows, *newer_rows])]
    assert bases == ["measured"] * 4 + ["sized"] * 3, "the errors of both kinds of predictions stay apart"
