"""The DAGs run for real, task after task, with real MLflow, drydock, DVC, Iceberg and Great Expectations.

One process for all runs (`dag.test`), over an Airflow database of its own. The tests of this module follow one another.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.tools import forking
from tests.tools.airflow_runs import AirflowRuns
from tests.tools.policies import EASY, HARD

ROOT = Path(__file__).parents[3]
CANARY = "tweety-is-a-secret"
"""In every credential of the runs of this module."""


@dataclass
class Airflow:
    """Runs DAGs of a small project."""

    project: Path
    home: Path
    env: dict[str, str]
    runs: AirflowRuns
    beside: Path
    dags: Path = ROOT / "dags"

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        options = {"cwd": self.home.parent, "env": self.env, "capture_output": True, "text": True, "timeout": 400}
        return forking.run([sys.executable, *arguments], **options)

    def run(self, dag_id: str, logical: str | None = None, **conf: Any) -> SimpleNamespace:
        return self.runs.run(self.dags, dag_id, logical, conf)

    def params(self, **sections: dict[str, Any]) -> None:
        path = self.project / "params.yaml"
        have = yaml.safe_load(path.read_text())
        for name, values in sections.items():
            have[name].update(values)
        path.write_text(yaml.safe_dump(have))


@pytest.fixture(scope="module")
def airflow(
    tmp_path_factory: pytest.TempPathFactory,
    drydock_server: Any,
    mlflow_uri: str,
    put_airflow_database: Callable[[Path], None],
) -> Iterator[Airflow]:
    folder = tmp_path_factory.mktemp("runs")
    project = folder / "project"
    project.mkdir()
    for name in ("pipelines", "expectations"):
        (project / name).symlink_to(ROOT / name)
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy2(ROOT / name, project)
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}",
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(
            [_bundle("dags", ROOT / "dags"), _bundle("beside", folder / "beside")]
        ),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW_CONN_AWS_DEFAULT": _connection(drydock_server.url),
        "AWS_ENDPOINT_URL": drydock_server.url,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "AKIADRYDOCKTAKESANY0",
        "AWS_SECRET_ACCESS_KEY": f"{CANARY}-cloud",
        "LEEWAY_PYTHON": forking.ensure_stand_in(),
        "LEEWAY_PROJECT": str(project),
        "LEEWAY_HOME": str(folder / "home"),
        "LEEWAY_BUCKET": "leeway",
        "LEEWAY_ROLE_ARN": "arn:aws:iam::123456789012:role/leeway-training",
        "MLFLOW_TRACKING_URI": mlflow_uri,
    }
    put_airflow_database(folder / "airflow")
    (folder / "beside").mkdir()
    made = Airflow(project, folder / "home", env, AirflowRuns(env, folder), folder / "beside")
    made.params(
        snapshot={"train_days": 4, "holdout_days": 2, "min_train_days": 2},
        preprocess={"validation_days": 1},
        train={"hyperparameters": {"num_round": 60, "eta": 0.05, "max_depth": 3}},
        gate={"policy": {**EASY, "serving": {}}},
    )
    yield made
    made.runs.close()


def _bundle(name: str, path: Path) -> dict[str, Any]:
    local = "airflow.dag_processing.bundles.local.LocalDagBundle"
    return {"name": name, "classpath": local, "kwargs": {"path": str(path)}}


def _connection(url: str) -> str:
    extra = {"endpoint_url": url, "region_name": "us-east-1"}
    given = {"login": "AKIADRYDOCKTAKESANY0", "password": f"{CANARY}-cloud"}
    return json.dumps({"conn_type": "aws", **given, "extra": extra})


def test_day_is_ingested_judged_and_published(airflow):
    told = airflow.run("flights_ingest", "2013-01-30")
    assert told.state == "success"
    assert told.states == {"ingest": "success", "validate": "success"}
    assert told.xcoms["ingest"]["partition"] == "2013-01-30"
    assert told.xcoms["ingest"]["rows"] == told.xcoms["validate"]["rows"] > 500
    assert told.xcoms["ingest"]["changed"] is told.xcoms["validate"]["changed"] is True
    assert Path(told.xcoms["validate"]["evidence"]).exists()


def test_published_day_is_not_scored_while_there_is_no_champion(airflow):
    told = airflow.run("flights_score", "2013-01-30")
    assert told.state == "success", told.log[-4_000:]
    assert told.states == {"score": "skipped", "outcomes": "skipped", "profile": "skipped"}
    assert told.xcoms["score"]["scored"] == 0
    assert "flights has no champion that was trained as of 2013-01-30 or before." in told.log


def test_run_without_a_day_says_so(airflow):
    told = airflow.run("flights_ingest")
    assert told.state == "failed"
    assert told.states == {"ingest": "failed", "validate": "upstream_failed"}
    assert "AirflowFailException: ingest: ingest: partition: input should be a valid date" in told.log


def test_days_that_are_not_published_fail_the_training_and_are_named(airflow):
    told = airflow.run("flights_train", as_of="2013-02-01")
    assert told.states["preprocess"] == "failed"
    assert told.states["promote"] == "upstream_failed"
    assert (told.state, told.states["record_outcome"]) == ("failed", "success"), "it hides no failure"
    assert told.xcoms["record_outcome"]["outcome"] == "failed"
    assert "training as of 2013-02-01 would have" in told.log


def test_candidate_that_passes_becomes_champion(airflow):
    """A run by hand, without a logical date: its moment is the param."""
    filled = airflow.command("-m", "pipelines", "backfill", "--first", "2013-01-24", "--last", "2013-01-30")
    assert filled.returncode == 0, filled.stderr
    told = airflow.run("flights_train", as_of="2013-02-01")
    assert told.state == "success", told.log[-4_000:]
    assert set(told.states.values()) == {"success"}
    assert told.xcoms["train"]["status"] == "Completed"
    assert told.xcoms["gate"]["passed"] is True
    assert told.xcoms["promote"]["changed"] is True
    assert told.xcoms["promote"]["version"] == told.xcoms["evaluate"]["version"] == told.xcoms["gate"]["version"]
    assert (told.xcoms["guard"]["trigger"], told.xcoms["guard"]["outcome"]) == ("manual", "started")
    assert (told.xcoms["record_outcome"]["outcome"], told.xcoms["record_outcome"]["changed"]) == ("passed", True)


def test_published_day_is_scored_by_the_champion_and_its_labels_are_joined(airflow):
    assert airflow.run("flights_ingest", "2013-02-01").state == "success"
    told = airflow.run("flights_score", "2013-02-01")
    assert told.states == {"score": "success", "outcomes": "success", "profile": "success"}, told.log[-4_000:]
    score, outcomes = told.xcoms["score"], told.xcoms["outcomes"]
    assert (score["partition"], score["changed"], score["reason"]) == ("2013-02-01", True, "")
    assert outcomes["outcomes"] + outcomes["unlabelled"] == score["scored"] > 500
    assert Path(score["rows"]).is_file()
    assert (told.xcoms["profile"]["rows"], told.xcoms["profile"]["changed"]) == (score["scored"], True)


def test_champion_that_scored_less_than_a_window_decides_nothing(airflow):
    told = airflow.run("flights_monitor", "2013-02-01")
    assert (told.state, told.states) == ("success", {"drift": "skipped"}), told.log[-4_000:]
    assert told.xcoms["drift"]["outcome"] == "undecided"
    assert "has not scored 13 of the window's 14 days, as 2013-01-31" in told.log


def test_candidate_that_fails_is_not_promoted_and_the_log_says_why(airflow, drydock_server):
    airflow.params(gate={"policy": HARD})
    told = airflow.run("flights_train", "2013-02-01")
    assert told.state == "success", told.log[-4_000:]
    assert told.states["gate"] == "success"
    assert told.states["promote"] == "skipped"
    assert told.xcoms["gate"]["passed"] is False
    assert "auc is" in told.xcoms["gate"]["reason"]
    assert "but must be at least 0.99 with confidence" in told.log
    assert "promote" not in told.xcoms
    assert told.xcoms["record_outcome"]["outcome"] == "not_passed"


# What drift asks for, in a DAG of three tasks.

GUARDED = """
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG
from leeway.operators.guard import GuardOperator
from leeway.operators.record_outcome import RecordOutcomeOperator

