"""Test PromotionApprovalOperator: when it asks, its form, and the effect of the answer."""

import datetime as dt
import json
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators import hitl
from airflow.sdk import DAG
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowSkipException, DownstreamTasksSkipped, TaskAwaitingInput
from airflow.sdk.timezone import utcnow
from leeway.operators.approval import PromotionApprovalOperator, render_body
from leeway.operators.promote import PromoteOperator

CHECK = {"name": "auc", "value": 0.7, "bound": 0.6, "low": 0.68, "high": 0.72, "outcome": "passed"}
VERDICT: dict[str, Any] = {
    **{
        "needs_approval": True,
        "outcome": "undecided",
        "reason": "auc is open",
        "next_steps": ["A person has to decide now."],
        "model_name": "flights",
        "version": "3",
    },
    **{"approval_timeout_h": 72.0, "approval_default": "reject"},
    **{"champion": "2", "verdict": "/w/verdict.json", "report": "http://docs/report.html"},
    **{"checks": [CHECK, {**CHECK, "name": "rows | of holdout", "low": None, "high": None}]},
    **{"facts": {"data version": "abc"}, "differences": {"window": ["old days", "new days"]}},
}


def make_task(python: str = "") -> PromotionApprovalOperator:
    """Return an approval task that is followed by a promotion."""
    with DAG("approval", params={"as_of": "2013-03-01"}):
        task = PromotionApprovalOperator(task_id="approve", verdict=VERDICT, python=python)
        task >> PromoteOperator(task_id="promote", model="flights", version="3", verdict="/w/verdict.json")
    return task


def make_context(task: PromotionApprovalOperator, **verdict: Any) -> Context:
    """Set fields of the task's verdict, and return the task's context."""
    task.verdict = {**VERDICT, **verdict}
    ti = SimpleNamespace(id="1", map_index=-1, xcom_push=lambda **_: None)
    return {"ti": ti, "task_instance": ti, "task": task}  # type: ignore[typeddict-item]


def make_answer(option: str, user_name: str | None = "ada", why: str = "looks good") -> dict[str, Any]:
    """Return the event of an answer; without a user it is the default after the timeout."""
    user = {"id": "1", "name": user_name} if user_name else None
    answer = {"chosen_options": [option], "params_input": {"why": why}, "responded_at": utcnow()}
    return {**answer, "responded_by_user": user, "timedout": False}


def test_task_is_skipped_if_the_verdict_needs_no_approval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **_: pytest.fail("the task asked for an approval"))
    task = make_task()
    with pytest.raises(AirflowSkipException, match="nobody has to approve: "):
        task.execute(make_context(task, needs_approval=False))


def test_task_waits_with_a_filled_form(monkeypatch: pytest.MonkeyPatch) -> None:
    form: dict[str, Any] = {}
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **fields: form.update(fields))
    task = make_task()
    with pytest.raises(TaskAwaitingInput):
        task.execute(make_context(task))
    assert form["subject"] == "Promote flights version 3? (undecided)"
    assert (form["options"], form["defaults"]) == (["Approve", "Reject"], ["Reject"])
    assert list(form["params"]) == ["why"]
    assert form["body"] == render_body(VERDICT)


@pytest.mark.parametrize(("default", "option"), [("approve", "Approve"), ("reject", "Reject")])
def test_policy_gives_the_timeout_and_the_default_answer(
    monkeypatch: pytest.MonkeyPatch, default: str, option: str
) -> None:
    form: dict[str, Any] = {}
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **fields: form.update(fields))
    task = make_task()
    with pytest.raises(TaskAwaitingInput) as waiting:
        task.execute(make_context(task, approval_timeout_h=0.5, approval_default=default))
    assert form["defaults"] == [option]
    assert waiting.value.timeout == dt.timedelta(minutes=30)


def test_text_of_the_form_shows_checks_report_and_differences() -> None:
    text = render_body(VERDICT)
    assert "| passed | auc | 0.7 | 0.68 to 0.72 | 0.6 |" in text
    assert "rows \\| of holdout" in text, "a bar would start another cell"
    assert "[The report](http://docs/report.html): [curves](http://docs/curves.png)" in text
    assert "| data version | abc |" in text
    assert "| window | old days | new days |" in text
    two_steps = render_body({**VERDICT, "next_steps": ["Train again.", "Or decide now."]})
    assert two_steps.startswith("auc is open. Train again. Or decide now.\n"), "each step is a sentence of its own"
    assert render_body({**VERDICT, "next_steps": []}).startswith("auc is open\n")
    assert "difference" not in render_body({**VERDICT, "differences": {}})


def test_approval_is_recorded_and_the_task_succeeds(write_python: Any, project: Any) -> None:
    python = write_python(
        "result(approved=spec()['decision'] == 'approve', spec=spec(), actor=os.environ['LEEWAY_ACTOR'])"
    )
    task = make_task(python)
    result = task.execute_complete(make_context(task), make_answer("Approve"))
    assert (result["approved"], result["actor"]) == (True, "ada")
    spec = {"model": "flights", "version": "3", "verdict": "/w/verdict.json", "why": "looks good"}
    assert result["spec"] == {**spec, "decision": "approve"}


@pytest.mark.parametrize("user_name", ["ada", None])
def test_rejection_is_recorded_and_skips_the_next_tasks(
    write_python: Any, project: Any, tmp_path: Any, user_name: str | None
) -> None:
    path = tmp_path / "decision.json"
    python = write_python(
        f"Path({str(path)!r}).write_text(json.dumps([spec(), os.environ['LEEWAY_ACTOR']])); result(approved=False)"
    )
    task = make_task(python)
    with pytest.raises(DownstreamTasksSkipped) as error:
        task.execute_complete(make_context(task), make_answer("Reject", user_name))
    assert list(error.value.tasks) == ["promote"]
    spec, actor = json.loads(path.read_text())
    assert (spec["decision"], actor) == ("reject", user_name or "nobody answered")
