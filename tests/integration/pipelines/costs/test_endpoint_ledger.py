"""Test the ledger of endpoints with a real lake: overlapping times, the report, the budget and the forecasts."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.costs.charges import Price
from pipelines.costs.endpoints.fleets import Fleet, Usage
from pipelines.costs.endpoints.ledger import SCHEMA, TABLE, EndpointLedger, build_row, find_last_rows
from pipelines.costs.endpoints.running import get_month_bounds
from pipelines.costs.ledger import get_current_month
from pipelines.costs.usage.columns import COLUMNS
from pipelines.lake import DATE_COLUMN
from pipelines.lake.month_table import MonthTable, TableVersion, get_month
from pipelines.steps import budget

PRICE = Price(usd_h=0.5, date=dt.date(2026, 10, 1), source="test")


def get_month_times() -> tuple[dt.datetime, dt.datetime]:
    """Return begin and end of the present month: a run of the tests may cross the end of a month."""
    return get_month_bounds(get_current_month())


def make_row(begin: float, end: float, **fields: Any) -> dict[str, Any]:
    """Return the row of an hour count of this month, with one instance."""
    names = {"endpoint": "boats", "config": "a", "project": "flights", "model": "boats", "instance_type": "ml.m5.large"}
    fleet = Fleet(**{"region": "us-east-1", "variant": "v", **names, **fields})
    time = tuple(get_month_times()[0] + dt.timedelta(hours=hours) for hours in (begin, end))
    usage = Usage(instance_h=end - begin, instance_count=1)
    if fleet.memory_mb:
        usage = Usage(requests=20, busy_s=1_800)
    return build_row(fleet, (time[0], time[1]), usage, PRICE, is_running=begin < end)


def list_times(ledger: EndpointLedger) -> list[tuple[float, float]]:
    rows = ledger.read_rows()
    return [
        tuple((row[name] - get_month_times()[0]).total_seconds() / 3_600 for name in ("begin", "end")) for row in rows
    ]


def test_a_time_is_charged_once(home: Path) -> None:
    ledger = EndpointLedger.open()
    assert len(ledger.add([make_row(0, 4), make_row(4, 6)])) == 2
    assert ledger.add([make_row(0, 4)]) == ledger.add([make_row(5, 8)]) == ledger.add([make_row(1, 2)]) == []
    assert len(ledger.add([make_row(0, 4, config="b"), make_row(0, 4, endpoint="others")])) == 2, "another fleet"
    assert len(ledger.add([make_row(6, 6)])) == 1 and ledger.add([make_row(6, 6)]) == []
    assert sorted(list_times(ledger)) == [(0, 4)] * 3 + [(4, 6), (6, 6)]
    last_rows = find_last_rows(ledger.read_rows())
    assert {key[1:3]: row["running"] for key, row in last_rows.items()} == {
        ("boats", "a"): False,
        ("boats", "b"): True,
        ("others", "a"): True,
    }


def test_rows_of_a_table_without_the_use_read_as_unknown_before_and_after_a_write(home: Path) -> None:
    old_schema = pa.schema([field for field in SCHEMA if field.name not in (*COLUMNS, "observed_h", "scaled")])
    old_row = {name: value for name, value in make_row(0, 4).items() if name in old_schema.names}
    month = get_month(old_row["begin"])

    def write_old_row(version: TableVersion) -> None:
        version.replace_month(month, pa.Table.from_pylist([old_row | {DATE_COLUMN: month}], schema=old_schema))

    MonthTable(TABLE, old_schema).update(write_old_row)
    ledger = EndpointLedger.open()
    assert [(row["cpu_mean"], row["observed_h"], row["scaled"]) for row in ledger.read_rows()] == [(None, None, None)]
    use = {"cpu_mean": 4.0, "cpu_peak": 0.0, "observed_h": 2.0}
    new_row = make_row(4, 8) | use | {"scaled": False}
    assert ledger.add([new_row]) == [new_row | {DATE_COLUMN: month}]
    old, new = ledger.read_rows()
    assert {old[name] for name in (*COLUMNS, "observed_h", "scaled")} == {None} and old["cost_usd"] == 2
    assert (new["cpu_mean"], new["cpu_peak"], new["memory_peak"], new["scaled"]) == (4.0, 0.0, None, False)


class OvertakenTable(MonthTable):
    """A table to which another process writes once between this process's read and its commit."""

    other: dict[str, Any]

    def _load(self) -> TableVersion:
        version, other = super()._load(), self.__dict__.pop("other", None)
        if other:
            EndpointLedger.open().add([other])
        return version


def test_an_overtaken_metering_charges_nothing_twice(home: Path) -> None:
    EndpointLedger.open().add([make_row(0, 1)])
    months = OvertakenTable(TABLE, SCHEMA)
    months.other = make_row(1, 3)
    added_rows = EndpointLedger(months).add([make_row(1, 4), make_row(1, 4, config="b")])
    assert [row["config"] for row in added_rows] == ["b"], "the other process has charged the time of a"
    assert sorted(list_times(EndpointLedger.open())) == [(0, 1), (1, 3), (1, 4)]


@pytest.fixture
def charged(home: Path) -> None:
    """Charge endpoints of two projects, and a serverless one."""
    EndpointLedger.open().add(
        [
            make_row(0, 4),
            make_row(0, 2, endpoint="others", project="trains", instance_type="ml.c5.xlarge"),
            make_row(0, 4, endpoint="sparse", instance_type="", memory_mb=2_048),
        ]
    )