with DAG("guarded", params={"as_of": "", "code": 0}):
    drift = {"as_of": "{{ params.as_of }}", "trigger": "drift", "reason": "auc 0.61"}
    guard = GuardOperator(task_id="guard", dataset="flights", model_name="guarded", request=drift)
    work = BashOperator(task_id="work", bash_command="exit {{ params.code }}")
    record_outcome = RecordOutcomeOperator(task_id="record_outcome", model_name="guarded").as_teardown(setups=guard)
    guard >> work >> record_outcome
"""


@pytest.fixture
def drifted(airflow):
    """Runs the DAG as of a day; gives the run, and the state of its three tasks."""
    (airflow.beside / "guarded.py").write_text(GUARDED)
    beside = replace(airflow, dags=airflow.beside)

    def run(as_of: str, code: int = 0) -> tuple[SimpleNamespace, list[str]]:
        told = beside.run("guarded", as_of=as_of, code=code)
        return told, [told.states[name] for name in ("guard", "work", "record_outcome")]

    return run


def test_drift_that_comes_too_soon_is_skipped_with_the_reason_and_the_next_one_trains(drifted):
    told, states = drifted("2013-05-01")
    assert (told.state, states) == ("success", ["success", "success", "success"])
    told, states = drifted("2013-05-02")
    assert (told.state, states) == ("success", ["skipped", "skipped", "skipped"]), told.log[-4_000:]
    assert (told.xcoms["guard"]["guard"], told.xcoms["guard"]["until"]) == ("cooldown", "2013-05-15")
    assert "1 day(s) before 2013-05-02: the policy demands 14" in told.log
    assert "record_outcome" not in told.xcoms
    told, states = drifted("2013-05-15", code=1)
    assert (told.state, states) == ("failed", ["success", "failed", "success"])
    assert told.xcoms["record_outcome"]["outcome"] == "failed"


def test_breaker_fails_the_run_once_and_lets_nothing_start_until_it_is_reset(airflow, drifted):
    assert drifted("2013-06-15")[1] == ["success", "success", "success"], "the third whose version nobody judged"
    told, states = drifted("2013-07-15")
    assert (told.state, states) == ("failed", ["failed", "upstream_failed", "upstream_failed"])
    assert "held back by breaker: the last 3 trainings that drift started did not pass the gate" in told.log
    assert drifted("2013-07-16")[1] == ["skipped", "skipped", "skipped"], "it is no news"
    mended = airflow.command("-m", "pipelines", "loop", "reset", "guarded", "--why", "mended")
    assert mended.returncode == 0, mended.stderr
    assert drifted("2013-07-17")[1] == ["success", "success", "success"]


# No secret is anywhere, after all these runs.

SOURCED = """
from airflow.sdk import DAG
from leeway.operators.ingest import IngestOperator

