"""Find days that cost far more than their weekday usually does.

The cost of a day is compared with the costs of the same weekday in up to twelve weeks before it: the logarithm of the
cost with the median of their logarithms. Logarithms are used because a busy day costs a multiple of the others, and no
day costs less than 0. One expensive day, or a holiday, hardly changes a median.

The spread is a median absolute deviation (MAD): each day of these weeks deviates from the median of its own weekday.
1.4826 times the MAD is the standard deviation of normal errors (Rousseeuw & Croux 1993, JASA 88).

Days without a cost are left out, and the spread also leaves out weekdays that usually cost nothing. If the weekday to
judge usually costs nothing, the median and the spread are those of all days with a cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from pipelines.costs.daily.days import DailyCosts

WEEK = 7
WEEKS = 12
"""Largest number of weeks with which a day is compared."""
MIN_WEEKS = 4
"""A day with fewer whole weeks before it is not judged."""
FACTOR = 4.0
"""A day is an anomaly if its cost is more than this number of standard deviations above the expected cost.
`simulation.py` measures the false alarms."""
MIN_SPREAD = 0.15
"""Smallest standard deviation of the logarithms. Without it, the smallest change would be an anomaly if all days cost
the same, as those of an endpoint do. With it, an anomaly costs at least exp(4 x 0.15) = 1.8 times the expected cost."""
MIN_EXCESS_USD = 1.0
"""Smallest difference between the cost of an anomaly and the expected cost, USD."""
MIN_DAYS = 5
"""Smallest number of days with a cost in the weeks before a day. With fewer, the day is not judged, because the usual
cost is not known."""
SIGMA_PER_MAD = 1.4826
"""Standard deviation of normal errors, as a multiple of their MAD."""


@dataclass(frozen=True)
class ExpectedCost:
    """The expected cost of a day, and its limit.

    Attributes:
        usd: the expected cost, USD.
        limit_usd: a cost above this is an anomaly, USD.
    """

    usd: float
    limit_usd: float


@dataclass(frozen=True)
class JudgedDay:
    """The cost of a day, and the cost that was expected.

    Attributes:
        day: the day, YYYY-MM-DD.
        usd: its cost, USD.
        expected_cost: expected cost and limit; None if the day is not judged: there are fewer than `MIN_WEEKS` whole
            weeks before it, or fewer than `MIN_DAYS` of their days have a cost.
    """

    day: str
    usd: float
    expected_cost: ExpectedCost | None

    @property
    def is_anomaly(self) -> bool:
        """Whether the day cost more than its limit."""
        return self.expected_cost is not None and self.usd > self.expected_cost.limit_usd


def judge_days(costs: DailyCosts, count: int) -> list[JudgedDay]:
    """Judge the last days of a series, each by the days before it.

    Args:
        costs: the costs of all days.
        count: number of days to judge.
    """
    begin = max(len(costs.usd) - count, 0)
    return [
        JudgedDay(costs.days[index].isoformat(), costs.usd[index], estimate_cost(costs.usd[:index]))
        for index in range(begin, len(costs.usd))
    ]


def estimate_cost(history: Sequence[float]) -> ExpectedCost | None:
    """Estimate the cost of the next day, and its limit.

    Return None if there are fewer than `MIN_WEEKS` whole weeks before that day, or if fewer than `MIN_DAYS` of their
    days have a cost.

    Args:
        history: costs of the days before that day, USD, oldest first, without gaps.
    """
    weeks = min(WEEKS, len(history) // WEEK)
    window = list(history[len(history) - weeks * WEEK :])
    positive_costs = [cost for cost in window if cost > 0]
    if weeks < MIN_WEEKS or len(positive_costs) < MIN_DAYS:
        return None
    same_weekday = window[::WEEK]  # the window has whole weeks, so it begins with the weekday of the day to judge
    if median(same_weekday) > 0:
        weekdays = [window[number::WEEK] for number in range(WEEK)]
        groups = [[cost for cost in costs if cost > 0] for costs in weekdays if median(costs) > 0]
        expected_log = _compute_median_log(same_weekday)
    else:  # usually nothing runs on this weekday: compare with all days that have a cost
        groups, expected_log = [positive_costs], _compute_median_log(positive_costs)
    deviations = [abs(math.log(cost) - _compute_median_log(costs)) for costs in groups for cost in costs]
    spread = max(SIGMA_PER_MAD * median(deviations), MIN_SPREAD)
    expected_usd = math.exp(expected_log)
    limit_usd = max(math.exp(expected_log + FACTOR * spread), expected_usd + MIN_EXCESS_USD)
    return ExpectedCost(expected_usd, limit_usd)


def _compute_median_log(costs: Sequence[float]) -> float:
    """Return the median of the logarithms of the costs above 0."""
    return median(math.log(cost) for cost in costs if cost > 0)
