"""Compute the commitment with the lowest cost for a series of hours, and what it costs if usage falls.

With a savings plan, each hour costs the commitment C, whether it is used or not. C covers usage that costs C / (1 - d)
on demand, where d is the discount; the usage above this is paid on demand. So an hour whose usage costs u on demand
costs C + max(0, u - C / (1 - d)). The sum over hours is lowest where the covered usage is the d-quantile of the hours'
usage: the newsvendor problem (Arrow, Harris & Marschak 1951, Econometrica 19). AWS, Savings Plans user guide, "How
Savings Plans apply to your usage": a commitment is per hour, and the part that an hour does not use is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipelines.costs.figures.measurement import find_percentile

YEAR_H = 8_760


@dataclass(frozen=True)
class CommitmentResult:
    """What a commitment would have cost in some hours.

    Attributes:
        on_demand_usd: cost without the commitment, USD.
        plan_usd: cost with the commitment, USD.
        utilization: used share of the commitment, 0 to 1; None without a commitment.
        coverage: share of the on-demand cost that the commitment covered, 0 to 1; None without a cost.
    """

    on_demand_usd: float
    plan_usd: float
    utilization: float | None
    coverage: float | None

    @property
    def saved_usd(self) -> float:
        """Saving, USD; negative if the plan costs more."""
        return self.on_demand_usd - self.plan_usd


@dataclass(frozen=True)
class Commitment:
    """The best commitment of some hours, and its risk.

    Attributes:
        usd_h: commitment, USD an hour.
        discount: discount of the plan, 0 to 1.
        hours: number of hours from which the commitment was chosen.
        outcome: what the commitment would have cost in these hours.
        fall: share by which usage falls in `outcome_if_use_falls`, 0 to 1.
        outcome_if_use_falls: what the commitment would have cost if the usage of each hour had been lower by `fall`.
        break_even_fall: share by which the usage of each hour may fall until the plan saves nothing, 0 to 1; None
            without a commitment.
        backtest: what the best commitment of the first half of the hours would have cost in the second half.
    """

    usd_h: float
    discount: float
    hours: int
    outcome: CommitmentResult
    fall: float
    outcome_if_use_falls: CommitmentResult
    break_even_fall: float | None
    backtest: CommitmentResult

    @property
    def saved_usd_year(self) -> float:
        """Saving in a year like these hours, USD."""
        return self.outcome.saved_usd * YEAR_H / self.hours

    def to_record(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        record = {**asdict(self), "saved_usd_year": self.saved_usd_year}
        for name in ("outcome", "outcome_if_use_falls", "backtest"):
            record[name] |= {"saved_usd": getattr(self, name).saved_usd}
        return record


def find_commitment(costs: Sequence[float], discount: float, fall: float) -> Commitment:
    """Find the commitment that would have been best.

    Args:
        costs: cost of each hour that a plan can cover, at on-demand prices, USD; at least two hours.
        discount: discount of the plan, more than 0 and less than 1.
        fall: share by which usage falls in `outcome_if_use_falls`, 0 to 1.
    """
    usd_h = choose_commitment(costs, discount)
    half = len(costs) // 2
    return Commitment(
        usd_h=usd_h,
        discount=discount,
        hours=len(costs),
        outcome=apply_commitment(costs, usd_h, discount),
        fall=fall,
        outcome_if_use_falls=apply_commitment([cost * (1 - fall) for cost in costs], usd_h, discount),
        break_even_fall=_find_break_even(costs, usd_h, discount) if usd_h else None,
        backtest=apply_commitment(costs[half:], choose_commitment(costs[:half], discount), discount),
    )


def choose_commitment(costs: Sequence[float], discount: float) -> float:
    """Return the commitment with the lowest cost in these hours, USD an hour."""
    return find_percentile(costs, discount) * (1 - discount)


def apply_commitment(costs: Sequence[float], usd_h: float, discount: float) -> CommitmentResult:
    """Compute what hours cost with a commitment. `costs` are as for `find_commitment`."""
    max_covered_usd_h = usd_h / (1 - discount)
    on_demand_usd, committed_usd = sum(costs), usd_h * len(costs)
    covered_usd = sum(min(cost, max_covered_usd_h) for cost in costs)
    return CommitmentResult(
        on_demand_usd=on_demand_usd,
        plan_usd=committed_usd + on_demand_usd - covered_usd,
        utilization=covered_usd * (1 - discount) / committed_usd if committed_usd else None,
        coverage=covered_usd / on_demand_usd if on_demand_usd else None,
    )


def _find_break_even(costs: Sequence[float], usd_h: float, discount: float) -> float:
    """Return the fall of usage at which the plan saves nothing, by bisection: less usage never increases the saving."""
    low, high = 0.0, 1.0
    for _ in range(40):  # halves the range 40 times, to less than 1e-12
        fall = (low + high) / 2
        outcome = apply_commitment([cost * (1 - fall) for cost in costs], usd_h, discount)
        low, high = (fall, high) if outcome.saved_usd > 0 else (low, fall)
    return low
