"""Read what `preprocess` and `evaluate` wrote, for the gate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.evaluation.gates.holdout import Array, Holdout

LAST_DAYS = 7
"""Days at the end of the training rows. A model that only follows the season would predict their rate for every row."""


def read_holdout(
    dataset: Dataset, features: Path, evaluation: Path, score_champion: Callable[[pd.DataFrame], Any] | None
) -> Holdout:
    """Read the rows of the holdout with the candidate's scores, and score them with the champion.

    Args:
        dataset: of the model.
        features: folder with train/ and holdout/.
        evaluation: folder with predictions.parquet.
        score_champion: takes the rows, returns the champion's scores; None where there is no champion to compare with.

    Raises:
        DataError: a file does not exist, or the rows cannot be judged. A retry cannot help.
    """
    rows, train = (read_table(features / split / "data.parquet", "preprocess") for split in ("holdout", "train"))
    return Holdout(
        label=rows[dataset.label].to_numpy(dtype=float),
        candidate_score=_read_scores(dataset, evaluation, rows),
        champion_score=score_champion(rows) if score_champion else None,
        features=rows,
        base_rate=float(train[dataset.label].mean()),
        last_week_rate=_compute_last_rate(train, dataset.label),
    )


def read_table(path: Path, step: str) -> pd.DataFrame:
    """Read a Parquet file that a step wrote.

    Raises:
        DataError: there is no such file. A retry cannot help.
    """
    if not path.exists():
        raise DataError(f"{path} does not exist.", f"The step `{step}` writes it.")
    return pd.read_parquet(path)


def _read_scores(dataset: Dataset, evaluation: Path, rows: pd.DataFrame) -> Array:
    """Read the candidate's score of each row of the holdout; refuse scores of other rows."""
    path, key = evaluation / "predictions.parquet", list(dataset.key)
    predictions = read_table(path, "evaluate")
    if "score" not in predictions or not predictions[key].reset_index(drop=True).equals(
        rows[key].reset_index(drop=True)
    ):
        raise DataError(f"{path} does not belong to this holdout.", "Run `evaluate` again.")
    return predictions["score"].to_numpy(dtype=float)


def _compute_last_rate(train: pd.DataFrame, label: str) -> float:
    days = pd.to_datetime(train["date"])
    return float(train.loc[days > days.max() - pd.Timedelta(days=LAST_DAYS), label].mean())
