"""Test the ledger, the budget, and the costs' report and forecast, with a real lake and processes."""

import datetime as dt
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from pipelines.costs.forecast import estimate_worst_case
from pipelines.costs.ledger import SCHEMA, TABLE, Ledger, get_current_month
from pipelines.costs.payers import PAYER_COLUMNS
from pipelines.costs.restored_checkpoints import RESTORE_COLUMNS
from pipelines.costs.usage.columns import COLUMNS, DATA_WAIT_COLUMN
from pipelines.errors import DataError, SpecError
from pipelines.lake import Lake
from pipelines.lake.month_table import MonthTable, TableVersion
from pipelines.settings import settings
from pipelines.steps import budget, charge

ROOT = Path(__file__).parents[4]
BEGIN = dt.datetime(2026, 10, 31, 23, 30, tzinfo=dt.UTC)


def make_job(name: str, begin: dt.datetime = BEGIN, **fields: Any) -> dict[str, Any]:
    """Return a job that was interrupted once, as the operator reports it."""

    def format_time(second: float) -> str:
        return (begin + dt.timedelta(seconds=second)).isoformat()

    statuses = [("Starting", 0), ("Downloading", 60), ("Training", 70), ("Interrupted", 370), ("Downloading", 400),
                ("Training", 410), ("Uploading", 1_000)]  # fmt: skip
    return {
        "name": name,
        "arn": f"arn:aws:sagemaker:us-east-1:123456789012:training-job/{name}",
        **{"status": "Completed", "secondary_status": "Completed", "failure_reason": ""},
        **{"instance_type": "ml.m5.large", "instance_count": 1, "spot": True},
        **{
            "created": format_time(0),
            "started": format_time(60),
            "ended": format_time(1_020),
            "training_s": 900,
            "billable_s": 300,
        },
        "transitions": [{"status": status, "start": format_time(second), "end": None} for status, second in statuses],
        "restored": [{"at": format_time(70), "saved_at": ""}, {"at": format_time(410), "saved_at": format_time(355)}],
        **fields,
    }


def make_spec(*jobs: dict[str, Any], **fields: Any) -> charge.ChargeSpec:
    """Return the spec that charges these jobs."""
    common = {"model": "m", "dag_id": "flights_train", "run_id": "r1", "task_id": "train", "project": "flights"}
    return charge.ChargeSpec.parse({"jobs": list(jobs), "region": "us-east-1", **common, **fields}, "charge")


def count_commits() -> int:
    return len(Lake.open().catalog.load_table(("leeway", TABLE)).snapshots())


def test_each_job_gets_a_row_with_all_amounts(home: Path) -> None:
    result = charge.run(
        make_spec(make_job("j-1"), make_job("j-2", status="Failed", failure_reason="AlgorithmError", instance_count=2))
    )
    assert (result.training_s, result.billable_s, result.interruptions, result.lost_s) == (1_800, 600, 2, 30)
    assert (result.capacity_s, result.first_capacity_s, result.saving) == (180, 60, pytest.approx(2 / 3))
    rows = Ledger.open().read_rows()
    assert [row["name"] for row in rows] == ["j-1", "j-2"]
    assert sum(row["cost_usd"] for row in rows) == pytest.approx(result.cost_usd)
    assert rows[1]["cost_usd"] == pytest.approx(300 * 2 * 0.115 / 3_600, abs=1e-6)
    columns = {name: rows[1][name] for name in ("date", "status", "failure_reason", "run_id", "map_index", "region")}
    assert columns == {
        "date": dt.date(2026, 10, 1), "status": "Failed", "failure_reason": "AlgorithmError", "run_id": "r1",
        "map_index": -1, "region": "us-east-1",
    }  # fmt: skip
    assert rows[0]["price_source"].startswith("https://")


