"""Read the files of `preprocess` and `evaluate` that the gate needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.evaluation.gates.holdout import Array, Holdout
from pipelines.evaluation.own_metrics import load_own_metrics
from pipelines.system.data_files import read_parquet

LAST_DAYS = 7
"""Number of days at the end of the training rows: a model that only follows the season predicts their rate."""


def read_holdout(
    dataset: Dataset, features: Path, evaluation: Path, score_champion: Callable[[pd.DataFrame], Any] | None
) -> Holdout:
    """Read the rows of the holdout with the candidate's scores, and score them with the champion.

    Args:
        dataset: dataset of the model.
        features: folder with train/ and holdout/.
        evaluation: folder with predictions.parquet.
        score_champion: takes the rows, returns the champion's scores; None where there is no champion to compare with.

    Raises:
        DataError: a file does not exist or is damaged, or the rows cannot be judged. A retry cannot help.
    """
    columns = (*dataset.key, dataset.label, "date")
    rows, train = (
        read_parquet(features / split / "data.parquet", "preprocess", columns) for split in ("holdout", "train")
    )
    return Holdout(
        label=rows[dataset.label].to_numpy(dtype=float),
        candidate_score=_read_scores(dataset, evaluation, rows),
        champion_score=score_champion(rows) if score_champion else None,
        features=rows,
        base_rate=float(train[dataset.label].mean()),
        last_week_rate=_compute_last_week_rate(train, dataset.label),
        task=dataset.task,
        own_metrics=load_own_metrics(dataset),
    )


def _read_scores(dataset: Dataset, evaluation: Path, rows: pd.DataFrame) -> Array:
    """Read the candidate's score of each row of the holdout; refuse scores of other rows."""
    path, key = evaluation / "predictions.parquet", list(dataset.key)
    predictions = read_parquet(path, "evaluate", (*key, "score"))
    if not predictions[key].reset_index(drop=True).equals(rows[key].reset_index(drop=True)):
        raise DataError(f"{path} does not belong to this holdout.", "Run `evaluate` again.")
    return predictions["score"].to_numpy(dtype=float)


def _compute_last_week_rate(train: pd.DataFrame, label_column: str) -> float:
    """Compute the mean label of the last `LAST_DAYS` days of the training rows."""
    days = pd.to_datetime(train["date"])
    return float(train.loc[days > days.max() - pd.Timedelta(days=LAST_DAYS), label_column].mean())
