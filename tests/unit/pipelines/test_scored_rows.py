"""Test the scores of a day for each task: the stored columns, and scores that are refused."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.scored_rows import append_scores, list_score_fields, list_stored_scores
from pipelines.scoring import scores as scoring

ROWS = pa.RecordBatch.from_pydict({"x": [1.0, 2.0], "y": pa.array([None, None], pa.float64())})


def make_dataset(task: Any) -> Dataset:
    return Dataset(name="orders", key=("id",), label="y", task=task, features={"x": "number"})


def score_rows(dataset: Dataset, scores: Any) -> pa.RecordBatch:
    """Append scores to `ROWS`, as the step `score` does."""
    return scoring.append_scores_to_batch(dataset, ROWS, scoring.score_features(dataset, ROWS, lambda rows: scores))


@pytest.mark.parametrize(
    ("task", "scores", "problem"),
    [
        ("binary", np.array([0.5, np.nan]), "the model's score is not a number for 1 of 2 rows"),
        ("regression", np.array([np.inf, -np.inf]), "the model's score is not a number for 2 of 2 rows"),
        ("regression", pd.DataFrame({"0.5": [1.0, np.nan]}), "the model's score is not a number for 1 of 2 rows"),
        ("regression", pd.DataFrame({"0.5": [1.0, 2.0], "0.9": [2.0, 1.0]}), "the quantiles of 1 of 2 rows are not in"),
        ("regression", pd.DataFrame({"0.9": [1.0, 2.0]}), r"without the median, 0\.5"),
        ("multiclass", pd.DataFrame({"a": [1.0, np.nan], "b": [0.0, 1.0]}), "the model's score is not a number for 1"),
    ],
)
def test_scores_that_are_no_numbers_are_refused_in_one_line(task: str, scores: Any, problem: str) -> None:
    with pytest.raises(DataError, match=problem) as error:
        score_rows(make_dataset(task), scores)
    assert "\n" not in str(error.value) and "Nothing was written." in str(error.value)


def test_a_regression_has_its_quantiles_in_a_map_or_null() -> None:
    dataset = make_dataset("regression")
    assert list_stored_scores(dataset) == ["score", "scores"]
    quantiles = pd.DataFrame({"0.1": [0.0, 1.0], "0.5": [1.0, 2.0]})
    batch = score_rows(dataset, quantiles)
    assert batch.schema.field("scores").type == list_score_fields(dataset)[1].type
    assert batch["score"].to_pylist() == [1.0, 2.0]
    assert [dict(row) for row in batch["scores"].to_pylist()] == [{"0.1": 0.0, "0.5": 1.0}, {"0.1": 1.0, "0.5": 2.0}]
    plain = score_rows(dataset, np.array([3.0, 4.0]))
    assert plain["score"].to_pylist() == [3.0, 4.0] and plain["scores"].null_count == 2


def test_a_binary_model_has_one_column_as_before() -> None:
    dataset = make_dataset("binary")
    assert list_stored_scores(dataset) == ["score"]
    rows = append_scores(dataset, pd.DataFrame({"y": [True, False]}), np.array([0.1, 0.9]))
    assert list(rows.columns) == ["y", "score"]
