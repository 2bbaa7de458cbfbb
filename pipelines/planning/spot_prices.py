"""Compute spot prices by the hour from the changes that EC2 lists, and predict them by their usual course in a week.

Uses only the standard library, because Airflow's triggerer imports it.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import exp, isfinite, log
from statistics import median

HOUR = dt.timedelta(hours=1)
WEEK_H = 168
RISE = 1.2
"""If the price rises by this factor during a run of the training, instances are about to be scarce."""


@dataclass(frozen=True)
class PriceChange:
    """A price of one zone from a moment on."""

    zone: str
    at: dt.datetime
    """When the price began, UTC."""
    usd_h: float
    """Price of one instance, US dollars an hour."""


@dataclass(frozen=True)
class HourlyPrices:
    """The price of each hour until now: the mean of the zones.

    Attributes:
        hour: beginning of the last hour, which contains the present, UTC.
        usd_h: prices, US dollars an hour, oldest first.
    """

    hour: dt.datetime
    usd_h: Sequence[float]


def tabulate_hours(changes: Iterable[PriceChange], now: dt.datetime) -> HourlyPrices:
    """Return the price at the end of each hour until now; of the last hour, the price now.

    SageMaker chooses the zone of a job, so each hour has the mean of the zones that have a price.

    Args:
        changes: changes of the price, in any order. Changes after `now` are ignored. So are prices that
            are not a number above 0: EC2 has no such prices, and their ratios cannot be computed.
        now: the present, UTC.
    """
    past_changes = [item for item in changes if item.at <= now and isfinite(item.usd_h) and item.usd_h > 0]
    past_changes.sort(key=lambda item: item.at)
    hour = now.replace(minute=0, second=0, microsecond=0)
    if not past_changes:
        return HourlyPrices(hour, ())
    prices, price_by_zone = list[float](), dict[str, float]()
    position, end = 0, past_changes[0].at.replace(minute=0, second=0, microsecond=0) + HOUR
    while end <= hour + HOUR:
        while position < len(past_changes) and past_changes[position].at < end:
            price_by_zone[past_changes[position].zone] = past_changes[position].usd_h
            position += 1
        prices.append(sum(price_by_zone.values()) / len(price_by_zone))
        end += HOUR
    return HourlyPrices(hour, tuple(prices))


class WeeklyPricePattern:
    """The usual course of the prices within a week, without slow changes of their level.

    The price of each hour is divided by its level: the mean of the week that ends with it. These ratios are grouped by
    the hour of the week, and quantiles are computed for each group. The deviation is the present ratio, divided by the
    usual (median) ratio. It fades from hour to hour, as it did in the past: by the first autocorrelation of the
    logarithms, as in an autoregressive process of order 1 (Box and Jenkins 1970, section 3.2).

    A run is `run_h` hours in a row, as long as the planned training.

    Args:
        prices: prices of two weeks and `run_h` hours, or more.
        run_h: hours of a run.
    """

    def __init__(self, prices: HourlyPrices, run_h: int) -> None:
        self._prices, self._run_h = prices.usd_h, run_h
        self._sums = list(accumulate(self._prices, initial=0.0))
        self._last = len(self._prices) - 1
        self.level_usd_h = self._compute_mean(self._last - WEEK_H + 1, WEEK_H)
        """Mean price of the last week, US dollars an hour."""
        self._hour_ratios = self._group_by_hour(range(WEEK_H - 1, self._last), self._compute_ratio)
        self._run_ratios = self._group_by_hour(range(WEEK_H - 1, self._last - run_h + 2), self._compute_run_ratio)
        self._rises = self._group_by_hour(range(WEEK_H - 1, self._last - run_h + 1), self._is_rising)
        self.deviation = self._compute_ratio(self._last) / median(self._hour_ratios[self._last % WEEK_H])
        """The price now, divided by the usual price of this hour of the week."""
        self._decay = self._estimate_decay()
        self._deviation_sums = [0.0]

    def predict_run_usd_h(self, later_h: int, quantile: float = 0.5) -> float:
        """Predict the mean price of a run, US dollars an hour. The deviation fades during the run, too.

        Args:
            later_h: hours from now to the start of the run.
            quantile: which quantile of the past runs that started in that hour of the week is predicted, 0 to 1.
        """
        ratio = compute_quantile(self._run_ratios[(self._last + later_h) % WEEK_H], quantile)
        return self.level_usd_h * ratio * self._predict_mean_deviation(later_h)

    def compute_risk(self, later_h: int) -> float:
        """Return the share of past runs in which the price rose by the factor `RISE`.

        Only the runs that began in one hour of the week count.

        Args:
            later_h: hours from now to this hour of the week.
        """
        rises = self._rises[(self._last + later_h) % WEEK_H]
        return sum(rises) / len(rises)

    def _predict_mean_deviation(self, later_h: int) -> float:
        """Return the mean predicted deviation over the hours of a run that starts in `later_h` hours."""
        end = later_h + self._run_h
        for hour in range(len(self._deviation_sums) - 1, end):
            self._deviation_sums.append(self._deviation_sums[-1] + self.deviation ** (self._decay**hour))
        return (self._deviation_sums[end] - self._deviation_sums[later_h]) / self._run_h

    def _group_by_hour(self, positions: Iterable[int], compute: Callable[[int], float]) -> dict[int, list[float]]:
        """Compute a value at each position, and group the values by the hour of the week."""
        groups: dict[int, list[float]] = defaultdict(list)
        for position in positions:
            groups[position % WEEK_H].append(compute(position))
        return groups

    def _compute_mean(self, begin: int, count: int) -> float:
        """Return the mean price of `count` hours from the position `begin` on."""
        return (self._sums[begin + count] - self._sums[begin]) / count

    def _compute_ratio(self, position: int) -> float:
        """Return the price of an hour, divided by its level."""
        return self._prices[position] / self._compute_mean(position - WEEK_H + 1, WEEK_H)

    def _compute_run_ratio(self, position: int) -> float:
        """Return the mean price of a run that starts at an hour, divided by the level of this hour."""
        level = self._compute_mean(position - WEEK_H + 1, WEEK_H)
        return self._compute_mean(position, self._run_h) / level

    def _is_rising(self, position: int) -> float:
        """Return 1.0 if the price rises by the factor `RISE` during a run that starts at an hour, else 0.0."""
        later_prices = self._prices[position + 1 : position + self._run_h + 1]
        return float(max(later_prices) >= RISE * self._prices[position])

    def _estimate_decay(self) -> float:
        """Return the first autocorrelation of the logarithms of past deviations; 0 if negative, or not defined."""
        usual_ratios = {hour: median(ratios) for hour, ratios in self._hour_ratios.items()}
        positions = range(WEEK_H - 1, self._last)
        deviations = [log(self._compute_ratio(position) / usual_ratios[position % WEEK_H]) for position in positions]
        variance = sum(value * value for value in deviations)
        covariance = sum(first * second for first, second in pairwise(deviations))
        return max(0.0, covariance / variance) if variance > exp(-50) else 0.0  # constant prices have no variance


def compute_quantile(values: Sequence[float], quantile: float) -> float:
    """Return a quantile of values, interpolated linearly between two of them.

    Args:
        values: at least one number.
        quantile: 0 to 1.
    """
    sorted_values = sorted(values)
    position = quantile * (len(sorted_values) - 1)
    index = int(position)
    upper = sorted_values[min(index + 1, len(sorted_values) - 1)]
    return sorted_values[index] + (position - index) * (upper - sorted_values[index])
