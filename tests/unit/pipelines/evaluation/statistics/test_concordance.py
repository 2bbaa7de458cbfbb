"""Test the concordance against all pairs of a small sample, and against the AUC."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from pipelines.evaluation.statistics.concordance import compute_concordance

RANDOM = np.random.default_rng(3)


def count_pairs(label: np.ndarray, score: np.ndarray) -> float:
    """Count each pair of rows with different labels."""
    signs = [
        np.sign((label[i] - label[k]) * (score[i] - score[k]))
        for i, k in combinations(range(len(label)), 2)
        if label[i] != label[k]
    ]
    return float(np.mean([(sign + 1) / 2 for sign in signs]))


@pytest.mark.parametrize("values", [3, 1_000])
def test_counts_all_pairs_with_ties(values: int) -> None:
    label, score = RANDOM.integers(0, values, size=(2, 80)).astype(float)
    assert compute_concordance(label, score) == pytest.approx(count_pairs(label, score))


def test_equals_the_auc_of_two_labels() -> None:
    label, score = RANDOM.integers(0, 2, size=500), RANDOM.normal(size=500).round(1)
    assert compute_concordance(label, score) == pytest.approx(roc_auc_score(label, score))


def test_a_constant_score_orders_nothing() -> None:
    assert compute_concordance(np.arange(5.0), np.ones(5)) == 0.5
