"""Sum what a project has spent in a month, and what its running endpoints will still cost in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pipelines.costs.charges import format_usd
from pipelines.costs.endpoints.ledger import EndpointLedger
from pipelines.costs.endpoints.running import RunningFleet
from pipelines.costs.ledger import Ledger
from pipelines.lake import Lake


@dataclass(frozen=True)
class Spending:
    """The costs of a project in a month, USD."""

    jobs_usd: float
    """Cost of the ended jobs."""
    endpoints_usd: float
    """Cost of the endpoints, up to their last metering."""
    running_usd: float
    """Cost of the running endpoints, from their last metering to the end of the month, if nothing changes."""

    @property
    def spent_usd(self) -> float:
        """Cost in the ledgers of jobs and endpoints, USD."""
        return self.jobs_usd + self.endpoints_usd

    @property
    def total_usd(self) -> float:
        """Cost in the ledgers and expected cost of running endpoints, USD: the part of a budget that is used."""
        return self.spent_usd + self.running_usd

    def describe(self) -> str:
        """Describe the costs in words, such as `5.31 USD are spent and running endpoints will cost 83.95 USD`."""
        running_text = f" and running endpoints will cost {format_usd(self.running_usd)}" if self.running_usd else ""
        return f"{format_usd(self.spent_usd)} are spent{running_text}"


def read_spending(
    project: str, month: str, running_fleets: Iterable[RunningFleet], lake: Lake | None = None
) -> Spending:
    """Sum the costs of a project in a month.

    Args:
        project: project that pays; empty: the costs without a project.
        month: month, YYYY-MM.
        running_fleets: fleets that run; fleets of other projects are ignored.
        lake: lake with the ledgers; None: the configured one.

    Raises:
        DataError: a row of a ledger is damaged. A retry cannot help.
        ConflictError: the lake's catalog stayed locked. A retry can help.
    """
    running_usd = sum(item.compute_cost_usd(month) for item in running_fleets if item.fleet.project == project)
    return Spending(
        jobs_usd=Ledger.open(lake).sum_cost_usd(month, project),
        endpoints_usd=EndpointLedger.open(lake).sum_cost_usd(month, project),
        running_usd=running_usd,
    )
