"""Tasks of a DAG end in a real Airflow, and people are told; no password is in a log or in an XCom."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[4]
CANARY = "tweety-sings-of-secrets"
STEP = """#!{python}
import json, sys
from pathlib import Path
found, step = {found!r}, sys.argv[sys.argv.index("pipelines") + 1]
Path(sys.argv[sys.argv.index("--out") + 1]).write_text(json.dumps({{"schema_version": 1, **found[step]}}))
"""
FOUND: dict[str, dict[str, Any]] = {
    "drift": {
        "model_name": "flights", "version": "2", "partition": "2013-04-07", "as_of": "2013-04-08", "rows": 9,
        "outcome": "none", "retrain": False, "reasons": ["all is calm"], "worst": [], "page": "", "missing": [],
    },
    "rollback": {
        "model_name": "flights", "version": "2", "previous": "3", "changed": True, "reason": "late flights are missed",
    },
}  # fmt: skip
DAG = """
import datetime as dt
from airflow.sdk import DAG, task
from leeway.notifiers.lifecycle import lifecycle_callbacks
from leeway.operators.drift import DriftSensor
from leeway.operators.rollback import RollbackOperator

with DAG("crew", schedule=None, default_args={{**lifecycle_callbacks(), "retries": 0}}):
    @task
    def leak():
        raise ValueError("the hull is leaking\\nand more")

    @task(retries=1, retry_delay=dt.timedelta(0))
    def twice(ti=None):
        if ti.try_number == 1:
            raise ValueError("only once")

    leak()
    twice()
    DriftSensor(task_id="drift", dataset="flights", model_name="flights", partition="2013-04-07",
                deferrable=False, python={python!r})
    RollbackOperator(task_id="rollback", model_name="flights", why="late", python={python!r})
"""
RUN = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session

bag = DagBag(sys.argv[1])
assert bag.import_errors == {}, bag.import_errors
run = bag.dags["crew"].test()
with create_session() as session:
    states = {ti.task_id: ti.state for ti in session.query(TaskInstance).filter_by(run_id=run.run_id)}
    xcoms = [str(XComModel.deserialize_value(one)) for one in session.query(XComModel).filter_by(run_id=run.run_id)]
print("\\n" + json.dumps({"states": states, "xcoms": xcoms}))
"""


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs the DAG in an Airflow of its own, with these connections."""
    folder = tmp_path_factory.mktemp("crew")
    step, dags = folder / "step", folder / "dags"
    step.write_text(STEP.format(python=sys.executable, found=FOUND))
    step.chmod(0o755)
    dags.mkdir()
    (dags / "crew.py").write_text(DAG.format(python=str(step)))
    env = {
        **os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}", "LEEWAY_PROJECT": str(folder),
        "AIRFLOW_HOME": str(folder / "airflow"), "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
    }  # fmt: skip

    def command(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        options: dict[str, Any] = {"env": {**env, **more}, "capture_output": True, "text": True, "cwd": folder}
        answer = subprocess.run([sys.executable, *arguments], **options)
        assert answer.returncode == 0, (answer.stdout + answer.stderr)[-4_000:]
        return answer

    def run(**connections: str) -> SimpleNamespace:
        given = {f"AIRFLOW_CONN_{name.upper()}": text for name, text in connections.items()}
        answer = command("-c", RUN, str(dags), **given)
        return SimpleNamespace(log=answer.stdout + answer.stderr, **json.loads(answer.stdout.splitlines()[-1]))

    command("-m", "airflow", "db", "migrate")
    return run


def test_what_is_news_is_told_once_each(airflow, post, channel):
    ran = airflow(smtp_default=post.connection(), slack_default=channel.connection())
    assert ran.states == {"leak": "failed", "twice": "success", "drift": "skipped", "rollback": "success"}
    titles = ["crew: task leak failed", "flights was rolled back to version 2"]
    assert sorted(mail["Subject"] for mail in post.mails) == [f"[Leeway] {title}" for title in titles], ran.log[-4_000:]
    assert sorted(posted["text"] for posted in channel.posts) == titles
    text = next(mail for mail in post.mails if "leak" in mail["Subject"]).get_body(("plain",)).get_content()
    assert "- ValueError: the hull is leaking" in text.splitlines()
    assert "Log: http://" in text
    assert CANARY not in ran.log + str(ran.xcoms)


def test_nothing_is_lost_where_nobody_can_be_told(airflow, post, channel):
    channel.status = 500
    ran = airflow(smtp_default=post.connection().replace("tweety", "sylvester"), slack_default=channel.connection())
    assert ran.states == {"leak": "failed", "twice": "success", "drift": "skipped", "rollback": "success"}
    assert post.mails == []
    assert "not sent by smtp_default (SMTPAuthenticationError" in ran.log
    assert "not sent by slack_default (AirflowException" in ran.log
    assert "sings-of-secrets" not in ran.log + str(ran.xcoms)


def test_without_connections_no_line_is_about_telling(airflow):
    ran = airflow()
    assert ran.states["rollback"] == "success"
    assert "told" not in ran.log
    assert "smtp_default" not in ran.log
