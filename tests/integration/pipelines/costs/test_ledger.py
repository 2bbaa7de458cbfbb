"""The ledger as processes use it: charged once, whoever charges at the same time; budgets, report, forecast."""

import datetime as dt
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.costs.ledger import SCHEMA, TABLE, Ledger, this_month
from pipelines.errors import DataError
from pipelines.lake import Lake
from pipelines.lake.month_table import MonthTable, TableVersion
from pipelines.steps import budget, charge

ROOT = Path(__file__).parents[4]
BEGIN = dt.datetime(2026, 10, 31, 23, 30, tzinfo=dt.UTC)


def job(name: str, begin: dt.datetime = BEGIN, **fields: Any) -> dict[str, Any]:
    """A job that was interrupted once, as the operator tells it."""

    def at(second: float) -> str:
        return (begin + dt.timedelta(seconds=second)).isoformat()

    words = [("Starting", 0), ("Downloading", 60), ("Training", 70), ("Interrupted", 370), ("Downloading", 400),
             ("Training", 410), ("Uploading", 1_000)]  # fmt: skip
    return {
        "name": name,
        "arn": f"arn:aws:sagemaker:us-east-1:123456789012:training-job/{name}",
        **{"status": "Completed", "secondary_status": "Completed", "failure_reason": ""},
        **{"instance_type": "ml.m5.large", "instance_count": 1, "spot": True},
        **{"created": at(0), "started": at(60), "ended": at(1_020), "training_s": 900, "billable_s": 300},
        "transitions": [{"status": word, "start": at(second), "end": None} for word, second in words],
        "restored": [{"at": at(70), "saved_at": ""}, {"at": at(410), "saved_at": at(355)}],
        **fields,
    }


def spec(*jobs: dict[str, Any], **fields: Any) -> charge.ChargeSpec:
    whose = {"model": "m", "dag_id": "flights_train", "run_id": "r1", "task_id": "train", "project": "flights"}
    return charge.ChargeSpec.parse({"jobs": list(jobs), "region": "us-east-1", **whose, **fields}, "charge")


def commits() -> int:
    return len(Lake.open().catalog.load_table(("leeway", TABLE)).snapshots())


def test_a_charge_is_a_row_with_every_figure(home: Path) -> None:
    told = charge.run(spec(job("j-1"), job("j-2", status="Failed", failure_reason="AlgorithmError", instance_count=2)))
    assert (told.training_s, told.billable_s, told.interruptions, told.lost_s) == (1_800, 600, 2, 30)
    assert (told.capacity_s, told.first_capacity_s, told.saving) == (180, 60, pytest.approx(2 / 3))
    rows = Ledger.open().rows()
    assert [row["name"] for row in rows] == ["j-1", "j-2"]
    assert sum(row["cost_usd"] for row in rows) == pytest.approx(told.cost_usd)
    assert rows[1]["cost_usd"] == pytest.approx(300 * 2 * 0.115 / 3_600, abs=1e-6)
    kept = {name: rows[1][name] for name in ("date", "status", "failure_reason", "run_id", "map_index", "region")}
    assert kept == {
        "date": dt.date(2026, 10, 1), "status": "Failed", "failure_reason": "AlgorithmError", "run_id": "r1",
        "map_index": -1, "region": "us-east-1",
    }  # fmt: skip
    assert rows[0]["price_source"].startswith("https://")