def test_charging_again_changes_nothing_and_gives_the_same_result(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = charge.run(make_spec(make_job("j-1")))
    before, rows = count_commits(), Ledger.open().read_rows()
    # Another price of today, or another run that has the same job, changes nothing either.
    path = home.parent / "prices.json"
    group = {"regions": ["us-east-1"], "usd_per_hour": {"ml.m5.large": 9}}
    path.write_text(json.dumps({"as_of": "2026-10-01", "prices": [group]}))
    monkeypatch.setenv("LEEWAY_PRICES", str(path))
    assert charge.run(make_spec(make_job("j-1"), run_id="r2")) == first
    assert Ledger.open().read_rows() == rows
    assert count_commits() == before
    # The negative control: another job gets the new price.
    assert charge.run(make_spec(make_job("j-2"))).price_usd_h == 9


def test_a_job_with_a_used_name_is_another_job(home: Path) -> None:
    """drydock uses a name again after its data were removed; AWS never does."""
    charge.run(make_spec(make_job("j-1")))
    charge.run(make_spec(make_job("j-1", BEGIN + dt.timedelta(hours=1))))
    assert len(Ledger.open().read_rows()) == 2


def test_months_are_partitions_in_utc(home: Path) -> None:
    begin = BEGIN.astimezone(dt.timezone(dt.timedelta(hours=2)))  # November in this time zone, October in UTC
    charge.run(make_spec(make_job("j-1", begin), make_job("j-2", BEGIN + dt.timedelta(minutes=31))))
    assert Lake.open().count_rows_by_day(TABLE) == {dt.date(2026, 10, 1): 1, dt.date(2026, 11, 1): 1}
    ledger = Ledger.open()
    assert [row["name"] for row in ledger.read_rows("2026-11")] == ["j-2"]
    assert ledger.sum_cost_usd("2026-10", "flights") == pytest.approx(300 * 0.115 / 3_600, abs=1e-6)
    assert ledger.sum_cost_usd("2026-10", "trains") == ledger.sum_cost_usd("2026-09", "flights") == 0


def test_a_refused_charge_leaves_no_row(home: Path) -> None:
    for invalid_job in (make_job("j-2", status="InProgress"), make_job("j-2", instance_type="ml.m5.lage")):
        with pytest.raises(DataError):
            charge.run(make_spec(make_job("j-1"), invalid_job))
    assert Ledger.open().read_rows() == []


def test_use_of_the_instances_is_stored_and_what_is_not_known_is_null(home: Path) -> None:
    usage = {"cpu": {"peak": 180.5, "mean": 90.0}, "memory": {"peak": 0.0, "mean": 0.0}}
    charge.run(make_spec(make_job("j-1", usage=usage), make_job("j-2")))
    known, unknown = Ledger.open().read_rows()
    assert (known["cpu_peak"], known["cpu_mean"], known["memory_peak"]) == (180.5, 90.0, 0.0)
    assert known["gpu_peak"] is None
    assert {unknown[column] for column in COLUMNS} == {None}
    for wrong in ({"network": usage["cpu"]}, {"cpu": {"peak": -1.0, "mean": 1.0}}, {"cpu": {"peak": 1.0}}):
        with pytest.raises(SpecError):
            make_spec(make_job("j-3", usage=wrong))


def test_ledger_of_an_earlier_version_is_read_and_gets_the_new_columns(home: Path) -> None:
    """Earlier versions stored no utilization of instances, no waits for data, no restores, no payers, and no size."""
    new_names = (*COLUMNS, DATA_WAIT_COLUMN, *RESTORE_COLUMNS, *PAYER_COLUMNS, "input_bytes")
    old_schema = pa.schema([column for column in SCHEMA if column.name not in new_names])
    charge.run(make_spec(make_job("j-1")))
    (row,) = Ledger.open().read_rows()
    Lake.open().catalog.purge_table(("leeway", TABLE))
    months = MonthTable(TABLE, old_schema)
    old_row = {name: value for name, value in row.items() if name not in new_names}
    months.update(
        lambda version: version.replace_month(row["date"], pa.Table.from_pylist([old_row], schema=old_schema))
    )
    row |= dict.fromkeys(new_names)
    assert Ledger.open().read_rows() == [row], "before the first new row"
    charge.run(
        make_spec(make_job("j-2", usage={"cpu": {"peak": 5.0, "mean": 1.0}}, data_wait_share=0.25, input_bytes=2**40))
    )
    rows = Ledger.open().read_rows()
    assert rows[0] == row
    assert [item["cpu_peak"] for item in rows] == [None, 5.0]
    assert [item["data_wait_share"] for item in rows] == [None, 0.25]
    assert [item["input_bytes"] for item in rows] == [None, 2**40]


def test_row_says_for_whom_a_job_ran_and_how_often_it_resumed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("team", "environment", "user", "dataset", "priority", "resumes", "cold_starts")
    charge.run(make_spec(make_job("j-1"), team="a", environment="prod", user="ada", dataset="d", priority="high"))
    monkeypatch.setenv("LEEWAY_TEAM", "b")
    monkeypatch.setenv("LEEWAY_ACTOR", "flights_train/scheduled__1")
    settings.cache_clear()
    charge.run(make_spec(make_job("j-2")))
    monkeypatch.setenv("LEEWAY_ACTOR", "bob")
    settings.cache_clear()
    charge.run(make_spec(make_job("j-3", restored=[]), model="flights"))
    rows = {row["name"]: tuple(row[name] for name in names) for row in Ledger.open().read_rows()}
    assert rows["j-1"] == ("a", "prod", "ada", "d", "high", 1, 0)
    assert rows["j-2"] == ("b", "", "", "flights", "", 1, 0), "a schedule is not a person"
    assert rows["j-3"] == ("b", "", "bob", "flights", "", 0, 0)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_share_of_waits_for_data_is_from_0_to_1(share: float) -> None:
    with pytest.raises(SpecError):
        make_spec(make_job("j-1", data_wait_share=share))


def charge_at_once(commands: Any, tmp_path: Path, charges: list[tuple[str, str]]) -> None:
    """Charge each (job, run) in a process of its own, all at once, in a lake that does not exist yet."""
    processes = []
    for n, (name, run_id) in enumerate(charges):
        path = tmp_path / f"spec{n}.json"
        path.write_text(make_spec(make_job(name), run_id=run_id).model_dump_json())
        process = commands.start(sys.executable, "-m", "pipelines", "charge", "--spec", "-", stdin=subprocess.PIPE)
        processes.append((process, path.read_text()))
    for process, text in processes:
        process.stdin.write(text)
        process.stdin.close()
        process.stdin = None
    for process, _ in processes:
        _out, err = process.communicate(timeout=200)
        assert process.returncode == 0, err[-2_000:]


def test_four_processes_charge_one_job_once(commands: Any, tmp_path: Path) -> None:
    charge_at_once(commands, tmp_path, [("j-1", f"r{n}") for n in range(4)])
    rows = Ledger.open().read_rows()
    assert [row["name"] for row in rows] == ["j-1"]
    assert count_commits() == 1


@pytest.mark.soak
def test_eight_processes_that_charge_different_jobs_lose_none(commands: Any, tmp_path: Path) -> None:
    charge_at_once(commands, tmp_path, [(f"j-{n % 6}", f"r{n}") for n in range(8)])
    assert sorted(row["name"] for row in Ledger.open().read_rows()) == [f"j-{n}" for n in range(6)]


class OvertakenTable(MonthTable):
    """A table to which another process writes once between this process's read and its commit."""

    other: dict[str, Any]

    def _load(self) -> TableVersion:
        version, other = super()._load(), self.__dict__.pop("other", None)
        if other:
            Ledger.open().add([other])
        return version


@pytest.mark.parametrize("first", [False, True])
def test_an_overtaken_process_adds_its_row_to_the_current_rows(first: bool, home: Path) -> None:
    """The process reads the table again. Otherwise one commit would undo another, also the first one of a month."""
    charge.run(make_spec(make_job("j-1"), run_id="other"))
    (base_row,) = Ledger.open().read_rows()
    other_row, rows_before = {**base_row, "run_id": "r-other"}, 0 if first else 1
    if first:
        Lake.open().catalog.drop_table(("leeway", TABLE))
        shutil.rmtree(home / "lake/leeway" / TABLE)  # no table is created beside the files of one of its name
    for arn, expected in (("a", {"a": "r-other"}), ("b", {"a": "r-other", "b": "r-own"})):
        months = OvertakenTable(TABLE, SCHEMA)
        months.other = {**other_row, "arn": "a" if arn == "a" else "c"}
        (stored_row,) = Ledger(months).add([{**base_row, "run_id": "r-own", "arn": arn}])
        assert stored_row["run_id"] == expected[arn]
        run_ids = {row["arn"]: row["run_id"] for row in Ledger.open().read_rows()}
        assert {name: run_ids.get(name) for name in expected} == expected
    assert len(Ledger.open().read_rows()) == 3 + rows_before


# budget


def check_budget(**fields: Any) -> budget.BudgetResult:
    """Run the step `budget`."""
    common = {"region": "us-east-1", "instance_types": ["ml.m5.large", "ml.c5.xlarge"], "max_run_s": 3_600}
    return budget.run(budget.BudgetSpec.parse({**common, "project": "flights", **fields}, "budget"))


def test_the_worst_case_uses_the_most_expensive_type(home: Path) -> None:
    result = check_budget(instance_count=3)
    assert result.worst_case_usd == pytest.approx(0.204 * 3)
    assert result.prices_usd_h == {"ml.m5.large": 0.115, "ml.c5.xlarge": 0.204}
    assert result.allowed and result.month_budget_usd is None
    assert "3 x ml.c5.xlarge at 0.204 USD/h for 3600 s" in result.reason


def test_a_retired_type_is_refused_with_its_successor_before_anything_starts(home: Path) -> None:
    with pytest.raises(SpecError, match=r"ml.p3.2xlarge is retired. Use ml.g5.2xlarge"):
        check_budget(instance_types=["ml.m5.large", "ml.p3.2xlarge"])
    with pytest.raises(SpecError, match=r"ml\.p3\.8xlarge is retired"):
        estimate_worst_case(["ml.p3.8xlarge"], 1, 60, "us-east-1")


def test_the_worst_case_of_a_tuning_is_that_of_all_its_trials(home: Path) -> None:
    result = check_budget(trainings=30, max_run_s=360)
    assert result.worst_case_usd == pytest.approx(30 * 0.0204)
    assert "30 trials of 1 x ml.c5.xlarge at 0.204 USD/h for 360 s, is 0.6120 USD" in result.reason
    assert not check_budget(trainings=30, max_run_s=360, budget_usd=0.6).allowed
    assert check_budget(trainings=29, max_run_s=360, budget_usd=0.6).allowed


def test_a_budget_that_is_reached_exactly_is_not_exceeded(home: Path) -> None:
    assert check_budget(budget_usd=0.204).allowed
    exceeded_result = check_budget(budget_usd=0.203999)
    assert not exceeded_result.allowed
    assert "more than the run's budget" in exceeded_result.reason


def test_the_ledger_gives_what_the_month_has_spent(home: Path) -> None:
    spent = charge.run(make_spec(make_job("j-1"))).cost_usd
    month = {"month": "2026-10", "month_usd": spent + 0.204}
    result = check_budget(**month)
    assert (result.allowed, result.month_spent_usd, result.month_budget_usd) == (True, spent, spent + 0.204)
    charge.run(make_spec(make_job("j-2", billable_s=1)))
    exceeded_result = check_budget(**month)
    assert not exceeded_result.allowed
    assert "left of flights's" in exceeded_result.reason and "2026-10" in exceeded_result.reason
    assert check_budget(**{**month, "month": "2026-11"}).allowed, "another month has a budget of its own"
    assert check_budget(**month, project="trains").allowed, "another project has a budget of its own"


def test_a_month_without_money_allows_nothing(home: Path) -> None:
    assert not check_budget(month_usd=0).allowed
    assert not check_budget(budget_usd=0).allowed


def test_the_project_of_the_model_pays_for_its_jobs_and_is_checked(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Any
) -> None:
    """The operators send an empty project unless the task names one."""
    (tmp_path / "models/trains").mkdir(parents=True)
    (tmp_path / "models/trains/params.yaml").write_text("budget: {project: railway}\n")
    (tmp_path / "params.yaml").write_text("budget: {project: airline}\n")
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    fresh_settings()
    spent = charge.run(make_spec(make_job("j-1"), project="", model="trains")).cost_usd
    month = {"project": "", "month": "2026-10", "month_usd": spent}
    result = check_budget(**month, model="trains")
    assert (result.allowed, result.month_spent_usd) == (False, spent)
    assert "left of railway's" in result.reason
    assert check_budget(**month).month_spent_usd == 0, "without a model, airline pays"


def test_params_yaml_sets_the_project_and_its_monthly_budget(commands: Any, tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("budget: {project: trains, month_usd: 0.1, region: us-east-1}\n")
    env = {"LEEWAY_PROJECT": str(tmp_path)}
    now = dt.datetime.now(dt.UTC).isoformat()
    text = make_spec(make_job("j-1", dt.datetime.fromisoformat(now)), project="").model_dump_json()
    (tmp_path / "charge.json").write_text(text)
    charge_process = commands.run_step("charge", "--spec", "charge.json", env=env)
    assert charge_process.code == 0, charge_process.err
    command = ("budget", "--instance-types", '["ml.m5.large"]', "--max-run-s")
    budget_process = commands.run_step(*command, "3600", env=env)
    assert budget_process.code == 0, "a budget that is exceeded is a result, not an error"
    result = json.loads(budget_process.out)
    assert result["month_spent_usd"] == pytest.approx(json.loads(charge_process.out)["cost_usd"])
    assert (result["allowed"], result["month_budget_usd"]) == (False, 0.1)
    assert "trains's 0.1000 USD" in result["reason"]
    assert json.loads(commands.run_step(*command, "60", env=env).out)["allowed"]


@pytest.mark.parametrize(("name", "hint"), [("ml.m7i.large", "LEEWAY_PRICES"), ("ml.m5.lage", "ml.m5.large")])
def test_a_type_without_price_gives_one_line_and_exit_code_2(commands: Any, name: str, hint: str) -> None:
    process = commands.run_step(
        "budget", "--region", "us-east-1", "--instance-types", f'["{name}"]', "--max-run-s", "60"
    )
    assert process.code == 2
    assert process.err.count("\n") == 1 and name in process.err and hint in process.err


# report


def test_an_empty_ledger_gives_one_line(commands: Any, tmp_path: Path) -> None:
    process = commands.run_step("costs", "report", "--png", "costs.png")
    assert (process.code, process.out.count("\n"), process.err.count("\n")) == (0, 1, 1)
    assert "no chart was written to costs.png" in process.err
    assert "Nothing was charged yet" in process.out
    assert not (tmp_path / "costs.png").exists()


@pytest.fixture
def two_months(home: Path) -> charge.ChargeResult:
    """Charge one job in October and a more expensive one in November; return the result."""
    expensive_job = make_job("j-2", BEGIN + dt.timedelta(days=3), instance_type="ml.c5.xlarge", billable_s=900)
    return charge.run(make_spec(make_job("j-1"), expensive_job))


def test_the_report_has_a_table_json_and_a_chart(
    two_months: charge.ChargeResult, commands: Any, tmp_path: Path
) -> None:
    process = commands.run_step("costs", "report", "--png", "charts/costs.png")
    assert process.code == 0, process.err
    for text in ("2026-10", "2026-11", "ml.m5.large", "ml.c5.xlarge", "66.7", "all", "prices as of 2025"):
        assert text in process.out
    image = (tmp_path / "charts/costs.png").read_bytes()
    assert image.startswith(b"\x89PNG") and len(image) > 10_000
    assert commands.run_step("costs", "report", "--png", "again.png").code == 0
    assert (tmp_path / "again.png").read_bytes() == image
    report = json.loads(commands.run_step("costs", "report", "--json", "--by", "instance_type").out)
    assert [group["instance_type"] for group in report["groups"]] == ["ml.c5.xlarge", "ml.m5.large"]
    assert report["total"]["cost_usd"] == pytest.approx(two_months.cost_usd)
    assert report["total"]["saved_usd"] == pytest.approx(two_months.on_demand_usd - two_months.cost_usd)


def test_the_report_can_be_of_one_month_or_one_project(two_months: charge.ChargeResult, commands: Any) -> None:
    assert json.loads(commands.run_step("costs", "report", "--month", "2026-10", "--json").out)["total"]["jobs"] == 1
    assert json.loads(commands.run_step("costs", "report", "--project", "flights", "--json").out)["total"]["jobs"] == 2
    process = commands.run_step("costs", "report", "--project", "nobody", "--png", "costs.png")
    assert "Nothing was charged" in process.out and "no chart was written to costs.png" in process.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "--month", "2026-13"], "YYYY-MM"),
        (["report", "--by", "colour"], "unknown key colour"),
        (["forecast", "--dag", "d", "--from", "2013-12-31", "--to", "2013-02-01"], "is after"),
        (["forecast", "--dag", "d", "--from", "2013-02-30", "--to", "2013-12-31"], "is not a day"),
        (["forecast", "--dag", "d", "--from", "2013-02-01"], "--runs N"),
        (["forecast", "--dag", "d", "--runs", "-1"], "--runs"),
        (["forecast", "--runs", "1"], "--dag"),
        (["forecast", "--dag", "", "--runs", "1"], "--dag is empty"),
        (
            ["forecast", "--dag", "d", "--runs", "1", "--from", "banana"],
            "--runs cannot be combined with --from",
        ),
        (
            ["forecast", "--dag", "d", "--runs", "0", "--to", "2013-02-01"],
            "--runs cannot be combined with --from",
        ),
        (["forecast", "--dag", "d", "--from", "banana", "--to", "2013-02-01"], "'banana' is not a day"),
        (["forecast-deployment", ""], "endpoint: string should have at least 1 character"),
        (["forecast-deployment", "flights", "--instance-type", "m5"], "instance_type"),
        (["forecast-deployment", "flights", "--region", "mars-north-1"], "no price is known for region mars-north-1"),
        (["nonsense"], "nonsense"),
    ],
)
def test_an_invalid_request_gives_one_line_and_exit_code_2(arguments: list[str], message: str, commands: Any) -> None:
    process = commands.run_step("costs", *arguments)
    assert (process.code, process.out) == (2, "")
    assert process.err.count("\n") == 1 and message in process.err


