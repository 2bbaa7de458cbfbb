"""All checks of a policy on one holdout, and the tables of its parts for the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from pipelines.evaluation.gates import leakage, parts, quality, serving
from pipelines.evaluation.gates.checks import enough, exact, reported
from pipelines.evaluation.gates.holdout import Holdout
from pipelines.evaluation.gates.policy import Policy
from pipelines.evaluation.gates.verdict import Check


@dataclass(frozen=True)
class Evidence:
    """What a candidate is judged by."""

    rows: Holdout
    features: Sequence[str] = ()
    """Columns of the rows that the model sees."""
    days_newer: int | None = None
    """The candidate's as_of less the champion's, days; None where there is no champion."""
    packaged: serving.Measured | None = None
    """The packaged model; None where it is not registered."""
    cost_usd: float | None = None
    """What its training cost; None where that is not known."""


@dataclass(frozen=True)
class Judged:
    """Rows of a verdict, and what is behind those of parts."""

    checks: list[Check]
    slices: pd.DataFrame = field(default_factory=pd.DataFrame)
    weeks: pd.DataFrame = field(default_factory=pd.DataFrame)


def judge(told: Evidence, policy: Policy) -> Judged:
    """Every check of the policy.

    Raises:
        DataError: a column to slice by is not there.
    """
    rows = told.rows
    sliced, slices = parts.slices(rows, policy)
    weekly, weeks = parts.weeks(rows, policy)
    checks = [
        enough("rows of holdout", len(rows.label), policy.min_rows),
        *quality.bounds(rows, policy),
        *quality.against_baselines(rows, policy),
        *quality.against_champion(rows, policy),
        *quality.newer(told.days_newer),
        *sliced,
        *weekly,
        *([leakage.sentinel(rows, told.features, policy.max_solo_auc)] if policy.max_solo_auc is not None else []),
        *(serving.checks(told.packaged, policy.serving) if told.packaged and policy.serving else []),
        *_cost(told.cost_usd, policy.max_cost_usd),
    ]
    return Judged(checks, slices, weeks)


def _cost(told: float | None, bound: float | None) -> list[Check]:
    name = "cost of the training, USD"
    if told is None:
        return []
    return [reported(name, f"{name} is {told:.4g}", told) if bound is None else exact(name, told, at_most=bound)]
