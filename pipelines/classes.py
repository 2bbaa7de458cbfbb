"""List the classes of a multiclass model, and convert a model's scores of classes or quantiles to arrays and columns.

The module is part of the training job's source bundle and of the MLflow model. So it imports only pandas, numpy, the
standard library, and `pipelines.score_columns`, which is part of both, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipelines.score_columns import MEDIAN, PREDICTED, SCORE, SCORE_PREFIX, name_score_columns


def predict_classes(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the columns `predicted` and `score`: the class with the largest probability, and this probability.

    Args:
        scores: a column for each class, and no missing value.
    """
    values = scores.to_numpy(dtype=float)
    predicted_classes = scores.columns.to_numpy(dtype=object)[values.argmax(axis=1)]
    return pd.DataFrame({PREDICTED: predicted_classes, SCORE: values.max(axis=1)}, index=scores.index)


def list_classes(labels: pd.Series[Any]) -> list[str]:
    """List the names of the classes that are in the labels: texts sorted as texts, numbers sorted as numbers."""
    return [str(value) for value in sorted(labels.dropna().unique())]


def encode_labels(labels: pd.Series[Any], classes: Sequence[str]) -> np.ndarray[Any, Any]:
    """Return the index of each label in `classes`, shape (rows,).

    Raises:
        ValueError: a label is not one of the classes.
    """
    indices = pd.Index(classes).get_indexer(pd.Index(labels.astype(str)))
    if (indices < 0).any():
        unknown_label = labels[indices < 0].iloc[0]
        raise ValueError(f"the label {unknown_label!r} is not one of the classes {', '.join(classes)[:200]}")
    return np.asarray(indices)


def tabulate_scores(scores: Any) -> pd.DataFrame:
    """Return the columns of a file of scores: `score`, or `score_NAME` for each class or quantile.

    Args:
        scores: what a model returned: a number for each row, or a frame with a column for each class or quantile.
    """
    if isinstance(scores, pd.DataFrame):
        return scores.add_prefix(SCORE_PREFIX)
    return pd.DataFrame({SCORE: np.asarray(scores, dtype=float)})


def select_scores(scores: Any, classes: Sequence[str]) -> np.ndarray[Any, Any]:
    """Convert the output of a model to numbers: shape (rows,), or (rows, classes) if there are classes.

    A class that the model does not know has the probability 0.

    Args:
        scores: what a model returned: a number for each row; if there are classes, a frame with a column for each one.
        classes: names of the classes; empty if the task is not multiclass.

    Raises:
        ValueError: there are classes, and the model returned no frame.
    """
    if classes and not isinstance(scores, pd.DataFrame):
        raise ValueError("the model returned no column for each class")
    if classes:
        scores = scores.reindex(columns=list(classes), fill_value=0.0)
    return np.asarray(scores, dtype=float)


def read_scores(rows: pd.DataFrame, classes: Sequence[str]) -> np.ndarray[Any, Any]:
    """Read the scores from rows with the columns of `tabulate_scores`; shape (rows,), or (rows, classes).

    Raises:
        KeyError: a column is missing.
    """
    columns = name_score_columns(classes)
    return rows[columns if classes else SCORE].to_numpy(dtype=float)


def split_quantiles(scores: Any) -> tuple[np.ndarray[Any, Any], dict[str, np.ndarray[Any, Any]]]:
    """Return the scores of a regression, shape (rows,), and its quantiles by their names; empty if it has none.

    Args:
        scores: what the model returned: a number for each row, or a frame with a column for each quantile. The median
            is then the score, because a model of quantiles predicts no mean.

    Raises:
        ValueError: the name of a column is not a number between 0 and 1, the median is missing, or the quantiles of a
            row are not in ascending order.
    """
    if not isinstance(scores, pd.DataFrame):
        return np.asarray(scores, dtype=float), {}
    names = sorted(map(str, scores.columns), key=_read_quantile)
    if MEDIAN not in names:
        raise ValueError(f"the model returned the columns {', '.join(names)[:200]}, without the median, {MEDIAN}")
    values = scores.set_axis(list(map(str, scores.columns)), axis=1)[names].to_numpy(dtype=float)
    if crossing_rows := int((np.diff(values, axis=1) < 0).any(axis=1).sum()):
        raise ValueError(f"the quantiles of {crossing_rows} of {len(values)} rows are not in ascending order")
    quantiles = {name: values[:, column] for column, name in enumerate(names)}
    return quantiles[MEDIAN], quantiles


def _read_quantile(name: str) -> float:
    try:
        quantile = float(name)
    except ValueError:
        quantile = 0.0
    if not 0 < quantile < 1:
        raise ValueError(f"the model of a regression returned a column {name[:100]!r}, which is not a quantile")
    return quantile
