"""Append the columns of scores to rows of features, in the form in which profiles count them.

Rows of a multiclass model have `predicted`, `score` (the probability of the predicted class) and `is_right`. Profiles
then treat `is_right` as the label, and `score` as its probability: they show how often the model is right.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa

from pipelines.classes import predict_classes
from pipelines.dataset import Dataset
from pipelines.score_columns import IS_RIGHT, PREDICTED, SCORE


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
    return rows.join(predictions).assign(**{IS_RIGHT: is_right})


def list_score_fields(dataset: Dataset) -> list[pa.Field]:
    """List the fields that `append_scores` appends."""
    score = pa.field(SCORE, pa.float64())
    if dataset.task != "multiclass":
        return [score]
    return [pa.field(PREDICTED, pa.string()), score, pa.field(IS_RIGHT, pa.bool_())]
