"""Simulate the daily costs of a project; measure the false alarms, and the share of expensive days that are found."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from pipelines.costs.daily.anomalies import WEEK, WEEKS, estimate_cost

YEAR_DAYS = 365
WARM_UP_DAYS = WEEK * WEEKS
"""Days at the beginning that are not judged. So the first judged day is compared with all `WEEKS` weeks before it."""


@dataclass(frozen=True)
class Workload:
    """How the daily costs of a project vary.

    Attributes:
        name: name of the workload.
        weekend: cost of a day of the weekend, as a share of a working day's.
        sigma: standard deviation of the logarithm of the cost of a day or, if `jobs` is above 0, of a job.
        jobs: mean number of jobs on a working day; the cost of a day is the sum of their costs. 0: there are no single
            jobs, and the cost varies by `sigma` alone.
        growth: factor by which the costs grow in a year.
        fixed_usd: cost of endpoints, the same each day, which is added, USD.
    """

    name: str
    weekend: float = 1.0
    sigma: float = 0.0
    jobs: float = 0.0
    growth: float = 1.0
    fixed_usd: float = 0.0


WORKLOADS = (
    Workload("daily trainings", sigma=0.2),
    Workload("working days", weekend=0.2, sigma=0.3, growth=2.0),
    Workload("wide spread", weekend=0.4, sigma=0.7),
    Workload("twenty jobs a day", weekend=0.3, sigma=0.5, jobs=20.0),
    Workload("a job every third day", sigma=0.5, jobs=1 / 3),
    Workload("endpoints", sigma=0.02, fixed_usd=50.0),
)
"""Workloads without anomalies."""
DAY_USD = 40.0
"""Median cost of a working day at the beginning, USD, without `fixed_usd`. If `jobs` of a workload is above 0, the
median cost of a job is DAY_USD / max(jobs, 1) instead."""


def simulate_costs(workload: Workload, days: int, generator: random.Random) -> list[float]:
    """Return the cost of each day, USD. The first day is a Monday."""
    return [_simulate_day(workload, day, generator) for day in range(days)]


def count_false_alarms(workload: Workload, years: int, seed: int) -> float:
    """Return the mean number of days a year that are judged an anomaly, although no day is one."""
    generator, alarms = random.Random(seed), 0  # noqa: S311 (a simulation)
    for _ in range(years):
        costs = simulate_costs(workload, WARM_UP_DAYS + YEAR_DAYS, generator)
        alarms += sum(_is_anomaly(costs[:day], costs[day]) for day in range(WARM_UP_DAYS, len(costs)))
    return alarms / years


def measure_power(workload: Workload, factor: float, trials: int, seed: int) -> float:
    """Return the share of simulated days that are found to be an anomaly if their cost is multiplied by `factor`.

    Each day has its own simulated history, whose costs are not multiplied.
    """
    generator, alarms = random.Random(seed), 0  # noqa: S311 (a simulation)
    for _ in range(trials):
        costs = simulate_costs(workload, WARM_UP_DAYS + 1 + generator.randrange(WEEK), generator)
        alarms += _is_anomaly(costs[:-1], costs[-1] * factor)
    return alarms / trials


def _simulate_day(workload: Workload, day: int, generator: random.Random) -> float:
    level: float = DAY_USD * workload.growth ** (day / YEAR_DAYS) * (workload.weekend if day % WEEK >= 5 else 1.0)
    if not workload.jobs:
        return workload.fixed_usd + level * generator.lognormvariate(0, workload.sigma)
    count = _draw_poisson(workload.jobs * level / DAY_USD, generator)
    job_usd = DAY_USD / max(workload.jobs, 1.0)
    return workload.fixed_usd + sum(job_usd * generator.lognormvariate(0, workload.sigma) for _ in range(count))


def _draw_poisson(mean: float, generator: random.Random) -> int:
    """Draw a number of jobs (Knuth's method, for small means)."""
    limit, product, count = math.exp(-mean), generator.random(), 0
    while product > limit:
        product, count = product * generator.random(), count + 1
    return count


def _is_anomaly(history: list[float], cost: float) -> bool:
    expected_cost = estimate_cost(history)
    return expected_cost is not None and cost > expected_cost.limit_usd
