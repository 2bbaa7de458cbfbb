"""Test runs of the product's DAGs, with real MLflow on PostgreSQL, drydock, DVC, Iceberg and Great Expectations.

One process executes all runs by `dag.test`, with its own Airflow database. Each test needs the state that the tests
before it leave.
"""

import datetime as dt
import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pandas as pd
import psycopg
import pytest

from pipelines.dataset import load_dataset
from stack.jobs import serving_hint
from stack.layout import Layout
from stack.services.record import Ports, Stack
from tests.tools import forking
from tests.tools.airflow_runs import AirflowRuns
from tests.tools.parameters import copy_models, update_params
from tests.tools.policies import EASY_POLICY, HARD_POLICY
from tests.tools.postgres import find_programs, run_postgres
from tests.tools.recording import TEST_ACCESS_KEY

pytestmark = pytest.mark.stateful

ROOT = Path(__file__).parents[3]
FLIGHTS = load_dataset("flights")
CANARY = "tweety-is-a-secret"
"""A part of every credential that the runs of this module get."""


@dataclass
class Airflow:
    """Run DAGs of a small project."""

    project: Path
    home: Path
    env: dict[str, str]
    runs: AirflowRuns
    extra_dags: Path
    dags: Path = ROOT / "dags"

    def run_command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        options = {"cwd": self.home.parent, "env": self.env, "capture_output": True, "text": True, "timeout": 400}
        return forking.run([sys.executable, *arguments], **options)

    def run(self, dag_id: str, logical: str | None = None, **conf: Any) -> SimpleNamespace:
        return self.runs.run(self.dags, dag_id, logical, conf)

    def set_params(self, **sections: dict[str, Any]) -> None:
        """Change values in sections of the project's parameters."""
        update_params(self.project, **sections)


@pytest.fixture(scope="module")
def mlflow_database(free_port: Callable[[], int]) -> Iterator[str]:
    """Return the address of an empty PostgreSQL; "" where none is installed: then MLflow has a SQLite file."""
    if find_programs() is None:
        yield ""
        return
    with run_postgres(free_port()) as address:
        yield address


@pytest.fixture(scope="module")
def airflow(
    tmp_path_factory: pytest.TempPathFactory,
    drydock_server: Any,
    start_mlflow: Callable[..., Any],
    mlflow_database: str,
    put_airflow_database: Callable[[Path], None],
) -> Iterator[Airflow]:
    folder = tmp_path_factory.mktemp("runs")
    project = folder / "project"
    project.mkdir()
    for name in ("pipelines", "expectations"):
        (project / name).symlink_to(ROOT / name)
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy2(ROOT / name, project)
    copy_models(ROOT, project)
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}",
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(
            [_format_bundle("dags", ROOT / "dags"), _format_bundle("extra", folder / "extra_dags")]
        ),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW_CONN_AWS_DEFAULT": _format_connection(drydock_server.url),
        "AWS_ENDPOINT_URL": drydock_server.url,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "AKIADRYDOCKTAKESANY0",
        "AWS_SECRET_ACCESS_KEY": f"{CANARY}-cloud",
        "LEEWAY_PYTHON": forking.ensure_stand_in(),
        "LEEWAY_PROJECT": str(project),
        "LEEWAY_HOME": str(folder / "home"),
        "LEEWAY_BUCKET": "leeway",
        "LEEWAY_ROLE_ARN": "arn:aws:iam::123456789012:role/leeway-training",
        "MLFLOW_TRACKING_URI": start_mlflow(mlflow_database)[1],
    }
    put_airflow_database(folder / "airflow")
    (folder / "extra_dags").mkdir()
    runner = Airflow(project, folder / "home", env, AirflowRuns(env, folder), folder / "extra_dags")
    runner.set_params(
        snapshot={"train_days": 4, "holdout_days": 2, "min_train_days": 2},
        preprocess={"validation_days": 1},
        train={"hyperparameters": {"num_round": 60, "eta": 0.05, "max_depth": 3}},
        gate={"policy": {**EASY_POLICY, "serving": {}}},
    )
    yield runner
    runner.runs.close()


def _format_bundle(name: str, path: Path) -> dict[str, Any]:
    local = "airflow.dag_processing.bundles.local.LocalDagBundle"
    return {"name": name, "classpath": local, "kwargs": {"path": str(path)}}


