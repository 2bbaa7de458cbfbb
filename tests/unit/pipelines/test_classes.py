"""Test the classes of a multiclass model: their order, the numbers of labels, and the columns of scores."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines import classes
from pipelines.container import inference
from pipelines.container.serving.tables import LINES
from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.score_columns import IS_RIGHT, PREDICTED, SCORE, SCORES
from pipelines.scored_rows import append_scores, list_score_fields
from pipelines.scoring import batch

LABELS = pd.Series(["on time", "late", None, "early", "late"])
NAMES = ["early", "late", "on time"]
PROBABILITIES = pd.DataFrame([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]], columns=NAMES)
DATASET = Dataset(name="x", key=("k",), label="y", task="multiclass")


def test_classes_are_in_the_order_of_their_values() -> None:
    assert classes.list_classes(LABELS) == NAMES
    assert classes.list_classes(pd.Series([10, 9, 10])) == ["9", "10"], "numbers, not texts"


def test_labels_have_the_number_of_their_class() -> None:
    assert classes.encode_labels(LABELS.dropna(), NAMES).tolist() == [2, 1, 0, 1]
    assert classes.encode_labels(pd.Series([10, 9]), ["9", "10"]).tolist() == [1, 0]
    with pytest.raises(ValueError, match="the label 'late' is not one of the classes early, on time"):
        classes.encode_labels(LABELS.dropna(), ["early", "on time"])


def test_scores_are_read_as_they_were_tabulated() -> None:
    table = classes.tabulate_scores(PROBABILITIES)
    assert list(table) == ["score_early", "score_late", "score_on time"]
    assert np.array_equal(classes.read_scores(table, NAMES), PROBABILITIES)
    numbers = classes.tabulate_scores(np.array([0.5, 0.25]))
    assert classes.read_scores(numbers, []).tolist() == [0.5, 0.25]


def test_a_class_that_the_champion_does_not_know_has_the_probability_zero() -> None:
    scores = classes.select_scores(PROBABILITIES.drop(columns="late"), NAMES)
    assert scores.tolist() == [[0.2, 0.0, 0.3], [0.6, 0.0, 0.3]]
    assert classes.select_scores(np.array([0.5, 0.25]), []).tolist() == [0.5, 0.25]
    with pytest.raises(ValueError, match="no column for each class"):
        classes.select_scores(np.array([0.5, 0.25]), NAMES)


def test_rows_have_the_predicted_class_and_whether_it_is_right() -> None:
    rows = append_scores(DATASET, pd.DataFrame({"y": ["late", None]}, index=[7, 3]), PROBABILITIES)
    assert rows[PREDICTED].tolist() == ["late", "early"]
    assert rows[SCORE].tolist() == [0.5, 0.6]
    assert rows[IS_RIGHT].isna().tolist() == [False, True]
    assert rows[IS_RIGHT].iloc[0]
    assert [field.name for field in list_score_fields(DATASET)] == [PREDICTED, SCORE, SCORES, IS_RIGHT]
    assert [dict(row) for row in rows[SCORES]] == PROBABILITIES.to_dict("records")
    wrong = append_scores(DATASET, pd.DataFrame({"y": ["early", "late"]}), PROBABILITIES)
    assert not wrong[IS_RIGHT].any()


def test_a_job_returns_a_probability_for_each_class(tmp_path: Path) -> None:
    rows = pd.DataFrame({"x": [1.0, 2.0]})
    request = batch.write_request([rows], ["x"], tmp_path / "rows")
    (tmp_path / "out").mkdir()
    output = tmp_path / "out/part-00000.jsonl.out"
    output.write_text(inference.output_fn(inference.Prediction(PROBABILITIES), LINES).body + "\n")
    scores = batch.Response(tmp_path / "out", request, ["x"], NAMES)(rows)
    pd.testing.assert_frame_equal(scores, PROBABILITIES)
    output.write_text("".join(json.dumps(line) + "\n" for line in ([0.5], [0.5])))
    with pytest.raises(DataError, match="is not a number"):
        batch.Response(tmp_path / "out", request, ["x"], NAMES)(rows)
