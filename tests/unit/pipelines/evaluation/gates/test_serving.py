"""Test the measurements of a packaged model, and the checks of these measurements."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipelines.errors import DataError
from pipelines.evaluation.gates import FAILED, PASSED, REPORTED, UNDECIDED, Check
from pipelines.evaluation.gates.policy import Serving
from pipelines.evaluation.gates.serving import PackageMeasurements, check_package, measure_package

ROWS = pd.DataFrame({"distance": [100.0, 200.0, 300.0]})
TRAINING_SCORES = ROWS.assign(score=ROWS.distance / 1_000)


def score(rows: pd.DataFrame) -> Any:
    """Score the rows as the training did."""
    return rows["distance"].to_numpy() / 1_000


def measure(folder: Path, scorer: Any = score, training_scores: Any = TRAINING_SCORES) -> PackageMeasurements:
    return measure_package(scorer, ROWS, training_scores, folder, batch_rows=7)


def check_skew(folder: Path, scorer: Any = score, training_scores: Any = TRAINING_SCORES) -> Check:
    """Measure the package, and return the check of its scores."""
    return check_package(measure(folder, scorer, training_scores), Serving())[1]


def test_a_package_that_gives_the_scores_of_the_training_passes(tmp_path: Path) -> None:
    check = check_skew(tmp_path)
    assert (check.outcome, check.value, check.bound) == (PASSED, 0.0, 1e-6)


@pytest.mark.parametrize("difference", [2e-6, -2e-6, 0.5, np.nan, np.inf])
def test_a_package_that_gives_one_other_score_fails(tmp_path: Path, difference: float) -> None:
    """The check's value is the difference; None where the difference is not a finite number."""
    check = check_skew(tmp_path, lambda rows: score(rows) + np.where(rows.distance == 200.0, difference, 0.0))
    assert check.outcome == FAILED
    assert check.value == (pytest.approx(abs(difference)) if np.isfinite(difference) else None)


@pytest.mark.parametrize("training_scores", [None, TRAINING_SCORES.head(0)], ids=["no file", "no rows"])
def test_without_scores_of_the_training_the_check_is_undecided(tmp_path: Path, training_scores: Any) -> None:
    check = check_skew(tmp_path, training_scores=training_scores)
    assert (check.outcome, check.value) == (UNDECIDED, None)
    assert "the training stored no scores" in check.reason


def test_refuses_scores_that_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no column score"):
        measure(tmp_path, training_scores=ROWS)
    for scorer in (lambda rows: score(rows)[1:], lambda rows: score(rows)[:, None], lambda _: 0.1):
        with pytest.raises(DataError, match="one score for each row"):
            measure(tmp_path, scorer)


def test_the_model_is_called_with_one_row_and_with_a_batch(tmp_path: Path) -> None:
    calls: list[list[float]] = []

    def record(rows: pd.DataFrame) -> Any:
        calls.append(rows["distance"].tolist())
        return score(rows)

    measurements = measure(tmp_path, record)
    assert {len(call) for call in calls} == {3, 1, 7}, "the training's rows, single rows, and batches"
    assert {tuple(call) for call in calls if len(call) == 1} == {(100.0,), (200.0,), (300.0,)}
    assert [100.0, 200.0, 300.0, 100.0, 200.0, 300.0, 100.0] in calls
    for p50, p99 in (measurements.single_ms, measurements.batch_ms):
        assert 0 < p50 <= p99


def test_the_size_is_that_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/model.ubj").write_bytes(b"0" * 3_000_000)
    (tmp_path / "MLmodel").write_bytes(b"0" * 500_000)
    assert measure(tmp_path).mb == 3.5


@pytest.mark.parametrize("bounds", [{}, {"max_single_ms": 5, "max_batch_ms": 50}, {"max_single_ms": 2}])
def test_the_verdict_has_p50_and_p99_of_the_times_with_a_bound_and_without(bounds: dict[str, float]) -> None:
    measurements = PackageMeasurements(skew=0.0, mb=1.0, single_ms=(1.25, 3.0), batch_ms=(10.5, 30.0))
    *_, single, batch = check_package(measurements, Serving(**bounds))
    assert (single.value, batch.value) == (3.0, 30.0), "the bound is for the p99"
    assert single.timed and batch.timed
    assert single.reason.endswith("; p50 1.25")
    assert batch.reason.endswith("; p50 10.5")
    expected = {None: REPORTED, 5: PASSED, 2: FAILED}
    assert single.outcome == expected[bounds.get("max_single_ms")]


def test_a_package_that_loads_nowhere_else_fails(tmp_path: Path) -> None:
    measurements = measure(tmp_path)
    assert check_package(measurements, Serving())[0].outcome == PASSED
    check = check_package(replace(measurements, load_problem="No module named 'x'"), Serving())[0]
    assert check.outcome == FAILED
    assert check.reason.endswith("where the project's code is not: No module named 'x'")
