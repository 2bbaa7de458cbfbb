"""PromotionApprovalOperator: whom it asks, with which form, and what becomes of the answer."""

import datetime as dt
import json
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators import hitl
from airflow.sdk import DAG
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import DownstreamTasksSkipped, TaskAwaitingInput
from airflow.sdk.timezone import utcnow
from leeway.operators.approval import PromotionApprovalOperator, render_body
from leeway.operators.promote import PromoteOperator

CHECK = {"check": "auc", "value": 0.7, "bound": 0.6, "low": 0.68, "high": 0.72, "outcome": "passed"}
VERDICT: dict[str, Any] = {
    **{"asks": True, "outcome": "undecided", "reason": "auc is open", "model_name": "flights", "version": "3"},
    **{"approval_timeout_h": 72.0, "approval_default": "reject"},
    **{"champion": "2", "verdict": "/w/verdict.json", "report": "http://docs/report.html"},
    **{"checks": [CHECK, {**CHECK, "check": "rows | of holdout", "low": None, "high": None}]},
    **{"facts": {"data version": "abc"}, "differs": {"window": ["old days", "new days"]}},
}


def task(python: str = "") -> PromotionApprovalOperator:
    with DAG("approving", params={"as_of": "2013-03-01"}):
        made = PromotionApprovalOperator(task_id="approve", verdict=VERDICT, python=python)
        made >> PromoteOperator(task_id="promote", model_name="flights", version="3", verdict="/w/verdict.json")
    return made


def context(one: PromotionApprovalOperator, **verdict: Any) -> Context:
    one.verdict = {**VERDICT, **verdict}
    ti = SimpleNamespace(id="1", map_index=-1, xcom_push=lambda **_: None)
    return {"ti": ti, "task_instance": ti, "task": one}  # type: ignore[typeddict-item,return-value]


def answered(option: str, who: str | None = "ada", why: str = "looks good") -> dict[str, Any]:
    user = {"id": "1", "name": who} if who else None
    told = {"chosen_options": [option], "params_input": {"why": why}, "responded_at": utcnow()}
    return {**told, "responded_by_user": user, "timedout": False}


def test_what_asks_nobody_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **_: pytest.fail("somebody was asked"))
    one = task()
    assert one.execute(context(one, asks=False)) == {"approval_required": False}


def test_the_form_is_filled_and_the_task_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **told: asked.update(told))
    one = task()
    with pytest.raises(TaskAwaitingInput):
        one.execute(context(one))
    assert asked["subject"] == "Promote flights version 3? (undecided)"
    assert (asked["options"], asked["defaults"]) == (["Approve", "Reject"], ["Reject"])
    assert list(asked["params"]) == ["why"]
    assert asked["body"] == render_body(VERDICT)


@pytest.mark.parametrize(("silence", "option"), [("approve", "Approve"), ("reject", "Reject")])
def test_how_long_and_what_silence_means_is_the_policys(
    monkeypatch: pytest.MonkeyPatch, silence: str, option: str
) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **told: asked.update(told))
    one = task()
    with pytest.raises(TaskAwaitingInput) as waits:
        one.execute(context(one, approval_timeout_h=0.5, approval_default=silence))
    assert asked["defaults"] == [option]
    assert waits.value.timeout == dt.timedelta(minutes=30)


def test_the_forms_text_has_the_evidence() -> None:
    text = render_body(VERDICT)
    assert "| passed | auc | 0.7 | 0.68 to 0.72 | 0.6 |" in text
    assert "rows \\| of holdout" in text, "a bar would begin another cell"
    assert "[The report](http://docs/report.html): [curves](http://docs/curves.png)" in text
    assert "| data version | abc |" in text
    assert "| window | old days | new days |" in text
    assert "difference" not in render_body({**VERDICT, "differs": {}})


def test_a_yes_is_recorded_and_lets_pass(stub: Any, project: Any) -> None:
    python = stub("result(approved=spec()['decision'] == 'approve', spec=spec(), who=os.environ['LEEWAY_ACTOR'])")
    one = task(python)
    told = one.execute_complete(context(one), answered("Approve"))
    assert (told["approved"], told["who"]) == (True, "ada")
    wanted = {"model_name": "flights", "version": "3", "verdict": "/w/verdict.json", "why": "looks good"}
    assert told["spec"] == {**wanted, "decision": "approve"}


@pytest.mark.parametrize("who", ["ada", None])
def test_a_no_is_recorded_and_skips_what_follows(stub: Any, project: Any, tmp_path: Any, who: str | None) -> None:
    kept = tmp_path / "asked.json"
    python = stub(
        f"Path({str(kept)!r}).write_text(json.dumps([spec(), os.environ['LEEWAY_ACTOR']])); result(approved=False)"
    )
    one = task(python)
    with pytest.raises(DownstreamTasksSkipped) as raised:
        one.execute_complete(context(one), answered("Reject", who))
    assert list(raised.value.tasks) == ["promote"]
    spec, actor = json.loads(kept.read_text())
    assert (spec["decision"], actor) == ("reject", who or "nobody answered")
