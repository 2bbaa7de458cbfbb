"""Simulate a year of trainings that wait for cheap hours by the rule of `CheapHoursSensor`.

The costs are compared with those of a start at once, and of the cheapest start that was possible.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from pipelines.planning.cheap_hours import PlannedRun, decide_start
from pipelines.planning.spot_prices import HOUR, HourlyPrices

BEGIN = dt.datetime(2025, 1, 6, tzinfo=dt.UTC)
"""First hour of the prices, a Monday."""
HISTORY_H, YEAR_H = 90 * 24, 365 * 24
"""Hours of prices that EC2 lists, and hours of the simulated year."""
STEP_H = 37
"""Hours between two requests for a training. It has no common factor with 168, so all hours of the week occur."""
RUN_H, SLACKS_H = 4, (6, 24, 72)
"""Hours of a run, and hours from the request to the latest start."""
SEEDS = (1, 2, 3)


@dataclass(frozen=True)
class Market:
    """Parameters of the simulated prices. The logarithm of a price is the sum of a constant and of five parts.

    Attributes:
        daily: amplitude of the daily wave.
        weekly: difference between workdays and weekends.
        noise: standard deviation of the hourly random changes. Their effect decays.
        memory: share of this effect that remains after an hour.
        drift: standard deviation of the change of the level in a year.
        jumps_per_week: mean number of jumps in a week. In a jump, the price rises by 35 to 172 %; each hour, a fifth of
            the rise of its logarithm is gone.
    """

    daily: float = 0.12
    weekly: float = 0.10
    noise: float = 0.02
    memory: float = 0.95
    drift: float = 0.15
    jumps_per_week: float = 1.0


MARKETS = {
    "strong pattern": Market(),
    "weak pattern": Market(daily=0.05, weekly=0.05),
    "no pattern": Market(daily=0.0, weekly=0.0),
    "constant price": Market(daily=0.0, weekly=0.0, noise=0.0, drift=0.0, jumps_per_week=0.0),
}


@dataclass(frozen=True)
class Costs:
    """Sums of the mean prices of all runs of a year, US dollars an hour."""

    runs: int
    """Number of runs."""
    at_once: float
    """Sum if each run starts when it is requested."""
    by_rule: float
    """Sum if each run starts when the rule says so."""
    clairvoyant: float
    """Sum for the cheapest start of each run: nobody can choose it without knowing the future prices."""
    longest_wait_h: int
    """Longest wait of the rule, hours."""

    @property
    def saving(self) -> float:
        """Saving of the rule against a start at once, as a share."""
        return 1 - self.by_rule / self.at_once

    @property
    def possible_saving(self) -> float:
        """Largest possible saving, as a share."""
        return 1 - self.clairvoyant / self.at_once


def simulate_prices(market: Market, seed: int, hours: int = HISTORY_H + YEAR_H) -> list[float]:
    """Return the price of each hour from `BEGIN` on, US dollars an hour. The same seed gives the same prices."""
    generator = random.Random(seed)
    prices, noise, level, jump = list[float](), 0.0, 0.0, 0.0
    for hour in range(hours):
        wave = market.daily * math.sin(2 * math.pi * (hour % 24 - 9) / 24)
        week = market.weekly * (0.5 if hour // 24 % 7 < 5 else -0.5)
        noise = market.memory * noise + generator.gauss(0, market.noise)
        level += generator.gauss(0, market.drift / math.sqrt(YEAR_H))
        jump = 0.8 * jump + (generator.uniform(0.3, 1.0) if generator.random() < market.jumps_per_week / 168 else 0.0)
        prices.append(0.04 * math.exp(wave + week + noise + level + jump))
    return prices


def simulate_year(prices: Sequence[float], slack_h: int, run_h: int = RUN_H, step_h: int = STEP_H) -> Costs:
    """Request a training each `step_h` hours, decide each hour by the rule of the sensor, and add up the costs.

    Args:
        prices: price of each hour, of which the first `HISTORY_H` are only history.
        slack_h: hours from the request of a training to its latest start.
        run_h: hours of a run.
        step_h: hours between two requests.
    """
    sums = list(accumulate(prices, initial=0.0))
    mean_prices = [(sums[hour + run_h] - sums[hour]) / run_h for hour in range(len(prices) - run_h + 1)]  # by start
    requests = range(HISTORY_H, len(mean_prices) - slack_h, step_h)
    starts = [_find_start(prices, hour, slack_h, run_h) for hour in requests]
    return Costs(
        runs=len(requests),
        at_once=sum(mean_prices[hour] for hour in requests),
        by_rule=sum(mean_prices[hour] for hour in starts),
        clairvoyant=sum(min(mean_prices[hour : hour + slack_h + 1]) for hour in requests),
        longest_wait_h=max(start - hour for hour, start in zip(requests, starts, strict=True)),
    )


def _find_start(prices: Sequence[float], request_hour: int, slack_h: int, run_h: int) -> int:
    """Return the hour in which the rule starts a run. The rule sees no prices of later hours."""
    run = PlannedRun(BEGIN + (request_hour + slack_h) * HOUR, run_h * HOUR.total_seconds())
    hour = request_hour
    while True:
        now = BEGIN + hour * HOUR
        history = HourlyPrices(now, prices[hour - HISTORY_H + 1 : hour + 1])
        if decide_start(history, run, now).is_start:
            return hour
        hour += 1


def run() -> dict[str, Any]:
    """Return the savings for each market and slack, as facts."""
    facts = {"trainings of each line": f"one each {STEP_H} h of a year, of {RUN_H} h, {len(SEEDS)} seeds"}
    for name, market in MARKETS.items():
        for slack_h in SLACKS_H:
            years = [simulate_year(simulate_prices(market, seed), slack_h) for seed in SEEDS]
            texts = [f"{100 * year.saving:.1f} of {100 * year.possible_saving:.1f} %" for year in years]
            facts[f"{name}, at most {slack_h} h later: saved, of the possible saving"] = ", ".join(texts)
    return {"facts": facts, "seconds": {}}