with DAG("sourced"):
    IngestOperator(task_id="ingest", dataset="flights", partition="2013-02-02", source_conn_id="shop_db")
"""


def found_in(folder, secret):
    """The files below a folder that have the secret in them, and whether there are any files at all."""
    paths = [Path(place, name) for place, _, names in os.walk(folder) for name in names]
    assert paths, folder
    found = []
    for path in paths:
        with suppress(FileNotFoundError):  # servers run meanwhile: their temporary files come and go
            found += [path] if path.is_file() and not path.is_symlink() and secret in path.read_bytes() else []
    return found


def test_no_secret_is_in_logs_xcoms_mlflow_lake_or_any_other_state(airflow, tmp_path, tmp_path_factory, drydock_server):
    (airflow.beside / "sourced.py").write_text(SOURCED)
    connection = {"conn_type": "postgres", "host": "db", "login": "mate", "password": f"{CANARY}-source"}
    with closing(AirflowRuns({**airflow.env, "AIRFLOW_CONN_SHOP_DB": json.dumps(connection)}, tmp_path)) as runs:
        told = runs.run(airflow.beside, "sourced", None, {})
    assert told.state == "success", told.log[-4_000:]
    assert CANARY not in told.log + str(told.xcoms)
    base = tmp_path_factory.getbasetemp()
    places = [airflow.home, airflow.project.parent / "airflow", *base.glob("mlflow*"), *base.glob("drydock*")]
    assert len(places) >= 4
    for place in places:
        assert found_in(place, CANARY.encode()) == [], place


def test_a_secret_in_a_file_would_be_found(tmp_path):
    (tmp_path / "log").write_text(f"password={CANARY}-source")
    assert found_in(tmp_path, CANARY.encode()) == [tmp_path / "log"]
