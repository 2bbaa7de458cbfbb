"""Define the commitments that a team has bought: `commitments` in section `showback` of params.yaml."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from pydantic import Field

from pipelines.costs.price_sources.price_tables import PlanTerm
from pipelines.parameters import Parameters

TERM_DAYS: dict[PlanTerm, int] = {"1y": 365, "3y": 3 * 365}
"""Days of each term of a savings plan: 31,536,000 or 94,608,000 seconds (AWS, DescribeSavingsPlansOfferings)."""


class StatedCommitment(Parameters):
    """A commitment that a team has bought with a savings plan of SageMaker."""

    usd_h: Annotated[float, Field(ge=0.001, le=1_000_000)]
    """Commitment, USD an hour: 0.001 to 1,000,000, the limits of AWS (Savings Plans API, CreateSavingsPlan)."""
    term: PlanTerm
    """Term of the plan: 1y or 3y."""
    begin: Annotated[dt.date, Field(ge=dt.date(2000, 1, 1), lt=dt.date(3000, 1, 1))]
    """First day of the term, UTC. The plan covers usage from this day on."""
    discount: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Discount of the plan, 0 to 1: 0.3 is 30 % below on demand. Null: the tables of prices give
    the discount of each instance type."""

    @property
    def end(self) -> dt.date:
        """The first day after the term, UTC."""
        return self.begin + dt.timedelta(TERM_DAYS[self.term])
