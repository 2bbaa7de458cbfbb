"""Test each check of a shadow, with a version that passes it and one that does not."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipelines.shadow_test.latency import PairedTimes, estimate_increase
from pipelines.shadow_test.limits import ShadowLimits
from pipelines.shadow_test.score_checks import check_agreement, check_drift
from pipelines.shadow_test.traffic_checks import check_errors, check_latency
from pipelines.shadow_test.variant_metrics import LatencyPoint, VariantMetrics

START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
RANDOM = np.random.default_rng(13)
SCORES = RANDOM.beta(2, 5, 2_000)
CLASSES = pd.DataFrame(RANDOM.dirichlet((3, 2, 1), 2_000), columns=["a", "b", "c"])


def build_metrics(
    invocations: int = 1_000, errors: int = 0, latency_ms: float = 20.0, minutes: int = 30
) -> VariantMetrics:
    """Return metrics whose latency differs from minute to minute, in the same way for all versions."""
    latencies = {"Average": latency_ms, "p50": latency_ms, "p99": 3 * latency_ms} if invocations else {}
    by_time = {
        statistic: {
            START + dt.timedelta(minutes=minute): LatencyPoint(value * (1 + minute % 7 / 10), 40)
            for minute in range(minutes)
        }
        for statistic, value in latencies.items()
    }
    return VariantMetrics(invocations, errors, latencies, by_time)


def draw_times(factor: float, requests: int = 2_000, extra_ms: float = 0.0) -> PairedTimes:
    """Return times of requests during load that lasts; the challenger's are longer by a factor and by milliseconds."""
    random = np.random.default_rng(5)
    load = np.repeat(random.normal(size=-(-requests // 50)), 50)[:requests]
    champion, challenger = (20 * np.exp(0.3 * load + 0.2 * random.normal(size=requests)) for _ in range(2))
    return PairedTimes(champion, factor * challenger + extra_ms)


NO_TIMES = PairedTimes(np.array([]), np.array([]))


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
        (26.0, {}, "passed"),
        (34.0, {}, "failed"),
        (34.0, {"latency_margin_ms": 22}, "passed"),
        (34.0, {"max_latency_ratio": 2}, "passed"),
        (34.0, {"latency_statistic": "p99", "latency_margin_ms": 0, "max_latency_ratio": 1.5}, "failed"),
    ],
)
def test_latency_by_minutes(latency_ms: float, limits: dict[str, Any], outcome: str) -> None:
    """No answer has its time, as with a container of another kind."""
    checks = check_latency(NO_TIMES, build_metrics(), build_metrics(latency_ms=latency_ms), ShadowLimits(**limits))
    assert len(checks) == 4
    assert [check.outcome for check in checks if check.outcome != "reported"] == [outcome], checks[0].reason
    assert all(check.timed for check in checks)


@pytest.mark.parametrize("statistic", ["Average", "p50", "p99"])
@pytest.mark.parametrize(
    ("factor", "requests", "outcome", "finding"),
    [
        (1.0, 2_000, "passed", "shows no difference"),
        (0.6, 2_000, "passed", "is faster"),
        (1.2, 10_000, "passed", "is slower"),
        (2.5, 2_000, "failed", "is slower"),
        (1.5, 1_000, "undecided", "is slower"),
    ],
)
def test_latency_by_requests(statistic: str, factor: float, requests: int, outcome: str, finding: str) -> None:
    limits = ShadowLimits(latency_statistic=statistic, latency_margin_ms=0)
    times, metrics = draw_times(factor, requests), build_metrics(minutes=0)
    check, *reports = check_latency(times, metrics, metrics, limits)
    assert check.outcome == outcome, check.reason
    assert check.reason.endswith(finding) and check.low is not None and check.high is not None
    assert check.name == f"increase of the time of the scores ({statistic}), ms"
    assert [report.outcome for report in reports] == ["reported"] * 3


@pytest.mark.parametrize(("statistic", "needed"), [("Average", 100), ("p50", 100), ("p99", 1_000)])
def test_latency_of_few_pairs_is_undecided(statistic: str, needed: int) -> None:
    limits, metrics = ShadowLimits(latency_statistic=statistic), build_metrics(minutes=4)
    check, *_ = check_latency(draw_times(9, needed - 1), metrics, metrics, limits)
    assert check.outcome == "undecided"
    assert f"too few times of both versions: {needed - 1} of {needed} requests and 4 of 5 minutes" in check.reason
    assert check_latency(draw_times(9, needed), metrics, metrics, limits)[0].outcome == "failed"
    (alone,) = check_latency(NO_TIMES, build_metrics(), build_metrics(0), limits)
    assert (alone.outcome, "0 of 5 minutes" in alone.reason) == ("undecided", True)


def test_slow_minutes_fail_although_the_scores_are_as_fast() -> None:
    checks = check_latency(draw_times(1), build_metrics(), build_metrics(latency_ms=60), ShadowLimits())
    assert [check.outcome for check in checks[:2]] == ["passed", "failed"]


def test_interval_misses_the_true_increase_about_as_often_as_alpha_says() -> None:
    """The load lasts, so requests are related. An interval from their number alone misses it far more often."""
    random, misses, naive_misses, limits = np.random.default_rng(3), 0, 0, ShadowLimits(latency_margin_ms=1_000)
    for _ in range(200):
        load = np.repeat(random.normal(size=40), 25)
        champion, challenger = (20 + 5 * random.normal(size=1_000) + factor * load for factor in (5, 10))
        increase, *_ = estimate_increase(PairedTimes(champion, challenger), limits)
        misses += not increase.low <= 0 <= increase.high
        error = (challenger - champion).std() / np.sqrt(1_000)
        naive_misses += abs(increase.value) > 1.645 * error
    assert misses <= 34 < naive_misses  # 20 are expected of 200; more than 34 have the probability 0.001


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