def _format_connection(url: str) -> str:
    extra = {"endpoint_url": url, "region_name": "us-east-1"}
    keys = {"login": "AKIADRYDOCKTAKESANY0", "password": f"{CANARY}-cloud"}
    return json.dumps({"conn_type": "aws", **keys, "extra": extra})


def test_day_is_ingested_validated_and_published(airflow):
    run = airflow.run("flights_ingest", "2013-01-30")
    assert run.state == "success"
    assert run.states == {"ingest": "success", "validate": "success"}
    assert run.xcoms["ingest"]["partition"] == "2013-01-30"
    assert run.xcoms["ingest"]["rows"] == run.xcoms["validate"]["rows"] > 500
    assert run.xcoms["ingest"]["changed"] is run.xcoms["validate"]["changed"] is True
    assert Path(run.xcoms["validate"]["evidence"]).exists()


def test_values_of_lookups_of_a_published_day_are_written(airflow):
    run = airflow.run("flights_materialize", "2013-01-30")
    assert run.states == {"materialize": "success"}, run.log[-4_000:]
    result = run.xcoms["materialize"]
    assert (result["partitions"], result["written"]) == (["2013-01-30"], result["records"])
    assert result["records"] > 40


HOURS_DAG = """
import datetime as dt
from airflow.sdk import DAG, Asset, CronPartitionTimetable
from leeway.operators.ingest import HOUR, IngestOperator
from leeway.operators.validate import ValidateOperator

timetable = CronPartitionTimetable("0 * * * *", timezone="UTC", run_offset=-1, key_format="%Y-%m-%dT%H")
with DAG("hours_ingest", schedule=timetable, start_date=dt.datetime(2013, 1, 1, tzinfo=dt.UTC), catchup=False):
    ingest = IngestOperator(task_id="ingest", dataset="hours", partition=HOUR)
    asset = Asset(name="hours", uri="x-leeway://lake/hours")
    ingest >> ValidateOperator(task_id="validate", dataset="hours", partition=HOUR, asset=asset)
"""
HOURS_DATASET = """
from pipelines.dataset import Dataset

DATASET = Dataset(name="hours", key=("origin", "time_hour"), partition="hour")
"""
HOURS_SOURCE = """
from dataclasses import replace
from pipelines.datasets.weather import source

def open_source(folder=None):
    return replace(source.open_source(folder), partition="hour")
"""
HOURS_SUITE = {"name": "hours", "expectations": [{"type": "expect_column_to_exist", "kwargs": {"column": "temp"}}]}


def test_an_hour_is_ingested_validated_and_published(airflow, tmp_path):
    (tmp_path / "hours").mkdir()
    (tmp_path / "hours/__init__.py").write_text(HOURS_DATASET)
    (tmp_path / "hours/source.py").write_text(HOURS_SOURCE)
    (tmp_path / "expectations").mkdir()
    (tmp_path / "expectations/hours.json").write_text(json.dumps(HOURS_SUITE))
    shutil.copy2(airflow.project / "params.yaml", tmp_path)
    (airflow.extra_dags / "hours.py").write_text(HOURS_DAG)
    variables = {"LEEWAY_PROJECT": str(tmp_path), "LEEWAY_DATASETS": str(tmp_path)}
    run = airflow.runs.run(airflow.extra_dags, "hours_ingest", "2013-01-30T05:00:00", {}, variables)
    assert run.states == {"ingest": "success", "validate": "success"}, run.log[-4_000:]
    assert (run.xcoms["ingest"]["partition"], run.xcoms["ingest"]["rows"]) == ("2013-01-30T05", 3)
    assert run.xcoms["validate"]["partition"] == "2013-01-30T05"
    assert Path(run.xcoms["validate"]["evidence"]).name == "2013-01-30T05.json"


def test_published_day_is_not_scored_without_a_champion(airflow):
    run = airflow.run("flights_score", "2013-01-30")
    assert run.state == "success", run.log[-4_000:]
    assert run.states == {"score": "skipped", "outcomes": "skipped", "profile": "skipped"}
    assert run.xcoms["score"]["scored"] == 0
    assert "flights has no champion that was trained as of 2013-01-30 or before." in run.log


