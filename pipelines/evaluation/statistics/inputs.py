"""What all statistics ask of their rows, checked once, with one clear line where it is not so."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipelines.errors import DataError, SpecError

Array = np.ndarray[Any, Any]


def labelled(label: Array, *scores: Array) -> tuple[Array, list[Array]]:
    """The labels as booleans and the scores as float64.

    Args:
        label: shape (rows,), 0 or 1, both of them there.
        scores: each of shape (rows,), finite.

    Raises:
        DataError: it is not so.
    """
    label = np.asarray(label)
    if label.ndim != 1 or not len(label):
        raise DataError("there are no rows to measure on.")
    if not np.isin(label, (0, 1)).all():
        raise DataError("a label is neither 0 nor 1.")
    if (label == label[0]).all():
        raise DataError(f"all {len(label)} rows have the label {int(label[0])}: nothing can be measured.")
    return label == 1, [numbers(score, len(label), "score") for score in scores]


def numbers(values: Array, rows: int, what: str) -> Array:
    """`values` as float64.

    Raises:
        DataError: they are not one finite number a row.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.shape != (rows,):
        raise DataError(f"there are {rows} labels, but {what}s of shape {values.shape}.")
    if wrong := rows - int(np.isfinite(values).sum()):
        raise DataError(f"the {what} is not a number for {wrong} of {rows} rows.")
    return values


def chances(score: Array) -> Array:
    """`score`, where it is a probability.

    Raises:
        DataError: one is below 0 or above 1.
    """
    if wrong := int(((score < 0) | (score > 1)).sum()):
        raise DataError(f"the score is not a probability for {wrong} of {len(score)} rows.")
    return score


def level(alpha: float) -> float:
    """`alpha`, where it is one.

    Raises:
        SpecError: it is not between 0 and a half.
    """
    if not 0 < alpha < 0.5:
        raise SpecError(f"alpha is {alpha}, not between 0 and 0.5.")
    return alpha
