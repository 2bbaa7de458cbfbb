"""Define what a recommendation consists of: options, exclusions, and the best options by time and cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from pipelines.costs.charges import HOUR_S, format_usd
from pipelines.planning.recommendation.correction import Accuracy
from pipelines.planning.recommendation.limits import Limits, format_duration
from pipelines.planning.recommendation.workloads import Basis, ExclusionKind, format_machines

ROUNDING = 0.01
"""Relative difference below which two times, or two costs, are treated as equal: estimates are not more exact."""
Market = Literal["on demand", "spot"]


@dataclass(frozen=True)
class Option:
    """Instances on which the training can run, with time, cost and risk.

    Attributes:
        instance_type: instance type.
        count: number of instances.
        region: AWS region.
        market: on demand or spot.
        seconds: most likely training time, corrected by past jobs, with repeated work after interruptions.
        low_s: time if all goes well.
        high_s: time if all goes badly.
        uncorrected_s: the prediction without correction, and without repeated work.
        wait_s: usual wait for instances, seconds, on spot with a wait after each interruption; None if not known.
        cost_usd: cost at the most likely time, USD.
        high_usd: cost at `high_s`, USD.
        is_cost_known: False on spot if its saving is not known: then the costs are those on demand, an upper limit.
        uncorrected_usd: cost without correction, USD; on spot, it includes repeated work, unlike `uncorrected_s`.
        price_usd_h: on-demand price, USD per instance and hour.
        price_date: date of the price.
        price_source: source of the price.
        plan_usd: maps the term of a savings plan to the cost with such a plan; None if its price is not known. Empty on
            spot.
        basis: what the prediction comes from.
        setup: how the training runs: sharding, batch.
        risks: what can go wrong, in sentences.
        has_limit_risk: whether the option is beyond a limit if all goes badly; `risks` says which one.
    """

    instance_type: str
    count: int
    region: str
    market: Market
    seconds: float
    low_s: float
    high_s: float
    uncorrected_s: float
    wait_s: float | None
    cost_usd: float
    high_usd: float
    uncorrected_usd: float
    price_usd_h: float
    price_date: str
    price_source: str
    plan_usd: dict[str, float | None] = field(default_factory=dict)
    basis: Basis = "formula"
    is_cost_known: bool = True
    setup: str = ""
    risks: tuple[str, ...] = ()
    has_limit_risk: bool = False

    @property
    def finish_s(self) -> float:
        """Seconds until the end: the usual wait, as far as it is known, and the training."""
        return (self.wait_s or 0.0) + self.seconds

    @property
    def low_finish_s(self) -> float:
        """Seconds until the end if all goes well, with the usual wait, as far as it is known."""
        return (self.wait_s or 0.0) + self.low_s

    @property
    def high_finish_s(self) -> float:
        """Seconds until the end if all goes badly, with the usual wait, as far as it is known."""
        return (self.wait_s or 0.0) + self.high_s

    @property
    def on_demand_usd(self) -> float:
        """Cost of the most likely time at the price on demand, USD."""
        return self.price_usd_h * self.count * self.seconds / HOUR_S

    @property
    def machines(self) -> str:
        """Short text: "2 x ml.g5.xlarge spot"."""
        return f"{format_machines(self.instance_type, self.count)} {self.market}"

    def describe(self) -> str:
        """Return machines, time and cost in words."""
        return f"{self.machines} in {self.region}: {format_duration(self.finish_s)}, {format_usd(self.cost_usd)}"


@dataclass(frozen=True)
class Exclusion:
    """An instance type that was left out, and why. Kind "on demand": it has no option on spot, but one on demand."""

    instance_type: str
    region: str
    kind: ExclusionKind
    reason: str
    fitting_count: int | None = None
    """Number of instances that would fit; None if that is not known."""
    nearest: Option | None = None
    """The option of this type that is nearest to the limit; None if the reason is not a limit."""
    remedy: str = ""
    """What would make `nearest` fit; empty if the kind of the limit already says it, or if there is no `nearest`."""


@dataclass(frozen=True)
class Recommendation:
    """A recommendation of what to run a training on.

    Attributes:
        workload: description of the training.
        limits: deadline, budget, and the times after which a job is stopped.
        options: options within the limits, the cheapest first.
        exclusions: instance types without an option within the limits, or without one on spot.
        accuracy: how wrong predictions of past jobs were; None if no past job has a prediction of the same basis.
        unusable_jobs: names of the past jobs that were left out, because a figure is missing or not possible.
    """

    workload: str
    limits: Limits
    options: tuple[Option, ...]
    exclusions: tuple[Exclusion, ...]
    accuracy: Accuracy | None = None
    unusable_jobs: tuple[str, ...] = ()

    @property
    def cheapest(self) -> Option | None:
        """The cheapest option within the limits."""
        return min(self.options, key=_rank_by_cost, default=None)

    @property
    def fastest(self) -> Option | None:
        """The fastest option within the limits.

        Of options with equal times, one that stays within the limits even if all goes badly, and then the cheapest.
        """
        shortest_s = min((option.finish_s for option in self.options), default=0.0)
        equal_options = [option for option in self.options if option.finish_s <= shortest_s * (1 + ROUNDING)]
        return min(equal_options, key=lambda option: (option.has_limit_risk, _rank_by_cost(option)), default=None)

    @property
    def front(self) -> list[Option]:
        """The options for which none is both faster and cheaper (Pareto front), the fastest first."""
        return find_front(self.options)

    @property
    def price_dates(self) -> list[str]:
        """Dates of the prices of all options, also of those that are beyond the limits; oldest first."""
        options = (*self.options, *(entry.nearest for entry in self.exclusions if entry.nearest))
        return sorted({option.price_date for option in options})

    def describe_nearest(self) -> str:
        """Say which option is nearest to the limits, for the case that no option is within them."""
        nearest = [(entry.nearest, entry) for entry in self.exclusions if entry.nearest]
        over_budget = [pair for pair in nearest if pair[1].kind == "budget"]
        if over_budget:
            begin = "The" if self.limits.deadline_s is None else "Within the deadline, the"
            return f"{begin} cheapest is {_describe_nearest(min(over_budget, key=lambda pair: pair[0].cost_usd))}"
        late_pairs = [
            pair for pair in nearest if pair[1].kind == "deadline" and self.limits.is_in_budget(pair[0].cost_usd)
        ]
        if late_pairs or nearest:
            begin = "The" if self.limits.budget_usd is None or not late_pairs else "Within the budget, the"
            return (
                f"{begin} fastest is {_describe_nearest(min(late_pairs or nearest, key=lambda pair: pair[0].finish_s))}"
            )
        return _describe_infeasibilities(self.exclusions)

    def to_record(self) -> dict[str, Any]:
        """Return the recommendation as JSON values."""
        return {
            "workload": self.workload,
            "limits": asdict(self.limits),
            "price_dates": self.price_dates,
            "cheapest": _to_record(self.cheapest),
            "fastest": _to_record(self.fastest),
            "front": [_to_record(option) for option in self.front],
            "options": [_to_record(option) for option in self.options],
            "exclusions": [{**asdict(entry), "nearest": _to_record(entry.nearest)} for entry in self.exclusions],
            "accuracy": asdict(self.accuracy) if self.accuracy else None,
            "jobs_with_gaps": list(self.unusable_jobs),
        }


def find_front(options: Iterable[Option]) -> list[Option]:
    """Return the options for which none is both faster and cheaper, the fastest first.

    If options have equal times, only the cheapest is on the front.
    """
    front: list[Option] = []
    for option in sorted(options, key=lambda entry: (entry.finish_s, entry.cost_usd)):
        if front and option.cost_usd >= front[-1].cost_usd * (1 - ROUNDING):
            continue
        if front and option.finish_s <= front[-1].finish_s * (1 + ROUNDING):
            front.pop()
        front.append(option)
    return front


def _rank_by_cost(option: Option) -> tuple[float, bool, float, float]:
    """Return the key by which the cheapest option is found.

    Of options with equal costs, one that stays within the limits even if all goes badly comes first, and then the one
    whose worst case is cheaper: a job that is stopped at a limit costs money without a result.
    """
    # On a logarithmic scale with steps of `ROUNDING`, costs with the same rounded number are equal.
    cost_step = round(math.log(option.cost_usd) / math.log1p(ROUNDING))
    return cost_step, option.has_limit_risk, option.high_usd, option.finish_s


def _to_record(option: Option | None) -> dict[str, Any] | None:
    return {**asdict(option), "finish_s": option.finish_s} if option else None


def _describe_nearest(pair: tuple[Option, Exclusion]) -> str:
    """Describe an option that is beyond the limits. If it has a remedy, add the reason, which ends with the remedy."""
    option, exclusion = pair
    return f"{option.describe()}{f'; it {exclusion.reason}' if exclusion.remedy else ''}."


def _describe_infeasibilities(exclusions: Sequence[Exclusion]) -> str:
    """Describe at most two exclusions: those that name a number of instances that would fit, else those by memory."""
    helpful = sorted((entry for entry in exclusions if entry.fitting_count), key=lambda entry: entry.fitting_count or 0)
    named_entries = helpful or [entry for entry in exclusions if entry.kind == "memory"] or list(exclusions)
    return (
        "; ".join(f"{entry.instance_type} {entry.reason}" for entry in named_entries[:2]) + "." if named_entries else ""
    )
