"""What a backfill of a DAG would cost, before it starts: how many runs, times what a run costs."""

from __future__ import annotations

import datetime as dt
import importlib.util
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pipelines.costs.charges import DIGITS, usd, worst_case_usd
from pipelines.errors import DataError, InvalidError, LeewayError, ServiceError, SpecError
from pipelines.settings import settings

PATIENCE_S = 180
"""Longest that Airflow may take for a dry run; it takes 2 s for a year of days."""
_RUN = re.compile(r"^\| +.*\d{4}-\d{2}-\d{2}", re.MULTILINE)
"""A run's line in the table that Airflow prints."""


@dataclass(frozen=True)
class RunCost:
    """What one run of a DAG costs."""

    usual_usd: float
    """Median of its past runs; the worst case where there are none."""
    worst_usd: float
    """The dearest of them, or the worst case."""
    basis: str
    """Where both were taken from, for people."""


@dataclass(frozen=True)
class Forecast:
    """What a backfill would cost, and what is left to pay it with."""

    dag_id: str
    runs: int
    cost: RunCost
    project: str
    month: str
    spent_usd: float
    month_usd: float | None

    @property
    def usual_usd(self) -> float:
        """What all runs cost together."""
        return round(self.runs * self.cost.usual_usd, DIGITS)

    @property
    def worst_usd(self) -> float:
        """The same where each is as dear as the dearest."""
        return round(self.runs * self.cost.worst_usd, DIGITS)

    @property
    def left_usd(self) -> float | None:
        """What is left of the month's budget; None where there is no budget."""
        return None if self.month_usd is None else max(0.0, self.month_usd - self.spent_usd)

    def record(self) -> dict[str, Any]:
        """Every figure, for JSON."""
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
            "month_spent_usd": self.spent_usd,
            "month_budget_usd": self.month_usd,
            "month_left_usd": self.left_usd,
        }

    def lines(self) -> list[str]:
        """The same for people."""
        return [
            f"{self.dag_id}: {self.runs} run(s) to start.",
            f"A run:  {usd(self.cost.usual_usd)}, at worst {usd(self.cost.worst_usd)} ({self.cost.basis}).",
            f"In all: {usd(self.usual_usd)}, at worst {usd(self.worst_usd)}.",
            f"Budget: {self._budget()}",
        ]

    def _budget(self) -> str:
        whose = self.project or "no project"
        if self.left_usd is None or self.month_usd is None:
            return f"{whose} has none for a month; {usd(self.spent_usd)} are spent in {self.month}."
        fit = "enough" if self.worst_usd <= self.left_usd else "perhaps not enough"
        if self.usual_usd > self.left_usd:
            fit = "not enough"
        left = f"{usd(self.left_usd)} left of {usd(self.month_usd)}"
        return f"{whose}, {self.month}: {left}, {usd(self.spent_usd)} spent: {fit}."


def from_ledger(rows: Iterable[Mapping[str, Any]]) -> RunCost | None:
    """The cost of a run by the rows of the past ones; None where there are none."""
    runs: dict[str, float] = defaultdict(float)
    for row in rows:
        runs[row["run_id"]] += row["cost_usd"]
    if not runs:
        return None
    basis = f"median and dearest of {len(runs)} past run(s) in the ledger"
    return RunCost(median(runs.values()), max(runs.values()), basis)


def from_worst_case(instance_types: Sequence[str], instance_count: int, max_run_s: int, region: str) -> RunCost:
    """The cost of a run that no past one tells: its longest run on the dearest type, on demand.

    Raises:
        InvalidError: a type has no known price.
    """
    from pipelines.costs.prices import price

    prices = {name: price(name, region) for name in instance_types}
    dearest = max(prices, key=lambda name: prices[name].usd_h)
    worst = worst_case_usd(prices[dearest].usd_h, instance_count, max_run_s)
    rate = f"{instance_count} x {dearest} at {prices[dearest].usd_h:g} USD/h of {prices[dearest].date}"
    return RunCost(worst, worst, f"no past run in the ledger: the worst case, {rate} for {max_run_s} s")


def runs_of(dag_id: str, first: dt.date, last: dt.date) -> int:
    """How many runs Airflow would start for a backfill from `first` to `last`, both included. It starts none.

    Raises:
        InvalidError: Airflow does not know the DAG, refuses the backfill, or is not set up here.
        ServiceError: Airflow failed. A retry can help.
    """
    command = [sys.executable, "-m", "airflow", "backfill", "create", "--dry-run", "--dag-id", dag_id]
    command += ["--from-date", first.isoformat(), "--to-date", last.isoformat()]
    environment = os.environ | {"AIRFLOW_HOME": str(_airflow_home())}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        raise ServiceError(f"Airflow did not answer within {PATIENCE_S} s.", "Is its database up?") from None
    if done.returncode:
        raise _refusal(dag_id, f"{done.stdout}\n{done.stderr}")
    return len(_RUN.findall(done.stdout))


def _airflow_home() -> Path:
    """AIRFLOW_HOME; where it is not set, the embedded stack's, or Airflow's own default, if it is there."""
    if importlib.util.find_spec("airflow") is None:
        raise SpecError("Airflow is not installed here.", "Give --runs N.")
    places = [settings().home / "airflow", Path("~/airflow").expanduser()]
    told = os.environ.get("AIRFLOW_HOME")
    for place in [Path(told)] if told else places:
        if (place / "airflow.cfg").exists() or (place / "airflow.db").exists():
            return place
    # Asked all the same, Airflow would make a home with an empty database.
    raise InvalidError("Airflow is not set up here.", "`make up` once, or set AIRFLOW_HOME, or give --runs N.")


def _refusal(dag_id: str, told: str) -> LeewayError:
    if "DagNotFound" in told:
        return DataError(f"Airflow has no DAG {dag_id}.", "`airflow dags list` names them; else give --runs N.")
    if "Database migration required" in told:
        return InvalidError("Airflow's database is not set up.", "`make up` once, or give --runs N.")
    last = next((line for line in reversed(told.splitlines()) if line.strip()), "")
    if last.startswith("airflow."):  # an exception of its own: it refuses
        return InvalidError(
            f"Airflow refuses this backfill: {(last.partition(': ')[2] or last).rstrip('.')}.", "Or give --runs N."
        )
    return ServiceError(f"Airflow failed: {last}.", "Try again, or give --runs N.")
