"""Check for leaks: a single feature that predicts the label too well by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from pipelines.evaluation.gates.checks import check_value, report_value
from pipelines.evaluation.gates.holdout import Array, Holdout
from pipelines.evaluation.gates.verdict import Check
from pipelines.evaluation.statistics.concordance import compute_concordance

MIN_ROWS = 100
"""Smallest number of rows for which a feature's AUC is computed. With fewer rows, the AUC may be high by chance."""


def check_single_features(holdout: Holdout, features: Sequence[str], bound: float) -> Check:
    """Check that the AUC of each feature alone, in either direction, is at most the bound.

    In a regression, check the concordance. For a multiclass model, check the largest AUC of one class against the rest.
    If there are no features, nothing is checked, and the outcome is `reported`.

    Raises:
        DataError: a feature is not among the columns. A retry cannot help.
    """
    metric = "concordance" if holdout.task == "regression" else "AUC"
    values = {name: _compute_largest_concordance(holdout, holdout.get_column(name)) for name in features}
    if not values:
        return report_value(f"{metric} of one feature alone", "there are no features")
    name = max(values, key=values.__getitem__)
    return check_value(f"{metric} of one feature alone ({name})", values[name], at_most=bound)


def _compute_largest_concordance(holdout: Holdout, values: pd.Series[Any]) -> float:
    """Compute the concordance of a feature alone; for a multiclass model, the largest over the classes.

    Classes with fewer than `MIN_ROWS` rows are left out.
    """
    labels = [holdout.label]
    if holdout.task == "multiclass":
        masks = [holdout.label == class_index for class_index in range(len(holdout.classes))]
        labels = [mask.astype(float) for mask in masks if mask.sum() >= MIN_ROWS]
    return max((compute_concordance_alone(label, values) for label in labels), default=0.5)


def compute_concordance_alone(label: Array, values: pd.Series[Any]) -> float:
    """Compute the concordance of one feature alone, in its better direction: at least 0.5.

    If the label has two values, the concordance is the AUC. The score of a category is its mean label in the other half
    of the rows, so a column of unique names predicts nothing. A missing value is treated as a value: a number below or
    above all others, or a category. If the concordance of the rows with a value is larger, it is returned, so missing
    values cannot hide a leak. With fewer than `MIN_ROWS` rows or only one label, the result is 0.5.
    """
    has_value = values.notna().to_numpy()
    value = _compute_concordance(label[has_value], values[has_value])
    return value if has_value.all() else max(value, _compute_concordance(label, values))


def _compute_concordance(label: Array, values: pd.Series[Any]) -> float:
    if len(label) < MIN_ROWS or len(np.unique(label)) < 2:
        return 0.5
    concordances = [compute_concordance(label, score) for score in _list_scores(label, values)]
    return max(max(value, 1.0 - value) for value in concordances)


def _list_scores(label: Array, values: pd.Series[Any]) -> list[Array]:
    """Return scores by which the feature may order the rows.

    For numbers with missing values, there are two scores: one with missing values as the smallest number, and one with
    them as the largest. All other values, such as texts and booleans, are categories: see `_score_categories`.
    """
    if is_numeric_dtype(values) and not is_bool_dtype(values):
        numbers = values.to_numpy(dtype=float, na_value=np.nan)
        is_missing = np.isnan(numbers)
        replacements = (-np.inf, np.inf) if is_missing.any() else (0.0,)
        return [np.where(is_missing, replacement, numbers) for replacement in replacements]
    return [_score_categories(label, pd.factorize(values, use_na_sentinel=False)[0])]


def _score_categories(label: Array, category: Array) -> Array:
    """Return the mean label of each row's category in the other half of the rows; of all rows if it is not there."""
    half_numbers = np.arange(len(label)) % 2
    score = np.full(len(label), label.mean())
    for half_number in (0, 1):
        half, other_half = half_numbers == half_number, half_numbers != half_number
        rates = pd.Series(label[other_half]).groupby(category[other_half]).mean()
        score[half] = pd.Series(category[half]).map(rates).fillna(label.mean()).to_numpy()
    return score
