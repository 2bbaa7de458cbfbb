"""Test that an answer to an approval is recorded in the registry by the real step, as the command line records it."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import DownstreamTasksSkipped
from airflow.sdk.timezone import utcnow
from leeway.operators.approval import PromotionApprovalOperator
from leeway.operators.promote import PromoteOperator

from pipelines.errors import PromotionError
from pipelines.registry.lifecycle import Journal
from pipelines.steps import promote as promoting
from pipelines.system.files import sha256
from tests.tools import forking

MODEL = "approval-boats"


@pytest.fixture
def verdicts(with_mlflow, tmp_path, monkeypatch):
    """Register two versions whose verdicts need an approval; return the verdicts by version."""
    from mlflow import MlflowClient

    monkeypatch.setenv("LEEWAY_PYTHON", forking.ensure_stand_in())
    client = MlflowClient(with_mlflow, with_mlflow)
    client.create_registered_model(MODEL)
    verdicts = {}
    for _ in range(2):
        version = str(client.create_model_version(MODEL, "s3://nowhere/model").version)
        path = tmp_path / f"{version}.json"
        verdict = {"model_name": MODEL, "version": version, "champion": "", "reason": "auc is open"}
        path.write_text(json.dumps({**verdict, "passed": True, "outcome": "passed", "needs_approval": True}))
        for name, value in {"verdict": "passed", "verdict_digest": sha256(path)}.items():
            client.set_model_version_tag(MODEL, version, f"leeway.{name}", value)
        verdicts[version] = {**verdict, "verdict": str(path)}
    yield verdicts
    client.delete_registered_model(MODEL)


def answer(verdict, option, why):
    """Resume the task after the answer of grace on the page."""
    with DAG("approval", params={"as_of": "2013-03-01"}):
        task = PromotionApprovalOperator(task_id="approve", verdict=verdict)
        task >> PromoteOperator(task_id="promote", model=MODEL, version=verdict["version"], verdict=verdict["verdict"])
    ti: Any = SimpleNamespace(id="1", map_index=-1, xcom_push=lambda **_: None)
    event = {
        **{"chosen_options": [option], "params_input": {"why": why}, "responded_at": utcnow(), "timedout": False},
        "responded_by_user": {"id": "7", "name": "grace"},
    }
    return task.execute_complete({"ti": ti, "task_instance": ti, "task": task}, event)


def list_decisions(version):
    """Return the registry's events about a version: kind, person and reason."""
    events = Journal.open().read_state(MODEL).events
    return [(event.kind.value, event.who, event.why) for event in events if event.version == version]


def test_rejection_is_the_same_event_as_that_of_the_command_line(verdicts, commands, with_mlflow):
    by_page, by_command = verdicts.values()
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        answer(by_page, "Reject", "too slow")
    assert list(skipped.value.tasks) == ["promote"]
    options = {"model": MODEL, "version": by_command["version"], "verdict": by_command["verdict"], "why": "too slow"}
    arguments = [text for name, value in options.items() for text in (f"--{name}", value)]
    env = {"LEEWAY_ACTOR": "grace", "MLFLOW_TRACKING_URI": with_mlflow}
    result = commands.run_step("decide", *arguments, "--decision", "reject", env=env)
    assert result.code == 0, result.err
    assert list_decisions(by_page["version"]) == [("rejected", "grace", "too slow")]
    assert list_decisions(by_command["version"]) == list_decisions(by_page["version"])
    for verdict in (by_page, by_command):
        spec = promoting.PromoteSpec(model=MODEL, version=verdict["version"], verdict=verdict["verdict"])
        with pytest.raises(PromotionError, match="rejected it: too slow"):
            promoting.run(spec)


def test_approval_is_recorded_with_the_name_and_the_version_can_be_promoted(verdicts):
    """The control."""
    verdict = next(iter(verdicts.values()))
    assert answer(verdict, "Approve", "I looked")["approved"]
    assert list_decisions(verdict["version"]) == [("approved", "grace", "I looked")]
    spec = promoting.PromoteSpec(model=MODEL, version=verdict["version"], verdict=verdict["verdict"])
    assert promoting.run(spec).promoted
