"""The sentinel against leaks: a single feature that by itself tells the label too well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from pipelines.evaluation.gates.checks import exact, reported
from pipelines.evaluation.gates.holdout import Array, Holdout
from pipelines.evaluation.gates.verdict import Check
from pipelines.evaluation.statistics import delong

FEW = 100
"""Rows with a value, below which a feature's AUC is chance."""


def sentinel(rows: Holdout, features: Sequence[str], bound: float) -> Check:
    """No feature's own AUC, either way round, is above the bound.

    Raises:
        DataError: a feature is not among the columns.
    """
    alone = {name: solo_auc(rows.label, rows.column(name)) for name in features}
    if not alone:
        return reported("AUC of one feature alone", "there are no features")
    name = max(alone, key=alone.__getitem__)
    return exact(f"AUC of one feature alone ({name})", alone[name], at_most=bound)


def solo_auc(label: Array, values: pd.Series[Any]) -> float:
    """AUC of one feature by itself, at least 0.5. Rows without a value are left out.

    A category is scored by its rate of 1 in the other half of the rows, so that a column of unique names tells nothing.
    """
    known = values.notna().to_numpy()
    truth = label[known]
    if known.sum() < FEW or len(np.unique(truth)) < 2:
        return 0.5
    score = _score(truth, values[known])
    area = delong.auc(truth, score, alpha=0.05).value
    return max(area, 1.0 - area)


def _score(label: Array, values: pd.Series[Any]) -> Array:
    if is_numeric_dtype(values) and not is_bool_dtype(values):
        return values.to_numpy(dtype=float)
    half = np.arange(len(label)) % 2
    text, score = values.astype(str).to_numpy(), np.full(len(label), label.mean())
    for one in (0, 1):
        rates = pd.Series(label[half != one]).groupby(text[half != one]).mean()
        score[half == one] = pd.Series(text[half == one]).map(rates).fillna(label.mean()).to_numpy()
    return score
