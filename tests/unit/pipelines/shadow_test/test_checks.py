"""Test each check of a shadow, with a version that passes it and one that does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipelines.shadow_test.limits import ShadowLimits
from pipelines.shadow_test.score_checks import check_agreement, check_drift
from pipelines.shadow_test.traffic_checks import check_errors, check_latency
from pipelines.shadow_test.variant_metrics import VariantMetrics

RANDOM = np.random.default_rng(13)
SCORES = RANDOM.beta(2, 5, 2_000)
CLASSES = pd.DataFrame(RANDOM.dirichlet((3, 2, 1), 2_000), columns=["a", "b", "c"])


def build_metrics(invocations: int = 1_000, errors: int = 0, latency_ms: float = 20.0) -> VariantMetrics:
    latencies = {"Average": latency_ms, "p50": latency_ms, "p99": 3 * latency_ms} if invocations else {}
    return VariantMetrics(invocations, errors, latencies)


@pytest.mark.parametrize(
    ("champion", "challenger", "outcome"),
    [
        ((1_000, 0), (1_000, 0), "passed"),
        ((1_000, 0), (1_000, 60), "failed"),
        ((1_000, 60), (1_000, 0), "passed"),
        ((1_000, 0), (1_000, 10), "undecided"),
        ((100, 0), (100, 0), "undecided"),
        ((10, 0), (0, 0), "undecided"),
    ],
)
def test_errors(champion: tuple[int, int], challenger: tuple[int, int], outcome: str) -> None:
    assert check_errors(build_metrics(*champion), build_metrics(*challenger), ShadowLimits()).outcome == outcome


def test_no_error_in_368_requests_is_enough_for_the_default_limit() -> None:
    """The docstring of `max_error_increase` says so."""
    outcomes = [check_errors(build_metrics(rows), build_metrics(rows), ShadowLimits()).outcome for rows in (367, 368)]
    assert outcomes == ["undecided", "passed"]


@pytest.mark.parametrize(
    ("latency_ms", "limits", "outcome"),
    [
        (29.0, {}, "passed"),
        (31.0, {}, "failed"),
        (31.0, {"latency_margin_ms": 12}, "passed"),
        (31.0, {"max_latency_ratio": 2}, "passed"),
        (31.0, {"latency_statistic": "p99", "latency_margin_ms": 0, "max_latency_ratio": 1.5}, "failed"),
    ],
)
def test_latency(latency_ms: float, limits: dict[str, Any], outcome: str) -> None:
    checks = check_latency(build_metrics(), build_metrics(latency_ms=latency_ms), ShadowLimits(**limits))
    assert len(checks) == 3
    assert [check.outcome for check in checks if check.outcome != "reported"] == [outcome]
    assert all(check.timed for check in checks)


def test_latency_without_invocations_is_undecided() -> None:
    (check,) = check_latency(build_metrics(), build_metrics(0), ShadowLimits())
    assert (check.outcome, check.reason) == ("undecided", "latency (Average), ms: CloudWatch has no latency")


def test_agreement_of_scores_without_and_with_a_threshold() -> None:
    noise = np.clip(SCORES + RANDOM.normal(0, 0.02, len(SCORES)), 0, 1)
    for limits in (ShadowLimits(), ShadowLimits(threshold=0.3)):
        assert check_agreement("binary", SCORES, noise, limits).outcome == "passed"
        assert check_agreement("binary", SCORES, 1 - SCORES, limits).outcome == "failed"
    assert check_agreement("binary", SCORES[:20], SCORES[:20], ShadowLimits(threshold=0.3)).outcome == "undecided"


def test_agreement_of_classes() -> None:
    assert check_agreement("multiclass", CLASSES, CLASSES, ShadowLimits()).outcome == "passed"
    assert check_agreement("multiclass", CLASSES, CLASSES[["b", "c", "a"]], ShadowLimits()).outcome == "failed"


def test_difference_of_a_regression_is_relative_to_the_spread() -> None:
    minutes = 1_000 * SCORES
    assert check_agreement("regression", minutes, minutes + 10, ShadowLimits()).outcome == "passed"
    assert check_agreement("regression", minutes, minutes + 200, ShadowLimits()).outcome == "failed"
    assert check_agreement("regression", np.ones(100), np.ones(100), ShadowLimits()).outcome == "passed"


def test_drift_of_scores_and_of_classes() -> None:
    shuffled = RANDOM.permutation(SCORES)
    assert check_drift(SCORES, shuffled, ShadowLimits()).outcome == "passed", "only the distribution counts"
    assert check_drift(SCORES, SCORES / 2, ShadowLimits()).outcome == "failed"
    assert check_drift(SCORES[:8], SCORES[:8] / 2, ShadowLimits()).outcome == "undecided", "large, but of few rows"
    assert check_drift(CLASSES, CLASSES, ShadowLimits()).outcome == "passed"
    assert check_drift(CLASSES, CLASSES[["c", "a", "b"]], ShadowLimits()).outcome == "failed"
    assert check_drift(np.ones(200), np.ones(200), ShadowLimits()).outcome == "passed"
