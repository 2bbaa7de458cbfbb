"""Define section `showback` of params.yaml: who pays, which commitments were bought, and when people are notified."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import Field, model_validator

from pipelines import params
from pipelines.contract import Spec
from pipelines.costs.budgets import Money
from pipelines.costs.commitments.stated import StatedCommitment
from pipelines.settings import settings

BUDGET_KEY = re.compile(r"[^/]+(/[1-9]\d{3}-(0[1-9]|1[0-2]))?")
"""Pattern of the keys of `budgets_usd`."""


class ShowbackPolicy(Spec):
    """Who pays for the projects, which commitments were bought, and when people are notified about a budget."""

    teams: dict[str, str] = Field(default_factory=dict)
    """Maps a project to the team that pays, for jobs without a team, and for endpoints."""
    environments: dict[str, str] = Field(default_factory=dict)
    """Maps a project to its environment, such as production, for jobs without an environment, and for endpoints."""
    budgets_usd: dict[str, Money] = Field(default_factory=dict)
    """Maps PROJECT, or PROJECT/YYYY-MM for one month, to the budget of a month, USD. It replaces month_usd of section
    budget in reports and notices. Only month_usd can refuse a training."""
    thresholds_percent: list[Annotated[int, Field(ge=1, le=1_000)]] = Field(
        default_factory=lambda: [50, 80, 100], max_length=10
    )
    """Shares of a budget, percent. When the costs of a month reach one of them, people are notified once."""
    commitments: list[StatedCommitment] = Field(default_factory=list, max_length=100)
    """Bought commitments of savings plans, each with usd_h, term (1y or 3y), begin (YYYY-MM-DD) and discount (0 to 1;
    if it is missing, the tables of prices give it). The reserved share of the costs is computed from them."""

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        for key in self.budgets_usd:
            if not BUDGET_KEY.fullmatch(key):
                raise ValueError(f"budgets_usd: {key[:60]!r} is neither PROJECT nor PROJECT/YYYY-MM")
        return self


def load_policy() -> ShowbackPolicy:
    """Load section `showback` of params.yaml.

    Raises:
        SpecError: the section is not valid. A retry cannot help.
    """
    section = params.load_section(settings().project, "showback")
    fields = {name: value for name, value in section.items() if name in ShowbackPolicy.model_fields}
    return ShowbackPolicy.parse(fields, "params.yaml, section 'showback'")
