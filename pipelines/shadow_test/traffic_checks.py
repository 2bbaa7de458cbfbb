"""Check the errors and the latency of a shadow variant against those of the production variant."""

from __future__ import annotations

import numpy as np

from pipelines.evaluation.gates.checks import report_value
from pipelines.evaluation.gates.verdict import UNDECIDED, Check
from pipelines.evaluation.statistics.edges import bound_share
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.shadow_test.estimate_check import check_upper_bound
from pipelines.shadow_test.latency import PairedTimes, estimate_increase
from pipelines.shadow_test.limits import ShadowLimits
from pipelines.shadow_test.variant_metrics import STATISTICS, VariantMetrics


def check_errors(champion: VariantMetrics, challenger: VariantMetrics, limits: ShadowLimits) -> Check:
    """Check that the challenger's share of failed requests is not larger than the champion's by more than the limit.

    The interval of the increase combines the intervals of Clopper and Pearson for both shares, each at half of alpha
    (Bonferroni). So it is never too narrow.
    """
    name = "increase of the share of errors"
    if not champion.invocations or not challenger.invocations:
        return _build_undecided_check(name, "CloudWatch counted no invocation")
    (challenger_low, challenger_high), (champion_low, champion_high) = (
        bound_share(metrics.errors / metrics.invocations, metrics.invocations, limits.alpha / 2)
        for metrics in (challenger, champion)
    )
    value = challenger.errors / challenger.invocations - champion.errors / champion.invocations
    rows = min(champion.invocations, challenger.invocations)
    estimate = Estimate(value, challenger_low - champion_high, challenger_high - champion_low, se=0.0, rows=rows)
    check = check_upper_bound(name, estimate, limits.max_error_increase, "requests")
    counts = f"{challenger.errors} of {challenger.invocations} requests failed, and {champion.errors} of "
    return check.model_copy(
        update={"reason": f"{counts}{champion.invocations} with the champion's version: {check.reason}"}
    )


def check_latency(
    requests: PairedTimes, champion: VariantMetrics, challenger: VariantMetrics, limits: ShadowLimits
) -> list[Check]:
    """Check the increase of the latency, by requests and by minutes, and report CloudWatch's statistics.

    The time that a version needs to compute the scores is compared request by request, if both answers contain it. The
    whole latency is compared minute by minute, from CloudWatch. If neither comparison has enough pairs, there is one
    undecided check.

    Args:
        requests: the time that each version needed to compute the scores, for each request whose two answers contain
            this time.
        champion: CloudWatch's metrics of the champion.
        challenger: CloudWatch's metrics of the challenger.
        limits: the limits.
    """
    statistic = limits.latency_statistic
    samples = {"time of the scores": requests, "latency": pair_minutes(champion, challenger, statistic)}
    checks = [
        _check_increase(f"increase of the {name} ({statistic}), ms", times, limits)
        for name, times in samples.items()
        if len(times.champion) >= times.get_min_pairs(statistic)
    ]
    if not checks:
        counts = (
            f"{len(times.champion)} of {times.get_min_pairs(statistic)} {times.unit}" for times in samples.values()
        )
        name = f"increase of the latency ({statistic}), ms"
        checks = [_build_undecided_check(name, f"too few times of both versions: {' and '.join(counts)}")]
    return [check.model_copy(update={"timed": True}) for check in [*checks, *_report_latency(champion, challenger)]]


def pair_minutes(champion: VariantMetrics, challenger: VariantMetrics, statistic: str) -> PairedTimes:
    """Pair the statistics of the minutes in which both versions answered. The champion's requests are the weights."""
    champion_points = champion.latency_by_time.get(statistic, {})
    challenger_points = challenger.latency_by_time.get(statistic, {})
    times = sorted(champion_points.keys() & challenger_points.keys())
    rows = [
        (champion_points[time].value, challenger_points[time].value, champion_points[time].requests) for time in times
    ]
    values = np.array(rows, dtype=float).reshape(len(times), 3)
    return PairedTimes(values[:, 0], values[:, 1], weights=values[:, 2])


def _check_increase(name: str, times: PairedTimes, limits: ShadowLimits) -> Check:
    increase, bound, champion_value = estimate_increase(times, limits)
    check = check_upper_bound(name, increase, bound, times.unit)
    finding = "is faster" if increase.high < 0 else "is slower" if increase.low > 0 else "shows no difference"
    reason = f"{check.reason}; the champion's is {champion_value:.4g}, and the challenger {finding}"
    return check.model_copy(update={"reason": reason})


def _report_latency(champion: VariantMetrics, challenger: VariantMetrics) -> list[Check]:
    checks = []
    for statistic in STATISTICS:
        champion_ms, challenger_ms = champion.latency_ms.get(statistic), challenger.latency_ms.get(statistic)
        if champion_ms is not None and challenger_ms is not None:
            name = f"latency ({statistic}), ms"
            reason = f"{name} is {challenger_ms:.6g}; the champion's is {champion_ms:.6g}"
            checks.append(report_value(name, reason, challenger_ms))
    return checks


def _build_undecided_check(name: str, reason: str) -> Check:
    return Check(name=name, value=None, bound=None, outcome=UNDECIDED, reason=f"{name}: {reason}")