@pytest.mark.usefixtures("charged")
def test_report_shows_endpoints_beside_jobs(commands: Any, tmp_path: Path) -> None:
    process = commands.run_step("costs", "report", "--png", "costs.png")
    assert process.code == 0, process.err
    for text in ("Endpoint costs", "ml.m5.large", "serverless 2 GB", "1,800.0", "prices as of 2026-10-01"):
        assert text in process.out
    assert "Training costs" not in process.out, "there is no job"
    assert "Utilization of the instances" not in process.out, "no utilization is known"
    assert (tmp_path / "costs.png").read_bytes().startswith(b"\x89PNG")
    report = json.loads(commands.run_step("costs", "report", "--json", "--by", "project,instance_type").out)
    groups = {(group["project"], group["instance_type"]): group for group in report["endpoints"]["groups"]}
    assert list(groups) == [("flights", "ml.m5.large"), ("flights", "serverless 2 GB"), ("trains", "ml.c5.xlarge")]
    assert groups["flights", "serverless 2 GB"]["cost_usd"] == pytest.approx(1_800 * 2 / 3_600 * 0.5)
    assert report["endpoints"]["total"]["cost_usd"] == report["total_usd"] == pytest.approx(2 + 0.5 + 1)
    assert report["endpoints"]["total"]["cpu_mean"] is None
    month = json.loads(commands.run_step("costs", "report", "--json", "--month", "2013-01").out)
    assert month["endpoints"]["groups"] == []
    flights = json.loads(commands.run_step("costs", "report", "--json", "--project", "flights").out)
    assert flights["endpoints"]["total"]["endpoints"] == 2


def test_report_shows_what_the_endpoints_used(commands: Any, home: Path) -> None:
    use = {"cpu_mean": 31.0, "cpu_peak": 96.0, "observed_h": 3.5}
    EndpointLedger.open().add([make_row(0, 4) | use, make_row(0, 4, endpoint="sparse", instance_type="", memory_mb=1)])
    process = commands.run_step("costs", "report", "--by", "instance_type")
    assert process.code == 0, process.err
    assert "Utilization of the instances of endpoints" in process.out and "31 / 96" in process.out
    sentences = json.loads(commands.run_step("costs", "advice", "--json").out)
    assert sentences == [
        "The size of endpoint boats (variant v, 1 x ml.m5.large) is not judged, because CloudWatch has no value of the "
        "utilization of its memory."
    ]


@pytest.mark.usefixtures("charged")
def test_budget_of_a_training_counts_endpoints_until_the_end_of_the_month() -> None:
    month_begin, month_end = get_month_times()
    hours_left = (month_end - month_begin).total_seconds() / 3_600 - 4
    serverless_usd_h = 0.5 / 4
    expected_usd = hours_left * (0.5 + serverless_usd_h)
    common = {"region": "us-east-1", "instance_types": ["ml.m5.large"], "max_run_s": 3_600, "project": "flights"}

    def check(**fields: Any) -> budget.BudgetResult:
        return budget.run(budget.BudgetSpec.parse({**common, **fields}, "budget"))

    result = check()
    assert (result.month_spent_usd, result.month_running_usd) == (2.5, pytest.approx(expected_usd))
    enough_usd = 2.5 + expected_usd + 0.115 + 1e-6
    assert check(month_usd=enough_usd).allowed
    refused = check(month_usd=enough_usd - 0.01)
    assert not refused.allowed and "and running endpoints will cost" in refused.reason
    assert check(project="ships", month_usd=0.115).allowed, "endpoints of other projects do not count"


@pytest.mark.usefixtures("charged")
def test_forecast_of_a_backfill_counts_endpoints(commands: Any) -> None:
    process = commands.run_step("costs", "forecast", "--dag", "d", "--runs", "1", "--project", "flights", "--json")
    result = json.loads(process.out)
    assert result["month_spent_usd"] == 2.5 and result["month_running_usd"] > 300
    assert result["month_left_usd"] == 0
    assert "for running endpoints" in commands.run_step("costs", "forecast", "--dag", "d", "--runs", "1").out


def test_forecast_of_a_deployment_is_that_of_section_serving(commands: Any, home: Path) -> None:
    process = commands.run_step("costs", "forecast-deployment", "flights", "--json")
    assert process.code == 0, process.err
    result = json.loads(process.out)
    assert (result["usd_h"], result["full_month_usd"], result["endpoint"]) == (0.23, 167.9, "flights")
    assert (result["project"], result["month_budget_usd"], result["allowed"]) == ("flights", 250, True)
    assert result["release_usd"] == 0, "there is no endpoint yet"
    hours = result["rest_of_month_usd"] / 0.23
    assert hours == pytest.approx((get_month_times()[1] - dt.datetime.now(dt.UTC)).total_seconds() / 3_600, abs=0.2)

    EndpointLedger.open().add([make_row(0, 1, endpoint="flights"), make_row(0, 1)])
    process = commands.run_step("costs", "forecast-deployment", "flights", "--instance-count", "1")
    assert process.code == 0 and "Refused" in process.out, "a budget that is exceeded is a result, not an error"
    assert "other endpoints cost 365.00 USD" in process.out and "for the release" in process.out
    text = commands.run_step("costs", "forecast-deployment", "flights", "--instance-type", "ml.c5.xlarge").out
    assert "2 x ml.c5.xlarge at 0.204 USD/h" in text
