"""Read the files of `preprocess` and `evaluate` that the gate needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.classes import list_classes, number_labels, read_scores, select_scores
from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.evaluation.gates.holdout import Array, Holdout
from pipelines.evaluation.own_metrics import load_own_metrics
from pipelines.score_columns import name_score_columns
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
        score_champion: takes the rows, returns what the champion's package returns; None where there is no champion to
            compare with.

    Raises:
        DataError: a file does not exist or is damaged, or the rows cannot be judged. A retry cannot help.
    """
    columns = (*dataset.key, dataset.label, "date")
    rows, train = (
        read_parquet(features / split / "data.parquet", "preprocess", columns) for split in ("holdout", "train")
    )
    classes = list_classes(train[dataset.label]) if dataset.task == "multiclass" else []
    return Holdout(
        label=read_labels(rows[dataset.label], classes),
        candidate_score=_read_candidate_scores(dataset, evaluation, rows, classes),
        champion_score=_read_champion_scores(score_champion(rows), classes) if score_champion else None,
        features=rows,
        base_rate=compute_rate(train[dataset.label], classes),
        last_week_rate=compute_rate(_select_last_week(train)[dataset.label], classes),
        task=dataset.task,
        own_metrics=load_own_metrics(dataset),
        classes=classes,
    )


def compute_rate(labels: pd.Series[Any], classes: Sequence[str]) -> float | Array:
    """Compute the mean label; where there are classes, the share of each one, shape (classes,)."""
    if not classes:
        return float(labels.mean())
    return np.bincount(number_labels(labels, classes), minlength=len(classes)) / len(labels)


def read_labels(labels: pd.Series[Any], classes: Sequence[str]) -> Array:
    """Return the labels as numbers; where there are classes, the number of each label's class.

    Raises:
        DataError: a label is not one of the classes. A retry cannot help.
    """
    if not classes:
        return labels.to_numpy(dtype=float)
    try:
        return number_labels(labels, classes)
    except ValueError as error:
        raise DataError(f"{error} of train.", "Run `preprocess` again.") from None


def _read_champion_scores(scores: Any, classes: Sequence[str]) -> Array:
    try:
        return select_scores(scores, classes)
    except ValueError:
        message = "the champion does not predict classes, and cannot be compared."
        raise DataError(message, "Register models of another task under another name.") from None


def _read_candidate_scores(dataset: Dataset, evaluation: Path, rows: pd.DataFrame, classes: Sequence[str]) -> Array:
    """Read the candidate's score of each row of the holdout; refuse scores of other rows."""
    path, key = evaluation / "predictions.parquet", list(dataset.key)
    predictions = read_parquet(path, "evaluate", (*key, *name_score_columns(classes)))
    if not predictions[key].reset_index(drop=True).equals(rows[key].reset_index(drop=True)):
        raise DataError(f"{path} does not belong to this holdout.", "Run `evaluate` again.")
    return read_scores(predictions, classes)


def _select_last_week(train: pd.DataFrame) -> pd.DataFrame:
    """Select the rows of the last `LAST_DAYS` days of the training rows."""
    days = pd.to_datetime(train["date"])
    return train[days > days.max() - pd.Timedelta(days=LAST_DAYS)]