def test_run_without_a_day_fails_and_names_the_partition(airflow):
    run = airflow.run("flights_ingest")
    assert run.state == "failed"
    assert run.states == {"ingest": "failed", "validate": "upstream_failed"}
    assert "AirflowFailException: ingest: ingest: partition: input should be a valid date" in run.log
    assert "Traceback" not in run.log, "the operator raised the error on purpose: its frames help nobody"


def test_training_fails_when_days_are_not_published(airflow):
    run = airflow.run("flights_train", as_of="2013-02-01")
    assert run.states["preprocess"] == "failed"
    assert run.states["promote"] == "upstream_failed"
    assert (run.state, run.states["record_outcome"]) == ("failed", "success"), "the teardown hides no failure"
    assert run.xcoms["record_outcome"]["outcome"] == "failed"
    assert "training as of 2013-02-01 would have" in run.log


def test_candidate_that_passes_becomes_champion(airflow):
    """A manual run has no logical date; the param `as_of` gives its moment."""
    backfill = airflow.run_command(
        "-m", "pipelines", "backfill", "--dataset", "flights", "--first", "2013-01-24", "--last", "2013-01-30"
    )
    assert backfill.returncode == 0, backfill.stderr
    run = airflow.run("flights_train", as_of="2013-02-01")
    assert run.state == "success", run.log[-4_000:]
    assert run.states.pop("approve") == "skipped", "nobody has to approve"
    assert set(run.states.values()) == {"success"}
    assert run.xcoms["train"]["status"] == "Completed"
    assert run.xcoms["gate"]["passed"] is True
    assert run.xcoms["promote"]["changed"] is True
    assert run.xcoms["promote"]["version"] == run.xcoms["evaluate"]["version"] == run.xcoms["gate"]["version"]
    assert (run.xcoms["guard"]["trigger"], run.xcoms["guard"]["outcome"]) == ("manual", "started")
    assert (run.xcoms["record_outcome"]["outcome"], run.xcoms["record_outcome"]["changed"]) == ("passed", True)


def test_version_and_its_verdict_are_in_postgresql(airflow, mlflow_database):
    if not mlflow_database:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with psycopg.connect(mlflow_database.replace("+psycopg", "")) as database:
        aliases = database.execute("SELECT alias, version FROM registered_model_aliases")
        assert aliases.fetchall() == [("champion", 1)]
        verdicts = database.execute("SELECT version, value FROM model_version_tags WHERE key = 'leeway.verdict'")
        assert verdicts.fetchall() == [(1, "passed")]


def test_champion_scores_the_published_day_and_its_labels_are_joined(airflow):
    assert airflow.run("flights_ingest", "2013-02-01").state == "success"
    run = airflow.run("flights_score", "2013-02-01")
    assert run.states == {"score": "success", "outcomes": "success", "profile": "success"}, run.log[-4_000:]
    score, outcomes = run.xcoms["score"], run.xcoms["outcomes"]
    assert (score["partition"], score["changed"], score["reason"]) == ("2013-02-01", True, "")
    assert outcomes["outcomes"] + outcomes["unlabelled"] == score["scored"] > 500
    assert Path(score["rows"]).is_file()
    assert (run.xcoms["profile"]["rows"], run.xcoms["profile"]["changed"]) == (score["scored"], True)


def list_events(airflow: Airflow, asset: str) -> list[dict[str, Any]]:
    """Return the extra of each event of an asset."""
    query = "SELECT e.extra FROM asset_event e JOIN asset ON asset.id = asset_id WHERE name = ?"
    with closing(sqlite3.connect(airflow.home.parent / "airflow" / "airflow.db")) as database:
        return [json.loads(row[0]) for row in database.execute(query, [asset])]


def test_champion_is_deployed(airflow, drydock_server):
    airflow.set_params(serving={"instance_count": 1, "capture_percent": 100})
    run = airflow.run("flights_deploy")
    assert run.states == {"shadow": "skipped", "deploy": "success"}, run.log[-4_000:]
    result = run.xcoms["deploy"]
    assert (result["version"], result["endpoint"], result["changed"]) == ("1", "flights", True)
    (variant,) = drydock_server.client("sagemaker").describe_endpoint(EndpointName="flights")["ProductionVariants"]
    assert variant["CurrentInstanceCount"] == 1, "the run's params replace those of params.yaml"
    assert "endpoint flights: InService" in run.log
    events = airflow.run_command("-m", "pipelines", "registry", "events", "flights").stdout
    assert "deployed       1  by dag_test: endpoint flights: a new endpoint" in events


