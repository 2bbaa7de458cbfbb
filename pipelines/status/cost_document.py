"""Build the document of the costs from the ledgers of jobs and of endpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from pipelines.costs.budgets import find_budgets
from pipelines.costs.charges import DIGITS
from pipelines.costs.commitments.coverage import Coverage
from pipelines.costs.endpoints.ledger import EndpointLedger
from pipelines.costs.endpoints.running import RunningFleet
from pipelines.costs.ledger import Ledger, get_current_month
from pipelines.costs.report import PAYER_KEYS, describe_price_dates
from pipelines.costs.row_checks import check_rows
from pipelines.costs.showback.allocation import allocate_rows
from pipelines.costs.showback.policy import ShowbackPolicy, load_policy
from pipelines.costs.showback.reserved import add_reserved_costs
from pipelines.costs.showback.shares import sum_shares
from pipelines.costs.showback.summary import describe_anomalies, find_anomalies
from pipelines.errors import LeewayError
from pipelines.lake import DATE_COLUMN
from pipelines.status.advice import list_advice
from pipelines.status.documents.costs import CostDocument, EndpointCost, JobCost, MonthCost, PayerCost, ProjectBudget
from pipelines.status.inputs import StatusInputs
from pipelines.status.jobs.use import describe_use_of_row
from pipelines.status.texts import shorten
from pipelines.window import subtract_months

MAX_JOBS = 500
"""Largest number of jobs in the document."""
MONTHS = 12
"""Number of months in the document, with the current one."""

Row = Mapping[str, Any]


def build_cost_document(inputs: StatusInputs) -> CostDocument:
    """Build the document of the costs.

    Raises:
        DataError: a ledger is damaged, or the instance type of an endpoint has no known price. A retry cannot help.
        ConflictError, ServiceError: the lake does not answer. A retry can help.
    """
    jobs, endpoint_rows = Ledger.open(inputs.lake).read_rows(), EndpointLedger.open(inputs.lake).read_rows()
    fleets = inputs.running_fleets
    payer_rows, coverage = _allocate_rows([*jobs, *endpoint_rows], inputs)
    priced_rows = [row for row in (*jobs, *endpoint_rows) if row["price_date"]]
    return CostDocument(
        written_at=inputs.now,
        month=get_current_month(),
        jobs=[_describe_job(row) for row in reversed(jobs[-MAX_JOBS:])],
        months=_sum_months(inputs, jobs, endpoint_rows),
        endpoints=[_describe_endpoint(running_fleet) for running_fleet in fleets],
        budgets=_list_budgets(inputs, [*jobs, *endpoint_rows], fleets),
        price_dates=describe_price_dates(priced_rows) if priced_rows else "",
        payers=_list_payers(inputs, payer_rows),
        unused_commitment_usd=_round_amounts(coverage.unused_usd) if coverage else None,
        anomalies=[shorten(text) for text in describe_anomalies(find_anomalies([*jobs, *endpoint_rows], inputs.now))],
        advice=[shorten(sentence) for sentence in list_advice(jobs, endpoint_rows, fleets, inputs.now)],
    )


def _describe_job(row: Row) -> JobCost:
    text_names = ("name", "model", "project", "instance_type", "status", "failure_reason")
    number_names = (
        *("instance_count", "training_s", "billable_s", "cost_usd", "on_demand_usd"),
        *("interruptions", "lost_s"),
    )
    values: dict[str, Any] = {name: shorten(row[name] or "") for name in text_names}
    values |= {name: row[name] or 0 for name in number_names}
    return JobCost(
        **values,
        run="/".join(filter(None, (row["dag_id"], row["run_id"]))),
        spot=bool(row["spot"]),
        created=row["created"],
        ended=row["ended"],
        waiting_s=row["capacity_s"] or 0.0,
        use=describe_use_of_row(row),
    )


def _describe_endpoint(running_fleet: RunningFleet) -> EndpointCost:
    fleet = running_fleet.fleet
    return EndpointCost(
        endpoint=fleet.endpoint,
        model=fleet.model,
        machine=fleet.machine,
        usd_h=running_fleet.usd_h,
        since=running_fleet.since,
    )


def _sum_months(inputs: StatusInputs, jobs: Iterable[Row], endpoint_rows: Iterable[Row]) -> list[MonthCost]:
    """Sum the costs of the last `MONTHS` months by month, project and model, the oldest month first."""
    first = subtract_months(inputs.now.date().replace(day=1), MONTHS - 1)
    sums: dict[tuple[str, str, str], dict[str, float]] = {}
    for row, name in (*((row, "jobs_usd") for row in jobs), *((row, "endpoints_usd") for row in endpoint_rows)):
        if row[DATE_COLUMN] < first:
            continue
        key = f"{row[DATE_COLUMN]:%Y-%m}", row["project"] or "", row["model"] or ""
        total = sums.setdefault(key, {"jobs_usd": 0.0, "endpoints_usd": 0.0, "saved_usd": 0.0})
        cost_usd = row["cost_usd"] or 0.0
        total[name] += cost_usd
        saved_usd = (row["on_demand_usd"] or 0.0) - cost_usd if name == "jobs_usd" else row["saved_usd"]
        total["saved_usd"] += saved_usd or 0.0
    return [
        MonthCost(month=month, project=project, model=model, **total)
        for (month, project, model), total in sorted(sums.items())
    ]


def _allocate_rows(rows: Sequence[Row], inputs: StatusInputs) -> tuple[Sequence[Row], Coverage | None]:
    """Add to each row who pays, and the part of its cost that the stated commitments cover.

    Returns:
        The rows, and the utilization of the commitments; None if params.yaml states no commitment.
    """
    policy = _load_policy()
    if policy.commitments:
        check_rows(rows)
    return add_reserved_costs(allocate_rows(rows, policy), policy.commitments, inputs.now)


def _round_amounts(amounts: Mapping[str, float]) -> dict[str, float]:
    return {name: round(usd, DIGITS) for name, usd in amounts.items()}


def _list_payers(inputs: StatusInputs, rows: Iterable[Row]) -> list[PayerCost]:
    """Sum the costs of the last `MONTHS` months by month and who pays, the oldest month first."""
    first = subtract_months(inputs.now.date().replace(day=1), MONTHS - 1)
    month_rows = [{**row, "month": f"{row[DATE_COLUMN]:%Y-%m}"} for row in rows if row[DATE_COLUMN] >= first]
    keys = ("month", *PAYER_KEYS)

    def get_key(row: Row) -> tuple[str, ...]:
        return tuple(row[name] or "" for name in keys)

    groups = [(values, sum_shares(list(group))) for values, group in groupby(sorted(month_rows, key=get_key), get_key)]
    return [
        PayerCost(
            **dict(zip(keys, map(shorten, values), strict=True)),
            cost_usd=sums["cost_usd"],
            idle_usd=sums["idle_usd"],
            reserved_usd=sums["reserved_usd"],
        )
        for values, sums in groups
    ]


def _load_policy() -> ShowbackPolicy:
    """Load section `showback`; an empty one if params.yaml is not valid, which the documents of the models report."""
    try:
        return load_policy()
    except LeewayError:
        return ShowbackPolicy()


def _list_budgets(inputs: StatusInputs, rows: Iterable[Row], fleets: Sequence[RunningFleet]) -> list[ProjectBudget]:
    """List the projects that have a model, a running endpoint or costs in the current month, sorted by name."""
    budgets, month = find_budgets(inputs.models), get_current_month()
    spent_usd: dict[str, float] = {}
    for row in rows:
        if f"{row[DATE_COLUMN]:%Y-%m}" == month:
            project = row["project"] or ""
            spent_usd[project] = spent_usd.get(project, 0.0) + (row["cost_usd"] or 0.0)
    running_usd: dict[str, float] = {}
    for running_fleet in fleets:
        project = running_fleet.fleet.project
        running_usd[project] = running_usd.get(project, 0.0) + running_fleet.compute_cost_usd(month)
    return [
        ProjectBudget(
            project=project,
            month_usd=spent_usd.get(project, 0.0),
            running_usd=running_usd.get(project, 0.0),
            budget_usd=budgets.get(project),
        )
        for project in sorted({*budgets, *spent_usd, *running_usd})
    ]
