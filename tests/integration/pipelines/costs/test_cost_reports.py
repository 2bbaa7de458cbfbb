"""Test the commands of `costs` about key figures, showback and commitments, and the step `showback`, on a real lake."""

import csv
import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.costs.endpoints.ledger import EndpointLedger
from pipelines.costs.ledger import Ledger
from pipelines.errors import DataError, SpecError
from pipelines.steps import showback
from tests.unit.pipelines.costs.ledger_rows import make_endpoint_row, make_row


def get_now() -> dt.datetime:
    """Return the present moment: a run of the tests may cross midnight, or the end of a month."""
    return dt.datetime.now(dt.UTC)


def run_costs(*arguments: str) -> str:
    """Run `python -m pipelines costs` in this process, and return its output."""
    result = CliRunner().invoke(app.build_app("costs"), ["costs", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def ledgers(home: Path) -> list[dict[str, Any]]:
    """Fill both ledgers: 60 days with a job, yesterday's ten times as expensive, and an endpoint two days ago."""
    days = [get_now() - dt.timedelta(days=n, minutes=1) for n in range(60)]
    rows = [
        make_row(f"j{n}", day, team="red" if n % 2 else "", cost_usd=100.0 if n == 1 else 10.0, project="flights")
        for n, day in enumerate(days)
    ]
    Ledger.open().add([{name: value for name, value in row.items() if name != "date"} for row in rows])
    EndpointLedger.open().add([make_endpoint_row(get_now() - dt.timedelta(days=2), project="flights", running=False)])
    return rows


def test_report_by_team_writes_table_csv_and_page(ledgers: list[dict[str, Any]], home: Path) -> None:
    output = run_costs("report", "--by", "team", "--csv", "out/costs.csv", "--html", "out/costs.html")
    assert "Who pays" in output and "unallocated" in output and "red" in output
    assert "Anomaly: flights cost 100.00 USD" in output
    with Path("out/costs.csv").open(newline="") as file:
        costs = {record["team"]: float(record["cost_usd"]) for record in csv.DictReader(file)}
    assert costs == {"red": pytest.approx(390), "unallocated": pytest.approx(301)}
    assert "data:image/png" in Path("out/costs.html").read_text()
    report = json.loads(run_costs("report", "--by", "team", "--json"))
    assert report["payers"]["total"]["cost_usd"] == pytest.approx(report["total_usd"])
    assert len(report["anomalies"]) == 1


@pytest.mark.parametrize(
    "option", ["--csv", *(pytest.param(option, marks=pytest.mark.soak) for option in ("--html", "--png"))]
)
def test_output_that_cannot_be_written_gives_one_line(
    ledgers: list[dict[str, Any]], tmp_path: Path, option: str
) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    for name, text in (("file/x", "Not a directory|File exists"), ("pipe", "not a regular file")):
        with pytest.raises(SpecError, match=f"{text}.*Give a file that can be written"):
            run_costs("report", option, str(tmp_path / name))
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "home", "pipe"]


def test_page_of_a_project_and_a_month_has_only_its_days(
    ledgers: list[dict[str, Any]], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_row = make_row("other", get_now() - dt.timedelta(days=2), cost_usd=7.0, project="other")
    Ledger.open().add([{name: value for name, value in other_row.items() if name != "date"}])
    pages = []
    monkeypatch.setattr("pipelines.costs.showback.page.write_showback_page", lambda *args: pages.append(args))
    month = f"{get_now().replace(day=1) - dt.timedelta(days=1):%Y-%m}"
    for options in ((), ("--project", "flights"), ("--project", "flights", "--month", month)):
        run_costs("report", "--html", "p.html", *options)
    assert [list(daily_costs) for *_, daily_costs, _ in pages] == [["flights", "other"], ["flights"], ["flights"]]
    assert [judged_days for *_, judged_days in pages] == ["the last four weeks", "the last four weeks", month]
    last_days = [daily_costs["flights"].days[-1] for *_, daily_costs, _ in pages]
    yesterday = get_now().date() - dt.timedelta(days=1)
    assert last_days == [yesterday, yesterday, get_now().date().replace(day=1) - dt.timedelta(days=1)]


def test_team_of_a_project_is_in_params_yaml(
    ledgers: list[dict[str, Any]], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Any
) -> None:
    (tmp_path / "params.yaml").write_text("showback: {teams: {flights: blue}}\n")
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    fresh_settings()
    groups = json.loads(run_costs("report", "--by", "team", "--json"))["payers"]["groups"]
    assert {group["team"] for group in groups} == {"red", "blue"}


def write_section(section: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the project to a folder whose params.yaml has a section `showback`."""
    (folder / "params.yaml").write_text(f"showback: {section}\n")
    monkeypatch.setenv("LEEWAY_PROJECT", str(folder))


def test_reserved_share_follows_the_stated_commitment(
    ledgers: list[dict[str, Any]], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Any
) -> None:
    assert "reserved: no commitment stated" in run_costs("report", "--by", "team").replace("\n", " ")
    begin = (get_now() - dt.timedelta(days=2)).date()
    commitment = f"{{usd_h: 0.35, term: 1y, begin: {begin}, discount: 0.3}}"
    write_section(f"{{commitments: [{commitment}]}}", tmp_path, monkeypatch)
    fresh_settings()
    output = run_costs("report", "--by", "team", "--csv", "costs.csv", "--html", "costs.html")
    # The endpoint of 1 USD an hour ran for an hour, in one or two hours of the clock: at least half of it is covered.
    assert "Unused commitment, all payers together, up to yesterday: " in output and "of 16.80 USD." in output
    report = json.loads(run_costs("report", "--by", "project", "--json"))
    assert 0.5 <= report["payers"]["total"]["reserved_usd"] <= 1
    assert report["payers"]["total"]["reserved_usd"] == report["payers"]["groups"][0]["reserved_usd"]
    use = report["commitments"]
    assert use["committed_usd"] == pytest.approx(48 * 0.35)
    assert use["unused_usd"] == pytest.approx(48 * 0.35 - 0.7 * report["payers"]["total"]["reserved_usd"])
    with Path("costs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert (rows[-1]["team"], float(rows[-1]["unused_commitment_usd"])) == ("unused commitment", use["unused_usd"])
    assert "unused commitment, of 16.80 USD" in Path("costs.html").read_text()
    other = json.loads(run_costs("report", "--project", "other", "--json"))
    assert other["commitments"]["unused_usd"] == use["unused_usd"], "that of all payers"


@pytest.mark.parametrize(
    ("commitment", "text"),
    [
        ("{usd_h: -7, term: 1y, begin: 2026-01-01}", "commitments.0.usd_h"),
        ("{usd_h: .nan, term: 1y, begin: 2026-01-01}", "commitments.0.usd_h"),
        ("{usd_h: 7, term: 5y, begin: 2026-01-01}", "commitments.0.term"),
        ("{usd_h: 7, term: 1y, begin: 2026-01-01, discount: 30}", "commitments.0.discount"),
        ("{usd_h: 7}", "commitments.0.term"),
    ],
)
def test_wrong_commitment_of_params_yaml_gives_one_line(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Any, commitment: str, text: str
) -> None:
    write_section(f"{{commitments: [{commitment}]}}", tmp_path, monkeypatch)
    fresh_settings()
    with pytest.raises(SpecError, match=text) as caught:
        run_costs("report")
    assert "\n" not in str(caught.value)


def test_key_figures_have_values_targets_and_reasons(ledgers: list[dict[str, Any]], home: Path) -> None:
    output = run_costs("kpi")
    assert "100.0 %" in output and ">= 95.0 %" in output and "not known" in output
    assert "Anomaly: flights cost 100.00 USD" in output
    assert "Anomaly" not in run_costs("kpi", "--month", f"{get_now():%Y-%m}")
    record = json.loads(run_costs("kpi", "--json"))
    figures = {figure["name"]: figure for figure in record["figures"]}
    assert (figures["job_success"]["jobs"], figures["job_success"]["is_met"]) == (30, True)
    assert record["missed"] == []
    assert json.loads(run_costs("kpi", "--model", "other", "--json"))["figures"][0]["reason"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("kpi", "--month", "2026-13"), "is not a month"),
        (("kpi", "--month", "9999-01"), "is in the future"),
        (("report", "--month", "9999-01"), "is in the future"),
        (("report", "--by", "colour"), "unknown key colour"),
        (("commitment",), "the discount of the savings plan is not known"),
        (("commitment", "--discount", "30"), "--discount 30 is not a share"),
        (("commitment", "--discount", "nan"), "--discount nan is not a share"),
        (("commitment", "--discount", "0.3", "--fall", "-1"), "--fall -1 is not a share"),
    ],
)
def test_wrong_options_give_one_line(home: Path, arguments: tuple[str, ...], text: str) -> None:
    with pytest.raises(SpecError, match=text):
        run_costs(*arguments)


def test_commitment_says_what_it_saves_and_risks(ledgers: list[dict[str, Any]], home: Path) -> None:
    assert "No commitment pays off" in run_costs("commitment", "--discount", "0.3"), "all jobs ran on spot"
    rows = [
        make_endpoint_row(get_now() - dt.timedelta(days=n + 1), 24, project="flights", endpoint="big", cost_usd=240.0)
        for n in range(60)
    ]
    EndpointLedger.open().add([{**row, "variant": f"v{n}"} for n, row in enumerate(rows)])
    output = run_costs("commitment", "--discount", "0.3")
    assert "Last 60 whole days (90 were requested; there are no more)" in output
    assert "Best commitment: 7.0000 USD an hour" in output and "if usage falls by 33%, the commitment costs " in output
    record = json.loads(run_costs("commitment", "--discount", "0.3", "--days", "30", "--json"))
    assert (record["days"], record["usd_h"]) == (30, pytest.approx(7, abs=0.01))
    assert record["backtest"]["saved_usd"] > 0


def test_commitment_needs_a_week(home: Path) -> None:
    with pytest.raises(DataError, match="there are costs of 0 whole day"):
        run_costs("commitment", "--discount", "0.3")


def test_wrong_target_of_params_yaml_gives_one_line_and_exit_code_2(commands: Any, tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("key_figures: {min_gpu_use: 70}\n")
    process = commands.run_step("costs", "kpi", env={"LEEWAY_PROJECT": str(tmp_path)})
    assert (process.code, process.err.count("\n")) == (2, 1)
    assert "min_gpu_use" in process.err and "less than or equal to 1" in process.err


def test_step_reports_budgets_and_jumps_once(
    ledgers: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, fresh_settings: Any
) -> None:
    spec = showback.ShowbackSpec.parse({"budgets_usd": {"flights": 1.0}}, "showback")

    def list_kinds(run: str) -> list[str]:
        monkeypatch.setenv("LEEWAY_RUN", run)
        fresh_settings()
        return [notice.kind for notice in showback.run(spec).notices]

    result = showback.run(showback.ShowbackSpec())
    assert "anomaly" in {notice.kind for notice in result.notices}
    assert result.unallocated_usd > 0
    assert (result.reserved_usd, result.unused_commitment_usd) == (None, None), "no commitment is stated"
    commitment = {"usd_h": 0.7, "term": "1y", "begin": "2026-01-01", "discount": 0.3}
    reserved = showback.run(showback.ShowbackSpec.parse({"commitments": [commitment]}, "showback"))
    assert reserved.reserved_usd is not None and 0 <= reserved.reserved_usd <= 1
    assert reserved.unused_commitment_usd is not None and reserved.unused_commitment_usd >= 0
    first = list_kinds("showback/r1")
    assert "threshold" in first
    assert list_kinds("showback/r1") == first, "a retry"
    assert list_kinds("showback/r2") == []