def request_scores(drydock_server, rows: pd.DataFrame) -> None:
    """Send rows of features with their keys to the endpoint, in requests of 200 rows."""
    client = drydock_server.client("sagemaker-runtime")
    records = rows.astype(object).where(rows.notna(), None).to_dict("records")
    for start in range(0, len(records), 200):
        request: dict[str, Any] = {"ContentType": "application/json", "Accept": "application/json"}
        request["Body"] = json.dumps(records[start : start + 200], default=str).encode()
        client.invoke_endpoint(EndpointName="flights", **request)


def count_captured(drydock_server) -> int:
    """Return the number of requests that the endpoint has captured."""
    client = drydock_server.client("s3")
    items = client.list_objects_v2(Bucket="leeway", Prefix="leeway/capture/1/flights/").get("Contents", [])
    bodies = (client.get_object(Bucket="leeway", Key=item["Key"])["Body"].read() for item in items)
    return sum(body.count(b"\n") for body in bodies)


FAIL_A_CANARY = """
from mlflow import MlflowClient
from pipelines.registry.lifecycle import Kind
from pipelines.registry.lifecycle.deployments import record_deployment
client = MlflowClient()
first = client.get_model_version("flights", "1")
model_id = first.source.removeprefix("models:/")
version = client.create_model_version("flights", first.source, first.run_id, first.tags, model_id=model_id).version
record_deployment(Kind.DEPLOYMENT_FAILED, "flights", str(version), "flights", "an alarm", {"config": "canary"})
print(version)
"""


def fail_a_canary(airflow: Airflow, drydock_server: Any) -> None:
    """Record that version 2 was a canary and was rolled back; what version 1 answered counts as its answers, too."""
    result = airflow.run_command("-c", FAIL_A_CANARY)
    assert (result.returncode, result.stdout) == (0, "2\n"), result.stdout[-2_000:] + result.stderr[-2_000:]
    client = drydock_server.client("s3")
    for item in client.list_objects_v2(Bucket="leeway", Prefix="leeway/capture/1/flights/")["Contents"]:
        key = item["Key"].replace("capture/1/", "capture/2/")
        client.copy_object(Bucket="leeway", Key=key, CopySource={"Bucket": "leeway", "Key": item["Key"]})


