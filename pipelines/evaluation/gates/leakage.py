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
"""Smallest number of rows with a value for which a feature's AUC is computed. With fewer, it may be high by chance."""


def check_single_features(holdout: Holdout, features: Sequence[str], bound: float) -> Check:
    """Check that the AUC of each feature alone, in either direction, is at most the bound.

    In a regression, check the concordance. For a multiclass model, check the largest AUC of one class against the rest.

    Raises:
        DataError: a feature is not among the columns. A retry cannot help.
    """
    metric = "concordance" if holdout.task == "regression" else "AUC"
    values = {name: _compute_largest(holdout, holdout.get_column(name)) for name in features}
    if not values:
        return report_value(f"{metric} of one feature alone", "there are no features")
    name = max(values, key=values.__getitem__)
    return check_value(f"{metric} of one feature alone ({name})", values[name], at_most=bound)


def _compute_largest(holdout: Holdout, values: pd.Series[Any]) -> float:
    """Compute the concordance of a feature alone; for a multiclass model, the largest over the classes."""
    labels = [holdout.label]
    if holdout.task == "multiclass":
        members = [holdout.label == number for number in range(len(holdout.classes))]
        labels = [is_member.astype(float) for is_member in members if is_member.sum() >= MIN_ROWS]
    return max((compute_concordance_alone(label, values) for label in labels), default=0.5)


def compute_concordance_alone(label: Array, values: pd.Series[Any]) -> float:
    """Compute the concordance of one feature alone, in its better direction: at least 0.5.

    For two labels, it is the AUC. Missing values are left out. A category is scored by its mean label in the other half
    of the rows. A column of unique names then has no information.
    """
    has_value = values.notna().to_numpy()
    truth = label[has_value]
    if has_value.sum() < MIN_ROWS or len(np.unique(truth)) < 2:
        return 0.5
    value = compute_concordance(truth, _score_rows(truth, values[has_value]))
    return max(value, 1.0 - value)


def _score_rows(label: Array, values: pd.Series[Any]) -> Array:
    """Return a score for each row: a number unchanged; for a category, its mean label in the other half of the rows."""
    if is_numeric_dtype(values) and not is_bool_dtype(values):
        return values.to_numpy(dtype=float)
    half_numbers = np.arange(len(label)) % 2
    category, score = values.astype(str).to_numpy(), np.full(len(label), label.mean())
    for half_number in (0, 1):
        half, other_half = half_numbers == half_number, half_numbers != half_number
        rates = pd.Series(label[other_half]).groupby(category[other_half]).mean()
        score[half] = pd.Series(category[half]).map(rates).fillna(label.mean()).to_numpy()
    return score
