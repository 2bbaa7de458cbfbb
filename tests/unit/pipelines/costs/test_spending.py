"""Test what counts as spent by a project, and by nobody."""

import dataclasses
import datetime as dt

import pytest

from pipelines.costs.endpoints.ledger import EndpointLedger, get_fleet
from pipelines.costs.endpoints.running import RunningFleet
from pipelines.costs.ledger import Ledger
from pipelines.costs.spending import read_spending
from tests.unit.pipelines.costs.ledger_rows import BEGIN, make_endpoint_row, make_row


@pytest.mark.usefixtures("home")
def test_budget_without_a_project_does_not_pay_for_the_projects():
    """Jobs, metered endpoints and running endpoints count by the same rule, as on the page and in the notices."""
    rows = [make_row("a", project="p", cost_usd=10.0), make_row("b", project="", cost_usd=2.0)]
    Ledger.open().add([{name: value for name, value in row.items() if name != "date"} for row in rows])
    endpoint_rows = [make_endpoint_row(project="p", cost_usd=5.0), make_endpoint_row(project="", endpoint="f")]
    EndpointLedger.open().add(endpoint_rows)
    end = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)
    fleets = [RunningFleet(get_fleet(row), end - dt.timedelta(hours=1), row["cost_usd"]) for row in endpoint_rows]
    spending = {project: read_spending(project, f"{BEGIN:%Y-%m}", fleets) for project in ("p", "", "q")}
    assert {project: dataclasses.astuple(item) for project, item in spending.items()} == {
        "p": (10.0, 5.0, 5.0),
        "": (2.0, 1.0, 1.0),
        "q": (0.0, 0.0, 0.0),
    }
