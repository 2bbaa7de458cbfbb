"""Append the columns of scores to rows of features, so that profiles can count them.

Rows of a multiclass model have `predicted`, `score` (the probability of the predicted class), `scores` (the
probabilities of all classes) and `is_right`. Profiles then treat `is_right` as the label, and `score` as its
probability: they show how often the model is right. Rows of a regression have `score` (the predicted number) and
`scores` (the predicted quantiles; null if the model predicts none).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from pipelines.classes import predict_classes, split_quantiles
from pipelines.dataset import Dataset
from pipelines.score_columns import IS_RIGHT, PREDICTED, SCORE, SCORES

SCORES_TYPE = pa.map_(pa.string(), pa.float64())
"""Type of the column `scores`."""


def append_scores(dataset: Dataset, rows: pd.DataFrame, scores: Any) -> pd.DataFrame:
    """Append the columns of scores to the rows.

    Args:
        dataset: dataset of the rows.
        rows: features and label; the label is null if it is not known.
        scores: what the model returned: shape (rows,), or a frame with a column for each class or quantile.

    Raises:
        ValueError: the frame of a regression has no valid quantiles.
    """
    if dataset.task == "binary":
        return rows.assign(**{SCORE: scores})
    if dataset.task == "regression":
        predicted_numbers, quantiles = split_quantiles(scores)
        quantile_maps = _map_scores(pd.DataFrame(quantiles, rows.index), rows.index)
        return rows.assign(**{SCORE: predicted_numbers}).assign(**{SCORES: quantile_maps})
    predictions = predict_classes(scores).set_index(rows.index)
    labels = rows[dataset.label]
    is_right = (labels.astype(str) == predictions[PREDICTED]).astype("boolean").mask(labels.isna())
    return rows.join(predictions).assign(**{SCORES: _map_scores(scores, rows.index), IS_RIGHT: is_right})


def _map_scores(scores: pd.DataFrame, index: pd.Index[Any]) -> pd.Series[Any]:
    """Return a map for each row, from the names of the columns to their values; null if there are no columns."""
    row_count, column_count = scores.shape
    if not column_count:
        return pd.Series(data=None, index=index, dtype=pd.ArrowDtype(SCORES_TYPE))
    names = pa.array(list(scores.columns), pa.string()).take(np.tile(np.arange(column_count), row_count))
    values = pa.array(scores.to_numpy(dtype=float).ravel())
    maps = pa.MapArray.from_arrays(pa.array(np.arange(row_count + 1) * column_count, pa.int32()), names, values)
    return pd.Series(pd.arrays.ArrowExtensionArray(maps), index=index)


def list_score_fields(dataset: Dataset) -> list[pa.Field]:
    """List the fields that `append_scores` appends."""
    score = pa.field(SCORE, pa.float64())
    scores = pa.field(SCORES, SCORES_TYPE)
    if dataset.task != "multiclass":
        return [score] if dataset.task == "binary" else [score, scores]
    return [pa.field(PREDICTED, pa.string()), score, scores, pa.field(IS_RIGHT, pa.bool_())]


def list_stored_scores(dataset: Dataset) -> list[str]:
    """List the columns of scores that the tables of predictions and outcomes have."""
    return [field.name for field in list_score_fields(dataset) if field.name != IS_RIGHT]