def test_every_command_has_help(commands: Any) -> None:
    for arguments in ([], ["report"], ["forecast"], ["forecast-deployment"]):
        process = commands.run_step("costs", *arguments, "--help", env={"COLUMNS": "200"})
        assert process.code == 0 and "Usage" in process.out


# forecast


@pytest.fixture(scope="module")
def airflow_home(tmp_path_factory: pytest.TempPathFactory, put_airflow_database: Callable[[Path], None]) -> Path:
    """Return the home of a real Airflow that has this project's DAGs."""
    folder = tmp_path_factory.mktemp("airflow")
    env = {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}",
    }
    put_airflow_database(folder)
    command = [sys.executable, "-m", "airflow", "dags", "reserialize"]
    subprocess.run(command, env={**os.environ, **env}, capture_output=True, check=True, cwd=folder)
    return folder


def run_forecast(commands: Any, *arguments: str, **env: str) -> SimpleNamespace:
    """Run `costs forecast` and return its exit code, stdout and stderr."""
    process: SimpleNamespace = commands.run_step("costs", "forecast", *arguments, env=env)
    return process


YEAR = ("--dag", "flights_train", "--from", "2013-02-01", "--to", "2013-12-31")


def test_the_forecast_counts_runs_by_airflow_at_the_worst_case(commands: Any, airflow_home: Path) -> None:
    process = run_forecast(commands, *YEAR, AIRFLOW_HOME=str(airflow_home))
    assert process.code == 0, process.err
    assert "flights_train: 11 run(s)" in process.out
    assert "worst case, 1 x ml.m5.large" in process.out, "the worst case comes from section budget of params.yaml"
    assert "In all: 1.26 USD" in process.out and process.out.endswith(": enough.\n")


