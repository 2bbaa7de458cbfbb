"""Check options against all limits of a training: exclude those beyond a limit, and add to the others their risks.

A risk says that an option may exceed a limit.

All limits are checked here: the times after which SageMaker stops a job, the deadline, and the budgets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pipelines.costs.budgets import TOLERANCE_USD
from pipelines.costs.charges import HOUR_S, format_usd
from pipelines.costs.job_records import LONGEST_TRAINING_S
from pipelines.planning.recommendation.limits import RUN_BUDGET, Limits, format_duration
from pipelines.planning.recommendation.options import Exclusion, Option
from pipelines.planning.recommendation.workloads import ExclusionKind

Measure = Callable[[Option], float]
Describe = Callable[[Option], str]


@dataclass(frozen=True)
class Check:
    """One limit of a training.

    Attributes:
        kind: kind of the exclusion of an option beyond the limit.
        limit: highest allowed value.
        measure: returns the most likely value of an option.
        describe: returns why an option is beyond the limit.
        measure_high: returns the value of an option if all goes badly; None if `measure` returns this value already.
        describe_risk: returns what happens if all goes badly; called only if there is a `measure_high`.
        describe_remedy: returns what would make an option fit; None if the kind of the limit already says it.
    """

    kind: ExclusionKind
    limit: float
    measure: Measure
    describe: Describe
    measure_high: Measure | None = None
    describe_risk: Describe = str
    describe_remedy: Describe | None = None


def apply_limits(limits: Limits, options: Sequence[Option], name: str, region: str) -> Exclusion | list[Option]:
    """Return the options within all limits, with their risks. If no option is within all limits, return the reason.

    Args:
        limits: limits of the training.
        options: options with one instance type, at least one.
        name: the instance type.
        region: AWS region.
    """
    for check in _list_checks(limits):
        fitting_options = [option for option in options if check.measure(option) <= check.limit]
        if not fitting_options:
            nearest_option = min(options, key=check.measure)
            remedy = check.describe_remedy(nearest_option) if check.describe_remedy else ""
            reason = check.describe(nearest_option) + (f": would fit with {remedy}" if remedy else "")
            return Exclusion(name, region, check.kind, reason, nearest=nearest_option, remedy=remedy)
        options = fitting_options
    return [_add_risks(limits, option) for option in options]


def _list_checks(limits: Limits) -> Iterator[Check]:
    """Yield the checks in the order in which they are applied. Limits at which a job is stopped come first."""
    yield _build_longest_training_check()
    if limits.max_run_s is not None:
        yield _build_run_check(limits.max_run_s)
    if limits.max_wait_s is not None:
        yield _build_wait_check(limits.max_wait_s)
    if limits.deadline_s is not None:
        yield _build_deadline_check(limits.deadline_s)
    if limits.budget_usd is not None:
        yield _build_budget_check(limits.budget_usd, "" if limits.deadline_s is None else " within the deadline")
    for name, budget_usd in limits.list_worst_case_budgets().items():
        yield _build_worst_case_check(limits, name, budget_usd)


def _add_risks(limits: Limits, option: Option) -> Option:
    """Return the option with a risk for each limit that it exceeds if all goes badly, and for an unknown wait."""
    risks = [
        check.describe_risk(option)
        for check in _list_checks(limits)
        if check.measure_high and check.measure_high(option) > check.limit
    ]
    has_limit_risk = bool(risks)
    if option.wait_s is None and (limits.deadline_s is not None or limits.max_wait_s is not None):
        risks.append("how long the job waits for instances is not known")
    return replace(option, risks=(*option.risks, *risks), has_limit_risk=has_limit_risk)


def _build_longest_training_check() -> Check:
    def describe_remedy(option: Option) -> str:
        factor = math.ceil(10 * option.seconds / LONGEST_TRAINING_S) / 10
        return (
            f"a faster type or more instances ({factor:.1f} times as fast), or as several jobs that resume from the "
            "checkpoints of the one before"
        )

    return _build_training_time_check(LONGEST_TRAINING_S, "SageMaker", describe_remedy)


def _build_run_check(max_run_s: float) -> Check:
    return _build_training_time_check(max_run_s, "max_run_s", lambda option: f"max_run_s={math.ceil(option.seconds)}")


def _build_training_time_check(limit_s: float, subject: str, describe_remedy: Describe) -> Check:
    """Return the check of the training time.

    Args:
        limit_s: longest training, seconds.
        subject: what stops a longer training.
        describe_remedy: what would make an option fit.
    """
    stop_text = f"of training, and {subject} stops it after {format_duration(limit_s)}"
    return Check(
        kind="run",
        limit=limit_s,
        measure=lambda option: option.seconds,
        describe=lambda option: f"takes {format_duration(option.seconds)} or more {stop_text}",
        measure_high=lambda option: option.high_s,
        describe_risk=lambda option: f"may take {format_duration(option.high_s)} {stop_text}",
        describe_remedy=describe_remedy,
    )


def _build_wait_check(max_wait_s: float) -> Check:
    """Return the check of the time until the end of a spot job, which SageMaker stops after MaxWaitTimeInSeconds."""
    max_wait_text = format_duration(max_wait_s)
    return Check(
        kind="run",
        limit=max_wait_s,
        measure=lambda option: option.finish_s if option.market == "spot" else 0.0,
        describe=lambda option: (
            f"takes {format_duration(option.finish_s)} or more with the usual wait, over max_wait_s of {max_wait_s:g}"
        ),
        measure_high=lambda option: option.high_finish_s if option.market == "spot" else 0.0,
        describe_risk=lambda option: (
            f"may take {format_duration(option.high_finish_s)} with its wait, and max_wait_s stops it after "
            f"{max_wait_text}"
        ),
        describe_remedy=lambda option: f"max_wait_s={math.ceil(option.finish_s)}",
    )


def _build_deadline_check(deadline_s: float) -> Check:
    return Check(
        kind="deadline",
        limit=deadline_s,
        measure=lambda option: option.finish_s,
        describe=lambda option: f"takes {format_duration(option.finish_s)} or more, past the deadline",
        measure_high=lambda option: option.high_finish_s,
        describe_risk=lambda option: f"may take {format_duration(option.high_finish_s)}, past the deadline",
    )


def _build_budget_check(budget_usd: float, condition: str) -> Check:
    return Check(
        kind="budget",
        limit=budget_usd + TOLERANCE_USD,
        measure=lambda option: option.cost_usd,
        describe=lambda option: f"costs {format_usd(option.cost_usd)} or more{condition}, over the budget",
        measure_high=lambda option: option.high_usd,
        describe_risk=lambda option: f"may cost {format_usd(option.high_usd)}, over the budget",
    )


def _build_worst_case_check(limits: Limits, name: str, budget_usd: float) -> Check:
    """Return the check of the highest possible cost: if it is over a budget, the operator refuses to start the job.

    Args:
        limits: limits of the training, with `max_run_s`.
        name: name of the budget.
        budget_usd: highest cost, USD.
    """

    def measure(option: Option) -> float:
        return limits.compute_worst_case_usd(option.price_usd_h, option.count)

    def describe_remedy(option: Option) -> str:
        affordable_s = math.floor(budget_usd / (option.price_usd_h * option.count) * HOUR_S)
        run_text = f" or max_run_s={affordable_s}" if affordable_s >= option.seconds else ""
        if name == RUN_BUDGET:
            return f"budget_usd={math.ceil(100 * measure(option)) / 100:.2f}{run_text}"
        return f"{format_usd(measure(option) - budget_usd)} more in budget.month_usd of params.yaml{run_text}"

    return Check(
        kind="budget",
        limit=budget_usd + TOLERANCE_USD,
        measure=measure,
        describe=lambda option: (
            f"costs {format_usd(measure(option))} at worst (max_run_s of {limits.max_run_s:g} at the price on demand), "
            f"over {name}"
        ),
        describe_remedy=describe_remedy,
    )