def test_charging_again_changes_nothing_and_says_the_same(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = charge.run(spec(job("j-1")))
    before, rows = commits(), Ledger.open().rows()
    # Nor does another price of today, or another run that finds the same job.
    own = home.parent / "own.json"
    group = {"regions": ["us-east-1"], "usd_per_hour": {"ml.m5.large": 9}}
    own.write_text(json.dumps({"as_of": "2026-10-01", "prices": [group]}))
    monkeypatch.setenv("LEEWAY_PRICES", str(own))
    assert charge.run(spec(job("j-1"), run_id="r2")) == first
    assert Ledger.open().rows() == rows
    assert commits() == before
    # The negative control: another job at that price.
    assert charge.run(spec(job("j-2"))).price_usd_h == 9


def test_a_name_that_was_given_again_is_another_job(home: Path) -> None:
    """drydock, its data removed, gives a name again; AWS never does."""
    charge.run(spec(job("j-1")))
    charge.run(spec(job("j-1", BEGIN + dt.timedelta(hours=1))))
    assert len(Ledger.open().rows()) == 2


def test_months_are_partitions_in_utc(home: Path) -> None:
    late = BEGIN.astimezone(dt.timezone(dt.timedelta(hours=2)))  # November there, October in UTC
    charge.run(spec(job("j-1", late), job("j-2", BEGIN + dt.timedelta(minutes=31))))
    assert Lake.open().count_rows_by_day(TABLE) == {dt.date(2026, 10, 1): 1, dt.date(2026, 11, 1): 1}
    ledger = Ledger.open()
    assert [row["name"] for row in ledger.rows("2026-11")] == ["j-2"]
    assert ledger.spent_usd("2026-10", "flights") == pytest.approx(300 * 0.115 / 3_600, abs=1e-6)
    assert ledger.spent_usd("2026-10", "others") == ledger.spent_usd("2026-09", "flights") == 0


def test_what_is_refused_leaves_no_row(home: Path) -> None:
    for wrong in (job("j-2", status="InProgress"), job("j-2", instance_type="ml.m5.lage")):
        with pytest.raises(DataError):
            charge.run(spec(job("j-1"), wrong))
    assert Ledger.open().rows() == []


def together(commands: Any, tmp_path: Path, charges: list[tuple[str, str]]) -> None:
    """A real process a charge (job, run), all at once, on a lake that is not there yet."""
    children = []
    for n, (name, run_id) in enumerate(charges):
        path = tmp_path / f"spec{n}.json"
        path.write_text(spec(job(name), run_id=run_id).model_dump_json())
        child = commands.start(sys.executable, "-m", "pipelines", "charge", "--spec", "-", stdin=subprocess.PIPE)
        children.append((child, path.read_text()))
    for child, text in children:
        child.stdin.write(text)
        child.stdin.close()
        child.stdin = None
    for child, _ in children:
        _out, err = child.communicate(timeout=200)
        assert child.returncode == 0, err[-2_000:]


def test_four_processes_charge_one_job_once(commands: Any, tmp_path: Path) -> None:
    together(commands, tmp_path, [("j-1", f"r{n}") for n in range(4)])
    rows = Ledger.open().rows()
    assert [row["name"] for row in rows] == ["j-1"]
    assert commits() == 1


def test_eight_processes_that_charge_other_jobs_lose_none(commands: Any, tmp_path: Path) -> None:
    together(commands, tmp_path, [(f"j-{n % 6}", f"r{n}") for n in range(8)])
    assert sorted(row["name"] for row in Ledger.open().rows()) == [f"j-{n}" for n in range(6)]


class OvertakenTable(MonthTable):
    """A table that another process writes to between this one's read and its commit, once."""

    other: dict[str, Any]

    def _load(self) -> TableVersion:
        version, other = super()._load(), self.__dict__.pop("other", None)
        if other:
            Ledger.open().add([other])
        return version


@pytest.mark.parametrize("first", [False, True])
def test_who_was_overtaken_adds_to_what_is_there_now(first: bool, home: Path) -> None:
    """Without the second look, the first commit of a month and a later one would each undo the other's."""
    charge.run(spec(job("j-1"), run_id="other"))
    (mine,) = Ledger.open().rows()
    theirs, known = {**mine, "run_id": "theirs"}, 0 if first else 1
    if first:
        Lake.open().catalog.drop_table(("leeway", TABLE))
    for arn, expected in (("a", {"a": "theirs"}), ("b", {"a": "theirs", "b": "mine"})):
        months = OvertakenTable(TABLE, SCHEMA)
        months.other = {**theirs, "arn": "a" if arn == "a" else "c"}
        (kept,) = Ledger(months).add([{**mine, "run_id": "mine", "arn": arn}])
        assert kept["run_id"] == expected[arn]
        found = {row["arn"]: row["run_id"] for row in Ledger.open().rows()}
        assert {name: found.get(name) for name in expected} == expected
    assert len(Ledger.open().rows()) == 3 + known


# budget


def judged(**fields: Any) -> budget.BudgetResult:
    known = {"region": "us-east-1", "instance_types": ["ml.m5.large", "ml.c5.xlarge"], "max_run_s": 3_600}
    return budget.run(budget.BudgetSpec.parse({**known, "project": "flights", **fields}, "budget"))


def test_the_worst_case_is_of_the_dearest_type(home: Path) -> None:
    told = judged(instance_count=3)
    assert told.worst_case_usd == pytest.approx(0.204 * 3)
    assert told.prices_usd_h == {"ml.m5.large": 0.115, "ml.c5.xlarge": 0.204}
    assert told.allowed and told.month_budget_usd is None
    assert "3 x ml.c5.xlarge at 0.204 USD/h for 3600 s" in told.reason


def test_a_budget_that_is_reached_exactly_is_not_exceeded(home: Path) -> None:
    assert judged(budget_usd=0.204).allowed
    over = judged(budget_usd=0.203999)
    assert not over.allowed
    assert "more than the run's budget" in over.reason


def test_the_months_budget_is_summed_from_the_ledger(home: Path) -> None:
    spent = charge.run(spec(job("j-1"))).cost_usd
    month = {"month": "2026-10", "month_usd": spent + 0.204}
    told = judged(**month)
    assert (told.allowed, told.month_spent_usd, told.month_budget_usd) == (True, spent, spent + 0.204)
    charge.run(spec(job("j-2", billable_s=1)))
    over = judged(**month)
    assert not over.allowed
    assert "left of flights's" in over.reason and "2026-10" in over.reason
    assert judged(**{**month, "month": "2026-11"}).allowed, "another month"
    assert judged(**month, project="others").allowed, "another project"


def test_a_month_without_money_allows_nothing(home: Path) -> None:
    assert not judged(month_usd=0).allowed
    assert not judged(budget_usd=0).allowed


def test_params_yaml_sets_project_and_budget_of_the_month(commands: Any, tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("budget: {project: mine, month_usd: 0.1, region: us-east-1}\n")
    env = {"LEEWAY_PROJECT": str(tmp_path)}
    started = dt.datetime.now(dt.UTC).isoformat()
    text = spec(job("j-1", dt.datetime.fromisoformat(started)), project="").model_dump_json()
    (tmp_path / "charge.json").write_text(text)
    done = commands.step("charge", "--spec", "charge.json", env=env)
    assert done.code == 0, done.err
    asked = ("budget", "--instance-types", '["ml.m5.large"]', "--max-run-s")
    refused = commands.step(*asked, "3600", env=env)
    assert refused.code == 0, "a no is a result"
    told = json.loads(refused.out)
    assert told["month_spent_usd"] == pytest.approx(json.loads(done.out)["cost_usd"])
    assert (told["allowed"], told["month_budget_usd"]) == (False, 0.1)
    assert "mine's 0.1000 USD" in told["reason"]
    assert json.loads(commands.step(*asked, "60", env=env).out)["allowed"]


def test_a_type_without_price_is_a_line_and_exit_2(commands: Any) -> None:
    done = commands.step("budget", "--region", "us-east-1", "--instance-types", '["ml.m5.lage"]', "--max-run-s", "60")
    assert done.code == 2
    assert done.err.count("\n") == 1 and "ml.m5.lage" in done.err and "LEEWAY_PRICES" in done.err


# report


def test_an_empty_ledger_is_a_line(commands: Any, tmp_path: Path) -> None:
    done = commands.step("costs", "report", "--png", "costs.png")
    assert (done.code, done.out.count("\n"), done.err) == (0, 1, "")
    assert "No training was charged yet" in done.out
    assert not (tmp_path / "costs.png").exists()


@pytest.fixture
def two_months(home: Path) -> charge.ChargeResult:
    dear = job("j-2", BEGIN + dt.timedelta(days=3), instance_type="ml.c5.xlarge", billable_s=900)
    return charge.run(spec(job("j-1"), dear))


def test_the_report_is_a_table_json_and_a_chart(two_months: charge.ChargeResult, commands: Any, tmp_path: Path) -> None:
    done = commands.step("costs", "report", "--png", "charts/costs.png")
    assert done.code == 0, done.err
    for said in ("2026-10", "2026-11", "ml.m5.large", "ml.c5.xlarge", "66.7", "all", "prices as of 2025"):
        assert said in done.out
    image = (tmp_path / "charts/costs.png").read_bytes()
    assert image.startswith(b"\x89PNG") and len(image) > 10_000
    assert commands.step("costs", "report", "--png", "again.png").code == 0
    assert (tmp_path / "again.png").read_bytes() == image
    told = json.loads(commands.step("costs", "report", "--json", "--by", "instance_type").out)
    assert [one["instance_type"] for one in told["groups"]] == ["ml.c5.xlarge", "ml.m5.large"]
    assert told["total"]["cost_usd"] == pytest.approx(two_months.cost_usd)
    assert told["total"]["saved_usd"] == pytest.approx(two_months.on_demand_usd - two_months.cost_usd)


def test_the_report_of_a_month_and_a_project(two_months: charge.ChargeResult, commands: Any) -> None:
    assert json.loads(commands.step("costs", "report", "--month", "2026-10", "--json").out)["total"]["jobs"] == 1
    assert json.loads(commands.step("costs", "report", "--project", "flights", "--json").out)["total"]["jobs"] == 2
    assert "No training" in commands.step("costs", "report", "--project", "nobody").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["report", "--month", "2026-13"], "YYYY-MM"),
        (["report", "--by", "colour"], "unknown key colour"),
        (["forecast", "--dag", "d", "--from", "2013-12-31", "--to", "2013-02-01"], "is after"),
        (["forecast", "--dag", "d", "--from", "2013-02-30", "--to", "2013-12-31"], "is not a day"),
        (["forecast", "--dag", "d", "--from", "2013-02-01"], "--runs N"),
        (["forecast", "--dag", "d", "--runs", "-1"], "--runs"),
        (["forecast", "--runs", "1"], "--dag"),
        (["nonsense"], "nonsense"),
    ],
)
def test_a_wrong_request_is_one_line_and_exit_2(arguments: list[str], said: str, commands: Any) -> None:
    done = commands.step("costs", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1 and said in done.err


def test_every_command_has_help(commands: Any) -> None:
    for arguments in ([], ["report"], ["forecast"]):
        done = commands.step("costs", *arguments, "--help", env={"COLUMNS": "200"})
        assert done.code == 0 and "Usage" in done.out


# forecast


@pytest.fixture(scope="module")
def airflow_home(tmp_path_factory: pytest.TempPathFactory, put_airflow_database: Callable[[Path], None]) -> Path:
    """A real Airflow that knows this project's DAGs."""
    folder = tmp_path_factory.mktemp("airflow")
    own = {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}",
    }
    put_airflow_database(folder)
    command = [sys.executable, "-m", "airflow", "dags", "reserialize"]
    subprocess.run(command, env={**os.environ, **own}, capture_output=True, check=True, cwd=folder)
    return folder


