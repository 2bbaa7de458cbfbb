"""Validate the arguments that all statistics have: labels, scores, weights and alpha."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipelines.dataset import Task
from pipelines.errors import DataError, SpecError

Array = np.ndarray[Any, Any]


def validate_rows(label: Array, *scores: Array) -> tuple[Array, list[Array]]:
    """Check labels and scores of binary models; return the labels as booleans and the scores as float64.

    Args:
        label: shape (rows,), 0 or 1, both present.
        scores: each of shape (rows,), finite.

    Raises:
        DataError: the labels or the scores are not as described. A retry cannot help.
    """
    label = np.asarray(label)
    if label.ndim != 1 or not len(label):
        raise DataError("there are no rows to measure on.")
    if not np.isin(label, (0, 1)).all():
        raise DataError("a label is neither 0 nor 1.")
    if (label == label[0]).all():
        raise DataError(f"all {len(label)} rows have the label {int(label[0])}: nothing can be measured.")
    return label == 1, [validate_numbers(score, len(label), "score") for score in scores]


def validate_labels(task: Task, label: Array, *scores: Array) -> tuple[Array, list[Array]]:
    """Check labels and scores by the task. Return the labels and the scores.

    Args:
        task: task of the model.
        label: shape (rows,). Binary: 0 or 1. Multiclass: the index of each row's class. Regression: finite numbers.
        scores: each of shape (rows,); multiclass: (rows, classes); quantiles of a regression: (rows, quantiles).

    Returns:
        The labels as booleans, as integers, or in a regression as float64; and the scores as float64.

    Raises:
        DataError: the labels or the scores are not as described, or all labels are equal. A retry cannot help.
    """
    if task == "binary":
        return validate_rows(label, *scores)
    if task == "multiclass":
        return _validate_classes(np.asarray(label), scores)
    label = np.asarray(label)
    if label.ndim != 1 or not len(label):
        raise DataError("there are no rows to measure on.")
    values = validate_numbers(label, len(label), "label")
    if (values == values[0]).all():
        raise DataError(f"all {len(values)} rows have the label {values[0]:g}: nothing can be measured.")
    return values, [_validate_columns(score, len(values)) for score in scores]


def _validate_columns(score: Array, rows: int) -> Array:
    """Check the scores of a regression, shape (rows,), or its quantiles, shape (rows, quantiles)."""
    if np.ndim(score) != 2:
        return validate_numbers(score, rows, "score")
    return np.column_stack([validate_numbers(column, rows, "score") for column in score.T])


def _validate_classes(label: Array, scores: Sequence[Array]) -> tuple[Array, list[Array]]:
    if label.ndim != 1 or not len(label):
        raise DataError("there are no rows to measure on.")
    if not np.issubdtype(label.dtype, np.integer) or label.min() < 0:
        raise DataError("a label is not the index of a class.")
    if (label == label[0]).all():
        raise DataError(f"all {len(label)} rows have the same class: nothing can be measured.")
    for score in scores:
        if np.ndim(score) != 2 or len(score) != len(label) or score.shape[1] <= label.max():
            raise DataError(f"there are {len(label)} labels of {label.max() + 1} classes, but scores of {score.shape}.")
        if invalid_rows := int((~np.isfinite(score)).any(axis=1).sum()):
            raise DataError(f"the score is not a finite number for {invalid_rows} of {len(label)} rows.")
    return label, [np.asarray(score, dtype=np.float64) for score in scores]


def find_strata(label: Array) -> list[Array]:
    """Return the rows of each stratum: of each label (1 first) or of each class; in a regression, all rows together."""
    if np.issubdtype(label.dtype, np.integer):
        return [np.flatnonzero(label == number) for number in np.unique(label)]
    return [np.flatnonzero(label), np.flatnonzero(~label)] if label.dtype == bool else [np.arange(len(label))]


def validate_numbers(values: Array, rows: int, name: str) -> Array:
    """Check that there is one finite number for each row; return `values` as float64.

    Args:
        values: shape (rows,).
        rows: number of rows.
        name: what a value is, for the error message.

    Raises:
        DataError: a value is missing or not finite. A retry cannot help.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.shape != (rows,):
        raise DataError(f"there are {rows} labels, but {name}s of shape {values.shape}.")
    if invalid_rows := rows - int(np.isfinite(values).sum()):
        raise DataError(f"the {name} is not a finite number for {invalid_rows} of {rows} rows.")
    return values


def validate_probabilities(score: Array) -> Array:
    """Check that each score is a probability; return `score` unchanged.

    Raises:
        DataError: a score is below 0 or above 1. A retry cannot help.
    """
    if invalid_rows := int(((score < 0) | (score > 1)).sum()):
        raise DataError(f"the score is not a probability for {invalid_rows} of {len(score)} rows.")
    return score


def validate_alpha(alpha: float) -> float:
    """Check that alpha is between 0 and 0.5; return it unchanged.

    Raises:
        SpecError: alpha is not between 0 and 0.5. A retry cannot help.
    """
    if not 0 < alpha < 0.5:
        raise SpecError(f"alpha is {alpha}, not between 0 and 0.5.")
    return alpha
