"""Read the files of `preprocess` and `evaluate` that the gate needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.classes import encode_labels, list_classes, read_scores, select_scores, split_quantiles
from pipelines.dataset import Dataset, Task
from pipelines.errors import DataError
from pipelines.evaluation.gates.holdout import Array, Holdout
from pipelines.evaluation.own_metrics import load_own_metrics
from pipelines.score_columns import SCORE_PREFIX, name_score_columns
from pipelines.system.data_files import read_parquet

LAST_DAYS = 7
"""Number of days at the end of the training rows. One of the baselines predicts the mean label of these days."""


def read_holdout(
    dataset: Dataset, features: Path, evaluation: Path, score_champion: Callable[[pd.DataFrame], Any] | None
) -> Holdout:
    """Read the rows of the holdout with the candidate's scores, and score them with the champion.

    Args:
        dataset: dataset of the model.
        features: folder with train/ and holdout/.
        evaluation: folder with predictions.parquet.
        score_champion: takes rows, and returns the scores that the champion's package computes for them; None if
            there is no champion to compare with.

    Raises:
        DataError: a file does not exist or is damaged, or the rows cannot be judged. A retry cannot help.
        SpecError: the dataset's metrics.py is not valid. A retry cannot help.
    """
    columns = (*dataset.key, dataset.label, "date")
    rows, train = (
        read_parquet(features / split / "data.parquet", "preprocess", columns) for split in ("holdout", "train")
    )
    classes = list_classes(train[dataset.label]) if dataset.task == "multiclass" else []
    predictions = _read_predictions(dataset, evaluation, rows, classes)
    champion_scores = score_champion(rows) if score_champion else None
    champion_score, champion_quantiles = (
        (None, {}) if champion_scores is None else _split_champion_scores(champion_scores, classes, dataset.task)
    )
    return Holdout(
        label=read_labels(rows[dataset.label], classes),
        candidate_score=read_scores(predictions, classes),
        champion_score=champion_score,
        candidate_quantiles=read_quantiles(predictions) if dataset.task == "regression" else {},
        champion_quantiles=champion_quantiles,
        features=rows,
        base_rate=compute_mean_label(train[dataset.label], classes),
        last_week_rate=compute_mean_label(_select_last_week(train)[dataset.label], classes),
        task=dataset.task,
        own_metrics=load_own_metrics(dataset),
        classes=classes,
    )


def compute_mean_label(labels: pd.Series[Any], classes: Sequence[str]) -> float | Array:
    """Compute the mean label; if there are classes, the share of each class, shape (classes,)."""
    if not classes:
        return float(labels.mean())
    return np.bincount(encode_labels(labels, classes), minlength=len(classes)) / len(labels)


def read_labels(labels: pd.Series[Any], classes: Sequence[str]) -> Array:
    """Return the labels as numbers; if there are classes, the index of each row's class.

    Raises:
        DataError: a label is not one of the classes. A retry cannot help.
    """
    if not classes:
        return labels.to_numpy(dtype=float)
    try:
        return encode_labels(labels, classes)
    except ValueError as error:
        raise DataError(f"{error}. These are the classes of the training rows.", "Run `preprocess` again.") from None


def read_quantiles(rows: pd.DataFrame) -> dict[str, Array]:
    """Return the quantiles that `evaluate` stored for each row, ascending; empty if it stored none."""
    names = [name.removeprefix(SCORE_PREFIX) for name in map(str, rows) if name.startswith(SCORE_PREFIX)]
    return {name: rows[f"{SCORE_PREFIX}{name}"].to_numpy(dtype=float) for name in sorted(names, key=float)}


def _split_champion_scores(scores: Any, classes: Sequence[str], task: Task) -> tuple[Array, dict[str, Array]]:
    """Return the champion's scores, and in a regression its quantiles."""
    try:
        return split_quantiles(scores) if task == "regression" else (select_scores(scores, classes), {})
    except ValueError as error:
        message = f"the champion cannot be compared: {error}."
        raise DataError(message, "Register models of another task under another name.") from None


def _read_predictions(dataset: Dataset, evaluation: Path, rows: pd.DataFrame, classes: Sequence[str]) -> pd.DataFrame:
    """Read the candidate's scores of each row of the holdout; refuse scores of other rows."""
    path, key = evaluation / "predictions.parquet", list(dataset.key)
    predictions = read_parquet(path, "evaluate", (*key, *name_score_columns(classes)))
    if not predictions[key].reset_index(drop=True).equals(rows[key].reset_index(drop=True)):
        raise DataError(f"{path} does not belong to this holdout.", "Run `evaluate` again.")
    return predictions


def _select_last_week(train: pd.DataFrame) -> pd.DataFrame:
    """Select the training rows of the last `LAST_DAYS` days of the training."""
    days = pd.to_datetime(train["date"])
    return train[days > days.max() - pd.Timedelta(days=LAST_DAYS)]