def test_the_forecast_uses_the_costs_of_past_runs(commands: Any, airflow_home: Path, home: Path) -> None:
    now = dt.datetime.now(dt.UTC)
    costs = [
        charge.run(make_spec(make_job(f"j-{n}", now, billable_s=n), run_id=f"r{n}")).cost_usd for n in (100, 200, 900)
    ]
    charge.run(make_spec(make_job("other", now), dag_id="another_dag"))
    process = run_forecast(commands, *YEAR, "--json", AIRFLOW_HOME=str(airflow_home))
    assert process.code == 0, process.err
    result = json.loads(process.out)
    assert (result["runs"], result["usd_per_run"], result["worst_usd_per_run"]) == (11, costs[1], costs[2])
    assert result["usd"] == pytest.approx(11 * costs[1])
    assert "3 past run(s)" in result["basis"]
    assert (result["project"], result["month"], result["month_budget_usd"]) == ("flights", get_current_month(), 250)
    assert result["month_left_usd"] == pytest.approx(250 - result["month_spent_usd"])
    assert result["month_spent_usd"] > sum(costs), "the other DAG's training counts, too"
    runs = ("--dag", "flights_train", "--runs", "2")
    assert f"{costs[1]:.4f}" in run_forecast(commands, *runs).out
    machine = run_forecast(commands, *runs, "--instance-type", "ml.c5.xlarge").out
    assert "worst case, 1 x ml.c5.xlarge" in machine and "no past run" not in machine, "the option is not ignored"
    assert "no past run of nix in the ledger" in run_forecast(commands, "--dag", "nix", "--runs", "2").out