@pytest.mark.soak
def test_requests_of_the_endpoint_are_compared_with_the_published_day(airflow, drydock_server, until):
    rows = pd.read_parquet(airflow.home / "scored/flights/flights/1/2013-02-01.parquet")
    rows = rows[list(dict.fromkeys([*FLIGHTS.key, *FLIGHTS.features]))]
    today = dt.datetime.now(dt.UTC).date()
    days = {"first_day": str(today - dt.timedelta(1)), "last_day": str(today + dt.timedelta(1))}
    request_scores(drydock_server, rows)
    requests = -(-len(rows) // 200)
    until(lambda: count_captured(drydock_server) == requests)
    run = airflow.run("flights_serving_monitor", "2013-02-01", **days)
    assert set(run.states.values()) == {"success"} and len(run.states) == 4, run.log[-4_000:]
    assert run.xcoms["versions"] == ["1"]
    collect, skew = run.xcoms["collect"], run.xcoms["skew"]
    assert (collect["version"], collect["endpoint"], collect["scored"]) == ("1", "flights", len(rows))
    assert run.xcoms["outcomes"]["outcomes"] > 500
    assert (skew["outcome"], skew["rows"], skew["different_shares"], skew["endpoint"]) == (
        "ok",
        len(rows),
        {},
        "flights",
    )
    assert list_events(airflow, "flights_skew") == []

    # The clients' `departures_hour` is another now, as if `materialize` had been left out.
    request_scores(drydock_server, rows.assign(departures_hour=21.0))
    until(lambda: count_captured(drydock_server) == 2 * requests)
    fail_a_canary(airflow, drydock_server)
    run = airflow.run("flights_serving_monitor", "2013-02-01", **days)
    assert set(run.states.values()) == {"success"} and len(run.states) == 6, run.log[-4_000:]
    assert [run.xcoms[name]["version"] for name in ("collect", "collect[1]")] == ["1", "2"]
    for name in ("skew", "skew[1]"):
        assert run.xcoms[name]["outcome"] == "skew" and run.xcoms[name]["different_shares"]["departures_hour"] > 0.5
    assert run.xcoms["outcomes"]["outcomes"] > 1_000, "the labels are joined to the scores of both versions"
    assert "requests of 2013-02-01 differ from the lake: more than 1.00% of the rows differ in" in run.log
    events = list_events(airflow, "flights_skew")
    assert sorted(event["versions"] for event in events) == [["1"], ["2"]]
    assert {(event["partition"], event["endpoint"]) for event in events} == {("2013-02-01", "flights")}
    history = airflow.run_command("-m", "pipelines", "skew_history", "flights").stdout
    assert history.startswith("2013-02-01  flights  version 1  skew  ")


def test_shell_commands_of_the_demos_end_score_a_published_row_at_the_endpoint(
    airflow, drydock_server, tmp_path, monkeypatch
):
    """The demo prints the row as a shell variable, and the call of the endpoint; `serve --example` gives the row."""
    output = airflow.run_command("-m", "pipelines", "serve", "--model", "flights", "--example")
    assert output.returncode == 0, output.stderr[-2_000:]
    monkeypatch.setattr(serving_hint, "_read_row", lambda *_: shlex.split(output.stdout)[-1])
    layout = Layout(home=tmp_path, project=airflow.project)
    layout.keep_running_file.touch()  # the hint has the ports of this stack
    ports = Ports(airflow=1, mlflow=2, drydock=urlsplit(drydock_server.url).port, docs=3)
    stack = Stack(id="any", project=airflow.project, started_at=dt.datetime.now(dt.UTC), ports=ports)
    hint = serving_hint.build_serving_hint(layout, stack, "flights", has_endpoint=True, has_lookups=True)
    row, *_, call = (line.strip() for line in hint.splitlines() if line.startswith(("  row=", "  curl ")))
    call = call.replace("--user any:", f"--user {TEST_ACCESS_KEY}:")  # no role of Leeway calls it
    process = subprocess.run(["bash", "-ec", f"{row}\n{call}"], capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr
    answer = json.loads(process.stdout)
    assert (answer["model"], answer["version"]) == ("flights", "1")
    (score,) = answer["scores"]
    assert 0 < score < 1 and answer["latency_ms"] > 0


@pytest.mark.soak
def test_a_day_without_requests_is_skipped_and_the_endpoint_is_deleted(airflow, drydock_server):
    run = airflow.run("flights_serving_monitor", "2013-01-29")
    assert (run.xcoms, run.states["versions"]) == ({"versions": []}, "success"), "none was deployed up to this day"
    assert {run.states[name] for name in ("collect", "skew", "outcomes")} == {"skipped"}
    run = airflow.run("flights_serving_monitor", "2013-01-30", version="1")
    assert {run.states[name] for name in ("collect", "skew", "outcomes")} == {"skipped"}, run.log[-4_000:]
    assert "flights captured no row of 2013-01-30 on 2013-01-29..2013-01-30." in run.log
    assert airflow.run_command("-m", "pipelines", "undeploy", "--model", "flights").returncode == 0
    assert drydock_server.client("sagemaker").list_endpoints(NameContains="flights")["Endpoints"] == []


@pytest.mark.soak
def test_the_sweep_of_idle_things_takes_its_kinds_from_its_params(airflow):
    run = airflow.run("idle_sweep")
    assert run.states == {"sweep": "success"}, run.log[-4_000:]
    assert (run.xcoms["sweep"]["stopped"], run.xcoms["sweep"]["stopped_usd_month"]) == ([], 0.0)
    run = airflow.run("idle_sweep", kinds=["notebook", "app"], stop=["app"], idle_minutes=86_400, cpu_percent=2.5)
    assert run.states == {"sweep": "success"}, run.log[-4_000:]
    assert {name: run.xcoms["sweep"][name] for name in ("idle", "stopped")} == {"idle": [], "stopped": []}
    run = airflow.run("idle_sweep", kinds=["app"], stop=["app", "notebook"])
    assert run.states == {"sweep": "failed"}
    assert "stop has notebook, and kinds does not. Add each to kinds, or remove it from stop." in run.log


def test_drift_is_undecided_when_the_champion_has_not_scored_a_window(airflow):
    run = airflow.run("flights_monitor", "2013-02-01")
    assert (run.state, run.states) == ("success", {"drift": "skipped"}), run.log[-4_000:]
    assert run.xcoms["drift"]["outcome"] == "undecided"
    assert "has not scored 13 of the window's 14 days, such as 2013-01-31" in run.log


@pytest.mark.soak
def test_candidate_that_fails_is_not_promoted_and_the_log_gives_the_reason(airflow, drydock_server):
    airflow.set_params(gate={"policy": HARD_POLICY})
    run = airflow.run("flights_train", "2013-02-01")
    assert run.state == "success", run.log[-4_000:]
    assert run.states["gate"] == "success"
    assert run.states["promote"] == "skipped"
    assert run.xcoms["gate"]["passed"] is False
    assert "auc is" in run.xcoms["gate"]["reason"]
    assert "but must be at least 0.99 with confidence" in run.log
    assert "promote" not in run.xcoms
    assert run.xcoms["record_outcome"]["outcome"] == "not_passed"


# Trainings that drift requests, in a DAG of three tasks.

GUARDED = """
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG
from leeway.operators.guard import GuardOperator
from leeway.operators.record_outcome import RecordOutcomeOperator

with DAG("guarded", params={"as_of": "", "code": 0}):
    drift = {"as_of": "{{ params.as_of }}", "trigger": "drift", "reason": "auc 0.61"}
    guard = GuardOperator(task_id="guard", dataset="flights", model="guarded", request=drift)
    work = BashOperator(task_id="work", bash_command="exit {{ params.code }}")
    record_outcome = RecordOutcomeOperator(task_id="record_outcome", model="guarded").as_teardown(setups=guard)
    guard >> work >> record_outcome
"""


@pytest.fixture
def run_guarded(airflow):
    """Return the function that runs the DAG as of a day and gives the run and the states of its three tasks."""
    (airflow.extra_dags / "guarded.py").write_text(GUARDED)
    models = airflow.project / "models"
    shutil.copytree(models / "flights", models / "guarded", dirs_exist_ok=True)
    extra_airflow = replace(airflow, dags=airflow.extra_dags)

    def run_as_of(as_of: str, code: int = 0) -> tuple[SimpleNamespace, list[str]]:
        run = extra_airflow.run("guarded", as_of=as_of, code=code)
        return run, [run.states[name] for name in ("guard", "work", "record_outcome")]

    return run_as_of


@pytest.mark.soak
def test_guard_skips_drift_within_the_cooldown_and_starts_the_next_training(run_guarded):
    run, states = run_guarded("2013-05-01")
    assert (run.state, states) == ("success", ["success", "success", "success"])
    run, states = run_guarded("2013-05-02")
    assert (run.state, states) == ("success", ["skipped", "skipped", "skipped"]), run.log[-4_000:]
    assert (run.xcoms["guard"]["guard"], run.xcoms["guard"]["until"]) == ("cooldown", "2013-05-29")
    assert "1 day(s) before 2013-05-02: the policy demands 28" in run.log
    assert "record_outcome" not in run.xcoms
    run, states = run_guarded("2013-05-29", code=1)
    assert (run.state, states) == ("failed", ["success", "failed", "success"])
    assert run.xcoms["record_outcome"]["outcome"] == "failed"


@pytest.mark.soak
def test_breaker_fails_one_run_and_skips_the_next_until_it_is_reset(airflow, run_guarded):
    assert run_guarded("2013-06-26")[1] == ["success", "success", "success"], (
        "this is the third training without a verdict"
    )
    run, states = run_guarded("2013-07-10")
    assert (run.state, states) == ("failed", ["failed", "upstream_failed", "upstream_failed"])
    assert "held back by breaker: the last 3 trainings that drift started did not pass the gate" in run.log
    assert run.xcoms["guard"]["until"] == "2013-07-24", "28 days after the last of them"
    assert run_guarded("2013-07-11")[1] == ["skipped", "skipped", "skipped"], "only the first run reports the breaker"
    reset = airflow.run_command("-m", "pipelines", "loop", "reset", "guarded", "--why", "mended")
    assert reset.returncode == 0, reset.stderr
    assert run_guarded("2013-07-24")[1] == ["success", "success", "success"]


@pytest.mark.soak
def test_person_tunes_and_the_winner_is_trained_and_judged(airflow, drydock_server):
    space = {"max_depth": [2, 3], "eta": {"low": 0.05, "high": 0.2, "log": True}}
    plan = {"space": space, "strategy": "random", "trials": 9, "parallel": 2, "folds": 2, "fold_days": 1}
    airflow.set_params(tune={**plan, "max_trial_s": 600})
    run = airflow.run("flights_tune", as_of="2013-02-01", why="deeper trees", trials=2)
    states = {name: run.states[name] for name in ("guard", "preprocess", "tune", "train", "evaluate", "gate")}
    assert set(states.values()) == {"success"}, run.log[-4_000:]
    tune, train = run.xcoms["tune"], run.xcoms["train"]
    assert (tune["status"], tune["trials"], train["status"]) == ("Completed", 2, "Completed")
    assert train["tuning"] == tune["record"] and len(tune["record"]["fold_losses"]) == 2
    job = drydock_server.describe_job(train["training_job"])
    assert {name: float(job["HyperParameters"][name]) for name in space} == pytest.approx(tune["hyperparameters"])
    assert "folds" not in job["HyperParameters"], "the refit trains on the whole window"
    refit = json.loads((Path(run.xcoms["evaluate"]["evaluation"]) / "tuning.json").read_text())
    assert refit["tuning"] == tune["record"] and refit["changed"] == []
    assert "2 trials ran (random)" in refit["text"] and "its refit on the whole window has" in refit["text"]
    verdict = json.loads(Path(run.xcoms["gate"]["verdict"]).read_text())
    assert verdict["facts"]["tuning"] == refit["text"], "the gate's report shows the best of 2 beside its refit"
    assert run.xcoms["guard"]["trigger"] == "manual" and run.states["record_outcome"] == "success"
    assert run.xcoms["tune"]["run_id"], "the trials are children of one MLflow run"


# No secret is in any file after all these runs.

WITH_CREDENTIALS = """
from airflow.sdk import DAG
from leeway.operators.ingest import IngestOperator

with DAG("with_credentials"):
    IngestOperator(task_id="ingest", dataset="flights", partition="2013-02-02", source_conn_id="shop_db")
"""


def list_files_with(folder, secret):
    """Return the files below a folder that contain the secret; the folder must contain files."""
    paths = [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]
    assert paths, folder
    matches = []
    for path in paths:
        with suppress(FileNotFoundError):  # running servers delete their temporary files
            matches += [path] if path.is_file() and not path.is_symlink() and secret in path.read_bytes() else []
    return matches


def dump_database(address):
    """Return all rows of a PostgreSQL database as text; "" where there is no address."""
    if not address:
        return ""
    tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    with psycopg.connect(address.replace("+psycopg", "")) as database:
        rows = [database.execute(f'SELECT * FROM "{name}"').fetchall() for (name,) in database.execute(tables)]
    assert any(rows)
    return str(rows)


def test_no_secret_is_in_logs_xcoms_mlflow_lake_or_any_other_state(
    airflow, mlflow_database, tmp_path_factory, drydock_server
):
    (airflow.extra_dags / "with_credentials.py").write_text(WITH_CREDENTIALS)
    connection = {"conn_type": "postgres", "host": "db", "login": "mate", "password": f"{CANARY}-source"}
    variables = {"AIRFLOW_CONN_SHOP_DB": json.dumps(connection)}
    run = airflow.runs.run(airflow.extra_dags, "with_credentials", None, {}, variables)
    assert run.state == "success", run.log[-4_000:]
    assert CANARY not in run.log + str(run.xcoms)
    assert CANARY not in dump_database(mlflow_database)
    base = tmp_path_factory.getbasetemp()
    folders = [airflow.home, airflow.project.parent / "airflow", *base.glob("mlflow*"), *base.glob("drydock*")]
    assert len(folders) >= 4
    for folder in folders:
        assert list_files_with(folder, CANARY.encode()) == [], folder


def test_search_finds_a_secret_in_a_file(tmp_path):
    (tmp_path / "log").write_text(f"password={CANARY}-source")
    assert list_files_with(tmp_path, CANARY.encode()) == [tmp_path / "log"]
