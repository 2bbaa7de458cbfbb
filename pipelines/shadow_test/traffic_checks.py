"""Check the errors and the latency of a shadow variant against those of the production variant."""

from __future__ import annotations

from pipelines.evaluation.gates.checks import check_value, report_value
from pipelines.evaluation.gates.verdict import UNDECIDED, Check
from pipelines.evaluation.statistics.edges import bound_share
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.shadow_test.estimate_check import check_upper_bound
from pipelines.shadow_test.limits import ShadowLimits
from pipelines.shadow_test.variant_metrics import STATISTICS, VariantMetrics


def check_errors(champion: VariantMetrics, challenger: VariantMetrics, limits: ShadowLimits) -> Check:
    """Check that the challenger's share of failed requests is not larger than the champion's by more than the limit.

    The interval is that of Clopper and Pearson for each share, at half of alpha (Bonferroni), so it is never too
    narrow.
    """
    name = "increase of the share of errors"
    if not champion.invocations or not challenger.invocations:
        return _build_undecided_check(name, "CloudWatch counted no invocation")
    (low, high), (champion_low, champion_high) = (
        bound_share(metrics.errors / metrics.invocations, metrics.invocations, limits.alpha / 2)
        for metrics in (challenger, champion)
    )
    value = challenger.errors / challenger.invocations - champion.errors / champion.invocations
    rows = min(champion.invocations, challenger.invocations)
    estimate = Estimate(value, low - champion_high, high - champion_low, 0.0, rows)
    check = check_upper_bound(name, estimate, limits.max_error_increase, "requests")
    counts = f"{challenger.errors} of {challenger.invocations} requests failed, and {champion.errors} of "
    return check.model_copy(
        update={"reason": f"{counts}{champion.invocations} with the champion's version: {check.reason}"}
    )


def check_latency(champion: VariantMetrics, challenger: VariantMetrics, limits: ShadowLimits) -> list[Check]:
    """Check one statistic of the latency, and report the others."""
    checks = []
    for statistic in STATISTICS:
        name = f"latency ({statistic}), ms"
        values = champion.latency_ms.get(statistic), challenger.latency_ms.get(statistic)
        if values[0] is None or values[1] is None:
            if statistic == limits.latency_statistic:
                checks.append(_build_undecided_check(name, "CloudWatch has no latency"))
        elif statistic == limits.latency_statistic:
            bound = max(limits.max_latency_ratio * values[0], values[0] + limits.latency_margin_ms)
            check = check_value(name, values[1], at_most=bound)
            reason = f"{check.reason}; the champion's is {values[0]:.6g}"
            checks.append(check.model_copy(update={"reason": reason, "timed": True}))
        else:
            reason = f"{name} is {values[1]:.6g}; the champion's is {values[0]:.6g}"
            checks.append(report_value(name, reason, values[1]).model_copy(update={"timed": True}))
    return checks


def _build_undecided_check(name: str, reason: str) -> Check:
    return Check(name=name, value=None, bound=None, outcome=UNDECIDED, reason=f"{name}: {reason}")