@pytest.mark.soak
def test_the_forecast_counts_days_of_a_dag_that_runs_by_partition(commands: Any, airflow_home: Path) -> None:
    arguments = ("--dag", "flights_ingest", "--from", "2013-02-01", "--to", "2013-02-03", "--json")
    assert json.loads(run_forecast(commands, *arguments, AIRFLOW_HOME=str(airflow_home)).out)["runs"] == 3


def test_refuses_a_dag_that_airflow_does_not_have(commands: Any, airflow_home: Path) -> None:
    arguments = ("--dag", "flights_nix", "--from", "2013-02-01", "--to", "2013-12-31")
    process = run_forecast(commands, *arguments, AIRFLOW_HOME=str(airflow_home))
    assert (process.code, process.out) == (2, "")
    assert process.err == (
        "error: Airflow has no DAG flights_nix. List the DAGs with `airflow dags list`, or give --runs N.\n"
    )


def test_reports_why_airflow_refuses_a_backfill(commands: Any, airflow_home: Path) -> None:
    arguments = ("--dag", "flights_train", "--from", "2093-02-01", "--to", "2093-12-31")
    process = run_forecast(commands, *arguments, AIRFLOW_HOME=str(airflow_home))
    assert process.code == 2
    assert "Airflow refuses" in process.err and "future" in process.err and process.err.count("\n") == 1


