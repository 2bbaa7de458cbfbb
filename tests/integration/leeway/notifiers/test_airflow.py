"""Test the notifications of a DAG in a real Airflow, and that no password is in a log or an XCom."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.tools.airflow_runs import AirflowRuns

ROOT = Path(__file__).parents[4]
CANARY = "tweety-sings-of-secrets"
STEP = """#!{python}
import json, sys
from pathlib import Path
results, step = {results!r}, sys.argv[sys.argv.index("pipelines") + 1]
Path(sys.argv[sys.argv.index("--out") + 1]).write_text(json.dumps({{"schema_version": 1, **results[step]}}))
"""
RESULTS: dict[str, dict[str, Any]] = {
    "drift": {
        "model_name": "flights", "version": "2", "partition": "2013-04-07", "as_of": "2013-04-08", "rows": 9,
        "outcome": "none", "retrain": False, "reasons": ["there is no drift"], "drifted_columns": [],
        "page": "", "missing": [],
    },
    "rollback": {
        "model_name": "flights", "version": "2", "previous": "3", "changed": True, "reason": "late flights are missed",
    },
}  # fmt: skip
DAG = """
import datetime as dt
from airflow.sdk import DAG, task
from leeway.notifiers.lifecycle import build_lifecycle_callbacks
from leeway.operators.drift import DriftSensor
from leeway.operators.rollback import RollbackOperator

with DAG("crew", schedule=None, default_args={{**build_lifecycle_callbacks(), "retries": 0}}):
    @task
    def leak():
        raise ValueError("the script failed\\nand more")

    @task(retries=1, retry_delay=dt.timedelta(0))
    def twice(ti=None):
        if ti.try_number == 1:
            raise ValueError("only once")

    leak()
    twice()
    DriftSensor(task_id="drift", dataset="flights", model="flights", partition="2013-04-07",
                deferrable=False, python={python!r})
    RollbackOperator(task_id="rollback", model="flights", why="late", python={python!r})
"""


@pytest.fixture(scope="module")
def run_dag(
    tmp_path_factory: pytest.TempPathFactory, put_airflow_database: Callable[[Path], None]
) -> Iterator[Callable[..., SimpleNamespace]]:
    """Return the function that runs the DAG in an Airflow of this file, with the connections that it gets."""
    folder = tmp_path_factory.mktemp("crew")
    step, dags = folder / "step", folder / "dags"
    step.write_text(STEP.format(python=sys.executable, results=RESULTS))
    step.chmod(0o755)
    dags.mkdir()
    (dags / "crew.py").write_text(DAG.format(python=str(step)))
    env = {
        **os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}", "LEEWAY_PROJECT": str(folder),
        "AIRFLOW_HOME": str(folder / "airflow"), "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
    }  # fmt: skip
    put_airflow_database(folder / "airflow")
    runs = AirflowRuns(env, folder)

    def run(**connections: str) -> SimpleNamespace:
        variables = {f"AIRFLOW_CONN_{name.upper()}": text for name, text in connections.items()}
        return runs.run(dags, "crew", variables=variables)

    yield run
    runs.close()


def test_each_event_is_sent_once_by_mail_and_to_slack(run_dag, mail_server, slack_receiver):
    run = run_dag(smtp_default=mail_server.build_connection(), slack_default=slack_receiver.build_connection())
    assert run.states == {"leak": "failed", "twice": "success", "drift": "skipped", "rollback": "success"}
    titles = ["crew: task leak failed", "flights was rolled back to version 2"]
    subjects = sorted(mail["Subject"] for mail in mail_server.mails)
    assert subjects == [f"[Leeway] {title}" for title in titles], run.log[-4_000:]
    assert sorted(message["text"] for message in slack_receiver.posts) == titles
    text = next(mail for mail in mail_server.mails if "leak" in mail["Subject"]).get_body(("plain",)).get_content()
    assert "- ValueError: the script failed" in text.splitlines()
    assert "Log: http://" in text
    assert CANARY not in run.log + str(run.xcom_texts)


def test_tasks_keep_their_states_when_notifications_cannot_be_sent(run_dag, mail_server, slack_receiver):
    slack_receiver.status = 500
    run = run_dag(
        smtp_default=mail_server.build_connection().replace("tweety", "sylvester"),
        slack_default=slack_receiver.build_connection(),
    )
    assert run.states == {"leak": "failed", "twice": "success", "drift": "skipped", "rollback": "success"}
    assert mail_server.mails == []
    assert "not sent by smtp_default (SMTPAuthenticationError" in run.log
    assert "not sent by slack_default (AirflowException" in run.log
    assert "sings-of-secrets" not in run.log + str(run.xcom_texts)


def test_log_says_nothing_about_notifications_without_connections(run_dag):
    run = run_dag()
    assert run.states["rollback"] == "success"
    assert "notified" not in run.log
    assert "smtp_default" not in run.log
