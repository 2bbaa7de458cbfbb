"""Count the false alarms of the anomaly detection for daily costs, and the jumps that it finds, on simulated days."""

from __future__ import annotations

import math
from typing import Any

from pipelines.costs.daily.simulation import WORKLOADS, Workload, count_false_alarms, measure_power

YEARS = 100
"""Simulated years of each workload."""
TRIALS = 500
"""Simulated days for each workload and factor."""
FACTORS = (2, 3, 5)
"""Cost of a day with a jump, as a multiple of its cost without the jump."""
SEED = 20


def run() -> dict[str, Any]:
    """Return the false alarms a year of each workload, and the share of jumps that are found, as facts."""
    facts = {}
    for workload in WORKLOADS:
        facts[f"false alarms a year, {workload.name}"] = _describe_rate(workload)
        shares = [f"{measure_power(workload, factor, TRIALS, SEED):.0%} of {factor} times" for factor in FACTORS]
        facts[f"days found that cost a multiple, {workload.name}"] = ", ".join(shares)
    return {"facts": facts, "seconds": {}}


def _describe_rate(workload: Workload) -> str:
    """Describe the alarms a year with the standard error of a Poisson count."""
    rate = count_false_alarms(workload, YEARS, SEED)
    if not rate:
        return f"0 in {YEARS} years (below {3 / YEARS:.2f} at 95 %)"
    return f"{rate:.2f} +- {math.sqrt(rate / YEARS):.2f}, {YEARS} years"
