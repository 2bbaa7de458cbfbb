"""Forecast the cost of a backfill before it starts: the number of runs, times the cost of a run."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from pipelines.contract import Report
from pipelines.costs.charges import DIGITS, compute_worst_case_usd, format_usd
from pipelines.costs.spending import Spending
from pipelines.errors import InvalidError, ServiceError

RUN_COUNTER = "leeway.backfill_runs"
"""Module that counts the runs of a backfill. It imports Airflow, which `pipelines` must not import, so it runs in a
process of its own."""


@dataclass(frozen=True)
class RunCost:
    """The cost of one run of a DAG."""

    usual_usd: float
    """Median cost of the past runs, USD; if there are none, the highest possible cost of a run."""
    worst_usd: float
    """Cost of the most expensive past run, USD; if there are none, the highest possible cost of a run."""
    basis: str
    """How both figures were estimated, as text for people."""


@dataclass(frozen=True)
class Forecast:
    """The cost of a backfill, and the budget that is left for it."""

    dag_id: str
    runs: int
    """Number of runs that Airflow would start."""
    cost: RunCost
    project: str
    """Project to which the cost is charged."""
    month: str
    """Month of the budget, YYYY-MM."""
    spending: Spending
    """What the project has spent in the month, and what its running endpoints will still cost in it."""
    month_usd: float | None
    """Budget of the month, USD; None if there is none."""

    @property
    def usual_usd(self) -> float:
        """Cost of all runs, USD, if each costs the usual amount."""
        return round(self.runs * self.cost.usual_usd, DIGITS)

    @property
    def worst_usd(self) -> float:
        """Cost of all runs, USD, if each costs as much as the most expensive run."""
        return round(self.runs * self.cost.worst_usd, DIGITS)

    @property
    def left_usd(self) -> float | None:
        """Rest of the month's budget, USD, at least 0; None if there is no budget."""
        return None if self.month_usd is None else max(0.0, self.month_usd - self.spending.total_usd)

    def to_record(self) -> dict[str, Any]:
        """Return every figure as JSON values."""
        return {
            "dag_id": self.dag_id,
            "runs": self.runs,
            "usd_per_run": self.cost.usual_usd,
            "worst_usd_per_run": self.cost.worst_usd,
            "basis": self.cost.basis,
            "usd": self.usual_usd,
            "worst_usd": self.worst_usd,
            "project": self.project,
            "month": self.month,
            "month_spent_usd": self.spending.spent_usd,
            "month_running_usd": self.spending.running_usd,
            "month_budget_usd": self.month_usd,
            "month_left_usd": self.left_usd,
        }

    def format_lines(self) -> list[str]:
        """Format the forecast as lines for a terminal."""
        usual_text, worst_text = format_usd(self.cost.usual_usd), format_usd(self.cost.worst_usd)
        return [
            f"{self.dag_id}: {self.runs} run(s) to start.",
            f"A run:  {usual_text}, at worst {worst_text} ({self.cost.basis}).",
            f"In all: {format_usd(self.usual_usd)}, at worst {format_usd(self.worst_usd)}.",
            f"Budget: {self._describe_budget()}",
        ]

    def _describe_budget(self) -> str:
        project = self.project or "no project"
        if self.left_usd is None or self.month_usd is None:
            return f"{project} has no monthly budget; {self.spending.describe()} in {self.month}."
        verdict = "enough" if self.worst_usd <= self.left_usd else "perhaps not enough"
        if self.usual_usd > self.left_usd:
            verdict = "not enough"
        left_text = f"{format_usd(self.left_usd)} left of {format_usd(self.month_usd)}"
        running_usd = self.spending.running_usd
        running_text = f", {format_usd(running_usd)} for running endpoints" if running_usd else ""
        spent_text = f"{format_usd(self.spending.spent_usd)} spent{running_text}"
        return f"{project}, {self.month}: {left_text}, {spent_text}: {verdict}."


def estimate_from_ledger(rows: Iterable[Mapping[str, Any]]) -> RunCost | None:
    """Estimate the cost of a run from the ledger's rows of past runs; return None if there are no rows."""
    cost_by_run: dict[str, float] = defaultdict(float)
    for row in rows:
        cost_by_run[row["run_id"]] += row["cost_usd"]
    if not cost_by_run:
        return None
    basis = f"median and most expensive of {len(cost_by_run)} past run(s) in the ledger"
    return RunCost(median(cost_by_run.values()), max(cost_by_run.values()), basis)


def estimate_worst_case(instance_types: Sequence[str], instance_count: int, max_run_s: int, region: str) -> RunCost:
    """Estimate the highest cost of a run: the maximum run time on the most expensive instance type, on demand.

    Raises:
        InvalidError: an instance type is retired, or has no known price. A retry cannot help.
        ServiceError: prices come from AWS, and AWS does not answer. A retry can help.
    """
    from pipelines.costs.prices import find_launch_price

    prices = {name: find_launch_price(name, region) for name in instance_types}
    most_expensive = max(prices, key=lambda name: prices[name].usd_h)
    worst_usd = compute_worst_case_usd(prices[most_expensive].usd_h, instance_count, max_run_s)
    price = prices[most_expensive]
    rate = f"{instance_count} x {most_expensive} at {price.usd_h:g} USD/h of {price.date}"
    return RunCost(worst_usd, worst_usd, f"the worst case, {rate} for {max_run_s} s")


def count_runs(dag_id: str, first: dt.date, last: dt.date) -> int:
    """Count the runs that Airflow would start for a backfill from `first` to `last`, inclusive. No run is started.

    Raises:
        InvalidError: Airflow does not know the DAG, refuses the backfill, or is not set up here. A retry cannot help.
        ServiceError: Airflow failed. A retry can help.
    """
    command = [sys.executable, "-m", RUN_COUNTER, dag_id, first.isoformat(), last.isoformat()]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        output = json.loads(process.stdout)
        if isinstance(output, int):
            return output
        report = Report.model_validate(output)
    except ValueError:
        reason = next(
            (line for line in reversed(process.stderr.splitlines()) if line.strip()), "the process gave no answer"
        )
        raise InvalidError(f"the runs of {dag_id} could not be counted: {reason}.", "Give --runs N.") from None
    error_class = InvalidError if report.exit_code == InvalidError.exit_code else ServiceError
    raise error_class(report.message, report.hint)
