"""Test that a damaged row of a ledger is named when the ledger is read, whoever reads it."""

import datetime as dt
import math

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.costs.endpoints import ledger as endpoint_ledger
from pipelines.costs.ledger import SCHEMA, Ledger
from pipelines.costs.report import describe_price_dates
from pipelines.costs.row_checks import check_rows
from pipelines.errors import DataError
from tests.unit.pipelines.costs.ledger_rows import BEGIN, make_endpoint_row, make_row

HOUR = dt.timedelta(hours=1)


class Months:
    """A table of the lake that another program has changed."""

    def __init__(self, rows, schema):
        self.rows, self.schema = rows, schema

    def read(self, *_):
        return pa.Table.from_pylist(self.rows, schema=self.schema)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        *(({name: None}, f"{name} is None") for name in ("date", "arn", "created", "cost_usd", "lost_s")),
        *(({name: None}, f"{name} is None") for name in ("instance_count", "interruptions", "training_s")),
        ({"price_usd_h": math.inf}, "price_usd_h is inf"),
        ({"instance_count": -1}, "instance_count is -1"),
        ({"cpu_mean": math.nan}, "cpu_mean is nan"),
        ({"gpu_memory_peak": -1.0}, "gpu_memory_peak is -1.0"),
        ({"data_wait_share": math.inf}, "data_wait_share is inf"),
        ({"ended": BEGIN - HOUR}, "ended (2026-11-02 07:00:00) is before created (2026-11-02 08:00:00)"),
    ],
)
def test_damaged_row_of_a_job_is_named(fields, text):
    rows = [make_row("j1"), make_row("j2") | fields, make_row("j3")]
    with pytest.raises(DataError) as caught:
        check_rows(Ledger(Months(rows, SCHEMA)).read_rows())
    assert f"the ledger's row of j2 is damaged: {text}." in str(caught.value)


@pytest.mark.parametrize("name", ["date", "begin", "end", "cost_usd", "instance_h", "instances"])
def test_damaged_row_of_an_endpoint_is_named(name):
    rows = [make_endpoint_row(), make_endpoint_row(endpoint="e2") | {name: None}]
    with pytest.raises(DataError, match=f"the ledger's row of e2 is damaged: {name} is None"):
        check_rows(endpoint_ledger.EndpointLedger(Months(rows, endpoint_ledger.SCHEMA)).read_rows())


def test_what_may_be_unknown_is_no_damage():
    unknown = (
        "team",
        "price_date",
        "cpu_mean",
        "gpu_peak",
        "data_wait_share",
        "started",
        "ended",
        "resumes",
        "predicted_usd",
    )
    row = make_row(**dict.fromkeys(unknown))
    check_rows([row, make_endpoint_row(requests=None, model=None)])


@pytest.mark.parametrize("cost_usd", [None, math.nan, -1.0])
def test_budget_is_not_compared_with_a_cost_that_is_not_known(cost_usd):
    ledger = Ledger(Months([make_row(lost_s=None), make_row("j2", project="q", cost_usd=cost_usd)], SCHEMA))
    assert ledger.sum_cost_usd("2026-11", "p") == 0.5
    with pytest.raises(DataError, match="row of j2 is damaged: cost_usd is"):
        ledger.sum_cost_usd("2026-11", "q")


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "--json"),
        ("kpi",),
        ("advice",),
        ("commitment", "--discount", "0.3"),
        ("forecast", "--dag", "d", "--runs", "2"),
    ],
)
@pytest.mark.usefixtures("home")
def test_each_command_names_the_damaged_row(monkeypatch, arguments):
    monkeypatch.setattr(Ledger, "read_rows", lambda *_, **__: [make_row(), make_row("j2", training_s=None)])
    with pytest.raises(DataError, match="the ledger's row of j2 is damaged: training_s is None"):
        CliRunner().invoke(app.build_app("costs"), ["costs", *arguments], catch_exceptions=False)


def test_unknown_date_of_a_price_is_said():
    rows = [make_row(price_date=None), make_row()]
    assert describe_price_dates(rows) == "On-demand prices as of 2026-01-01."
    assert describe_price_dates(rows[:1]) == "The date of the on-demand prices is not known."