def forecast(commands: Any, *arguments: str, **env: str) -> SimpleNamespace:
    done: SimpleNamespace = commands.step("costs", "forecast", *arguments, env=env)
    return done


YEAR = ("--dag", "flights_train", "--from", "2013-02-01", "--to", "2013-12-31")


def test_the_forecast_asks_airflow_and_takes_the_worst_case(commands: Any, airflow_home: Path) -> None:
    done = forecast(commands, *YEAR, AIRFLOW_HOME=str(airflow_home))
    assert done.code == 0, done.err
    assert "flights_train: 11 run(s)" in done.out
    assert "worst case, 1 x ml.m5.large" in done.out, "of section budget of params.yaml"
    assert "In all: 1.26 USD" in done.out and done.out.endswith(": enough.\n")


def test_the_forecast_takes_what_past_runs_cost(commands: Any, airflow_home: Path, home: Path) -> None:
    now = dt.datetime.now(dt.UTC)
    costs = [charge.run(spec(job(f"j-{n}", now, billable_s=n), run_id=f"r{n}")).cost_usd for n in (100, 200, 900)]
    charge.run(spec(job("other", now), dag_id="another_dag"))
    done = forecast(commands, *YEAR, "--json", AIRFLOW_HOME=str(airflow_home))
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert (told["runs"], told["usd_per_run"], told["worst_usd_per_run"]) == (11, costs[1], costs[2])
    assert told["usd"] == pytest.approx(11 * costs[1])
    assert "3 past run(s)" in told["basis"]
    assert (told["project"], told["month"], told["month_budget_usd"]) == ("flights", this_month(), 50)
    assert told["month_left_usd"] == pytest.approx(50 - told["month_spent_usd"])
    assert told["month_spent_usd"] > sum(costs), "the other DAG's training, too"