def test_the_forecast_sets_up_no_airflow(commands: Any, tmp_path: Path) -> None:
    process = run_forecast(commands, *YEAR, HOME=str(tmp_path), AIRFLOW_HOME="")
    assert process.code == 2
    assert "not set up here" in process.err and "--runs N" in process.err
    assert not (tmp_path / "airflow").exists()
    assert (
        run_forecast(commands, "--dag", "flights_train", "--runs", "11", HOME=str(tmp_path), AIRFLOW_HOME="").code == 0
    )


@pytest.mark.soak
def test_the_forecast_finds_the_airflow_of_the_embedded_stack(commands: Any, airflow_home: Path, home: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / "airflow").symlink_to(airflow_home)
    process = run_forecast(commands, *YEAR, AIRFLOW_HOME="")
    assert "11 run(s)" in process.out, process.err


def test_names_the_missing_options_without_past_runs_and_a_machine(commands: Any, tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("{}\n")
    env = {"LEEWAY_PROJECT": str(tmp_path)}
    process = run_forecast(commands, "--dag", "d", "--runs", "2", **env)
    assert process.code == 2 and "--instance-type, --max-run-s, --region" in process.err
    machine = ("--instance-type", "ml.c5.xlarge", "--max-run-s", "3600", "--region", "us-east-1")
    output = run_forecast(commands, "--dag", "d", "--runs", "2", *machine, "--instance-count", "5", **env).out
    assert "2.04 USD" in output and "no project has no monthly budget" in output


# MLflow


@pytest.mark.soak
def test_costs_are_tags_of_run_and_version_and_metrics_of_the_run(
    trained: SimpleNamespace,
    with_mlflow: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    until: Callable[..., Any],
) -> None:
    import shutil

    from mlflow import MlflowClient

    from pipelines.steps import evaluate

    shutil.copytree(trained.data, tmp_path / "data")
    client = MlflowClient(with_mlflow, with_mlflow)
    lineage = {"cost_usd": "0.0096", "saving": "0.5", "lost_s": "", "instance_type": "ml.m5.large", "dag_run": "d/r"}
    for _ in range(2):
        result = evaluate.run(evaluate.EvaluateSpec(dataset="flights", model="costly", lineage=lineage))
    version = client.get_model_version("costly", result.version)
    run = client.get_run(result.run_id)
    assert version.tags["leeway.cost_usd"] == run.data.tags["leeway.cost_usd"] == "0.0096"
    assert run.data.tags["leeway.instance_type"] == "ml.m5.large"
    assert (run.data.metrics["cost_usd"], run.data.metrics["saving"]) == (0.0096, 0.5)
    assert "lost_s" not in run.data.metrics and "leeway.dag_run" not in run.data.tags
    # Other tests of the session may have registered the same training. Its run then has their metrics, too.
    history = client.get_metric_history(result.run_id, "cost_usd")
    logged_metrics = [metric for metric in history if metric.timestamp == version.creation_timestamp]
    assert len(logged_metrics) == 1, "registering twice logs the metric once"
