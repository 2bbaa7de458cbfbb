"""Append the columns of scores to rows of features, in the form in which profiles count them.

Rows of a multiclass model have `predicted`, `score` (the probability of the predicted class), `scores` (those of all
classes) and `is_right`. Profiles then treat `is_right` as the label, and `score` as its probability: they show how
often the model is right.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from pipelines.classes import predict_classes
from pipelines.dataset import Dataset
from pipelines.score_columns import IS_RIGHT, PREDICTED, SCORE, SCORES


def append_scores(dataset: Dataset, rows: pd.DataFrame, scores: Any) -> pd.DataFrame:
    """Append the columns of scores to the rows.

    Args:
        dataset: whose rows were scored.
        rows: features and label; the label is null where it is not known.
        scores: what the model returned: shape (rows,), or of a multiclass model a frame with a column for each class.
    """
    if dataset.task != "multiclass":
        return rows.assign(**{SCORE: scores})
    predictions = predict_classes(scores).set_index(rows.index)
    labels = rows[dataset.label]
    is_right = (labels.astype(str) == predictions[PREDICTED]).astype("boolean").mask(labels.isna())
    return rows.join(predictions).assign(**{SCORES: _map_scores(scores, rows.index), IS_RIGHT: is_right})


def _map_scores(scores: pd.DataFrame, index: pd.Index[Any]) -> pd.Series[Any]:
    """Return a map of class to probability for each row."""
    rows, classes = scores.shape
    names = pa.array(list(scores.columns), pa.string()).take(np.tile(np.arange(classes), rows))
    values = pa.array(scores.to_numpy(dtype=float).ravel())
    maps = pa.MapArray.from_arrays(pa.array(np.arange(rows + 1) * classes, pa.int32()), names, values)
    return pd.Series(pd.arrays.ArrowExtensionArray(maps), index=index)


def list_score_fields(dataset: Dataset) -> list[pa.Field]:
    """List the fields that `append_scores` appends."""
    score = pa.field(SCORE, pa.float64())
    if dataset.task != "multiclass":
        return [score]
    scores = pa.field(SCORES, pa.map_(pa.string(), pa.float64()))
    return [pa.field(PREDICTED, pa.string()), score, scores, pa.field(IS_RIGHT, pa.bool_())]


def list_stored_scores(dataset: Dataset) -> list[str]:
    """List the columns of scores that the tables of predictions and outcomes have."""
    return [field.name for field in list_score_fields(dataset) if field.name != IS_RIGHT]