def test_days_that_are_partitions_are_counted(commands: Any, airflow_home: Path) -> None:
    arguments = ("--dag", "flights_ingest", "--from", "2013-02-01", "--to", "2013-02-03", "--json")
    assert json.loads(forecast(commands, *arguments, AIRFLOW_HOME=str(airflow_home)).out)["runs"] == 3


def test_a_dag_that_airflow_does_not_know(commands: Any, airflow_home: Path) -> None:
    arguments = ("--dag", "flights_nix", "--from", "2013-02-01", "--to", "2013-12-31")
    done = forecast(commands, *arguments, AIRFLOW_HOME=str(airflow_home))
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "error: Airflow has no DAG flights_nix. List the DAGs with `airflow dags list`, or give --runs N.\n"
    )


def test_a_backfill_that_airflow_refuses(commands: Any, airflow_home: Path) -> None:
    arguments = ("--dag", "flights_train", "--from", "2093-02-01", "--to", "2093-12-31")
    done = forecast(commands, *arguments, AIRFLOW_HOME=str(airflow_home))
    assert done.code == 2
    assert "Airflow refuses" in done.err and "future" in done.err and done.err.count("\n") == 1


def test_where_airflow_is_not_set_up_none_is_made(commands: Any, tmp_path: Path) -> None:
    done = forecast(commands, *YEAR, HOME=str(tmp_path), AIRFLOW_HOME="")
    assert done.code == 2
    assert "not set up here" in done.err and "--runs N" in done.err
    assert not (tmp_path / "airflow").exists()
    assert forecast(commands, "--dag", "flights_train", "--runs", "11", HOME=str(tmp_path), AIRFLOW_HOME="").code == 0


