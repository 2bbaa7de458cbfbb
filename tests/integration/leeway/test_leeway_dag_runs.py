"""Both DAGs run for real, task after task, with real MLflow, drydock, DVC, Iceberg and Great Expectations.

One process for all runs (`dag.test`), over an Airflow database of its own. The tests of this module follow one another.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
RUN = """
import datetime as dt, json, os, sys
from airflow.dag_processing.dagbag import DagBag
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session

dag_id, logical, conf = json.loads(sys.argv[2])
bag = DagBag(sys.argv[1])
assert bag.import_errors == {}, bag.import_errors
date = dt.datetime.fromisoformat(logical).replace(tzinfo=dt.UTC) if logical else None
run = bag.dags[dag_id].test(logical_date=date, run_conf=conf)
with create_session() as session:
    states = {ti.task_id: ti.state for ti in session.query(TaskInstance).filter_by(dag_id=dag_id, run_id=run.run_id)}
    found = session.query(XComModel).filter_by(dag_id=dag_id, run_id=run.run_id, key="return_value")
    xcoms = {one.task_id: XComModel.deserialize_value(one) for one in found}
print("\\n" + json.dumps({"state": run.state, "states": states, "xcoms": xcoms}))
"""


@dataclass
class Airflow:
    """Runs DAGs of a small project."""

    project: Path
    home: Path
    env: dict[str, str]

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        options = {"cwd": self.home.parent, "env": self.env, "capture_output": True, "text": True, "timeout": 400}
        return subprocess.run([sys.executable, *arguments], **options)

    def run(self, dag_id: str, logical: str | None = None, **conf: Any) -> SimpleNamespace:
        answer = self.command("-c", RUN, str(ROOT / "dags"), json.dumps([dag_id, logical, conf]))
        log = answer.stdout + answer.stderr
        assert answer.returncode == 0, log[-4_000:]
        return SimpleNamespace(log=log, **json.loads(answer.stdout.splitlines()[-1]))

    def params(self, **sections: dict[str, Any]) -> None:
        path = self.project / "params.yaml"
        have = yaml.safe_load(path.read_text())
        for name, values in sections.items():
            have[name].update(values)
        path.write_text(yaml.safe_dump(have))


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, dock: Any, mlflow_uri: str) -> Airflow:
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
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW_CONN_AWS_DEFAULT": _connection(dock.url),
        "AWS_ENDPOINT_URL": dock.url,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "AKIADRYDOCKTAKESANY0",
        "AWS_SECRET_ACCESS_KEY": "drydock-takes-any",
        "LEEWAY_PROJECT": str(project),
        "LEEWAY_HOME": str(folder / "home"),
        "LEEWAY_BUCKET": "leeway",
        "LEEWAY_ROLE_ARN": "arn:aws:iam::123456789012:role/leeway-training",
        "MLFLOW_TRACKING_URI": mlflow_uri,
    }
    made = Airflow(project, folder / "home", env)
    made.params(
        snapshot={"train_days": 6, "holdout_days": 3, "min_train_days": 3},
        preprocess={"validation_days": 2},
        train={"hyperparameters": {"num_round": 60, "eta": 0.05, "max_depth": 3}},
        gate={"policy": {"min_rows": 500, "min_auc": 0.5, "max_auc": 1.0, "max_ece": 1.0, "max_auc_loss": 1.0}},
    )
    answer = made.command("-m", "airflow", "db", "migrate")
    assert answer.returncode == 0, answer.stderr[-2_000:]
    return made


def _connection(url: str) -> str:
    extra = {"endpoint_url": url, "region_name": "us-east-1"}
    given = {"login": "AKIADRYDOCKTAKESANY0", "password": "drydock-takes-any"}
    return json.dumps({"conn_type": "aws", **given, "extra": extra})


def test_day_is_ingested_judged_and_published(airflow):
    told = airflow.run("flights_ingest", "2013-01-30")
    assert told.state == "success"
    assert told.states == {"ingest": "success", "validate": "success"}
    assert told.xcoms["ingest"]["partition"] == "2013-01-30"
    assert told.xcoms["ingest"]["rows"] == told.xcoms["validate"]["rows"] > 500
    assert told.xcoms["ingest"]["changed"] is told.xcoms["validate"]["changed"] is True
    assert Path(told.xcoms["validate"]["evidence"]).exists()


def test_run_without_a_day_says_so(airflow):
    told = airflow.run("flights_ingest")
    assert told.state == "failed"
    assert told.states == {"ingest": "failed", "validate": "upstream_failed"}
    assert "AirflowFailException: ingest: ingest: partition: input should be a valid date" in told.log


def test_days_that_are_not_published_fail_the_training_and_are_named(airflow):
    told = airflow.run("flights_train", as_of="2013-02-01")
    assert told.states["preprocess"] == "failed"
    assert told.states["promote"] == "upstream_failed"
    assert "training as of 2013-02-01 would have" in told.log


def test_candidate_that_passes_becomes_champion(airflow):
    """A run by hand, without a logical date: its moment is the param."""
    filled = airflow.command("-m", "pipelines", "backfill", "--first", "2013-01-20", "--last", "2013-01-30")
    assert filled.returncode == 0, filled.stderr
    told = airflow.run("flights_train", as_of="2013-02-01")
    assert told.state == "success", told.log[-4_000:]
    assert set(told.states.values()) == {"success"}
    assert told.xcoms["train"]["status"] == "Completed"
    assert told.xcoms["gate"]["passed"] is True
    assert told.xcoms["promote"]["changed"] is True
    assert told.xcoms["promote"]["version"] == told.xcoms["evaluate"]["version"] == told.xcoms["gate"]["version"]


def test_candidate_that_fails_is_not_promoted_and_the_log_says_why(airflow, dock):
    airflow.params(gate={"policy": {"min_auc": 0.99, "max_auc": 1.0, "min_rows": 500, "max_ece": 1.0}})
    told = airflow.run("flights_train", "2013-02-01")
    assert told.state == "success", told.log[-4_000:]
    assert told.states["gate"] == "success"
    assert told.states["promote"] == "skipped"
    assert told.xcoms["gate"]["passed"] is False
    assert "AUC" in told.xcoms["gate"]["reason"]
    assert "but at least 0.99 is demanded" in told.log
    assert "promote" not in told.xcoms
