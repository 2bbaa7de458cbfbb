"""Test what the gate reads: rates come from the training rows, scores from the evaluation and the champion."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines.dataset import load_dataset
from pipelines.errors import DataError
from pipelines.evaluation.gates.inputs import read_holdout
from tests.tools.evaluations import write_evaluation

FLIGHTS = load_dataset("flights")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Write an evaluation whose training rows have label 1 on the days 15 to 21 only, and return its folder."""
    write_evaluation(tmp_path, rows=2_800)
    path = tmp_path / "features/train/data.parquet"
    rows = pd.read_parquet(path)
    day = (rows["date"] - rows["date"].min()).dt.days
    rows.assign(late=(day >= 14) & (day < 21)).to_parquet(path)
    return tmp_path


def test_the_rates_are_those_of_the_training_rows_and_of_their_last_week(data: Path) -> None:
    holdout = read_holdout(FLIGHTS, data / "features", data / "evaluation", None)
    assert (holdout.base_rate, holdout.last_week_rate) == (0.25, 0.0)
    assert holdout.label.mean() not in (0.0, 0.25), "the control: the rate of the holdout"
    assert holdout.champion_score is None


def test_the_champion_scores_the_rows_of_the_holdout(data: Path) -> None:
    def score(rows: pd.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return rows["flight"].to_numpy() / 10_000

    holdout = read_holdout(FLIGHTS, data / "features", data / "evaluation", score)
    assert holdout.champion_score is not None
    assert holdout.champion_score.tolist() == (holdout.features["flight"] / 10_000).tolist()


def test_refuses_scores_of_other_rows(data: Path) -> None:
    path = data / "evaluation/predictions.parquet"
    predictions = pd.read_parquet(path)
    for changed_predictions in (predictions.iloc[::-1], predictions.iloc[1:], predictions.drop(columns="score")):
        changed_predictions.to_parquet(path)
        with pytest.raises(DataError, match="Run `evaluate` again"):
            read_holdout(FLIGHTS, data / "features", data / "evaluation", None)