def test_the_embedded_stacks_airflow_is_found(commands: Any, airflow_home: Path, home: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / "airflow").symlink_to(airflow_home)
    done = forecast(commands, *YEAR, AIRFLOW_HOME="")
    assert "11 run(s)" in done.out, done.err


def test_without_past_runs_or_a_machine_it_says_what_to_give(commands: Any, tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("{}\n")
    env = {"LEEWAY_PROJECT": str(tmp_path)}
    done = forecast(commands, "--dag", "d", "--runs", "2", **env)
    assert done.code == 2 and "--instance-type, --max-run-s, --region" in done.err
    machine = ("--instance-type", "ml.c5.xlarge", "--max-run-s", "3600", "--region", "us-east-1")
    told = forecast(commands, "--dag", "d", "--runs", "2", *machine, "--instance-count", "5", **env).out
    assert "2.04 USD" in told and "no project has no monthly budget" in told


# MLflow


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
        told = evaluate.run(evaluate.EvaluateSpec(register_as="costly", lineage=lineage))
    version = client.get_model_version("costly", told.version)
    run = client.get_run(told.run_id)
    assert version.tags["leeway.cost_usd"] == run.data.tags["leeway.cost_usd"] == "0.0096"
    assert run.data.tags["leeway.instance_type"] == "ml.m5.large"
    assert (run.data.metrics["cost_usd"], run.data.metrics["saving"]) == (0.0096, 0.5)
    assert "lost_s" not in run.data.metrics and "leeway.dag_run" not in run.data.tags
    # Other tests of the session may have registered the same training: its run has their metrics, too.
    history = client.get_metric_history(told.run_id, "cost_usd")
    logged = [metric for metric in history if metric.timestamp == version.creation_timestamp]
    assert len(logged) == 1, "logged twice, it is one"
