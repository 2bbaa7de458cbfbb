"""Build the message about a task that ended, from its step and its result. Most tasks end without a message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from leeway.notifiers.message import MAX_LINE_CHARS, Message, clean, mask_secrets
from pipelines.settings import settings

Result = Mapping[str, Any]
"""The Result of a step, in the form of the task's XCom."""


def build_step_message(step: str, result: Result, *, is_backfill: bool, log_url: str) -> Message | None:
    """Return the message about a task that has a result; None if nobody needs a message.

    Args:
        step: name of the operator's step.
        result: Result of the step; if empty, there is no message.
        is_backfill: whether a backfill ran the task. If so, there is a message only about a change of the champion.
        log_url: URL of the task's log; empty: the message has no link to it.
    """
    may_have_message = result and step in MESSAGE_BUILDERS and (not is_backfill or step in CHAMPION_STEPS)
    message = MESSAGE_BUILDERS[step](result) if may_have_message else None
    if message is None or not log_url:
        return message
    model = result.get("model_name")
    return message.add_links({"Model": _build_page_url(log_url, model) if model else "", "Log": log_url})


def _build_page_url(log_url: str, model: str) -> str:
    """Return the address of the model on Leeway's page, in the Airflow that has the log."""
    base_url = log_url.partition("/dags/")[0]
    return f"{base_url}/plugin/leeway/models/{quote(model, safe='')}"


def build_failure_message(
    dag_id: str, run_id: str, task_id: str, *, try_number: int, log_url: str, error: object
) -> Message:
    """Return the message about a task that failed and is not retried."""
    # Secrets are masked before the text is split, because a secret may have several lines.
    first_line = next(
        (line for line in mask_secrets(error or "").splitlines() if line.strip()), "no error is known; see the log"
    )
    error_type = f"{type(error).__name__}: " if isinstance(error, BaseException) else ""
    facts = {"DAG": dag_id, "run": run_id, "task": task_id, "try": try_number}
    reason = clean(error_type + first_line, MAX_LINE_CHARS)
    return Message.create(f"{dag_id}: task {task_id} failed", facts, [reason], {"Log": log_url})


def _build_drift_message(result: Result) -> Message | None:
    if not result["retrain"]:
        return None
    overdue_reason = result.get("overdue_reason", "")
    facts = {**_build_model_facts(result), "window": f"up to {result['partition']}, {result['rows']:,} rows"}
    facts |= {"worst columns": ", ".join(result["drifted_columns"][:5]), "retraining as of": result["as_of"]}
    title = "has drifted" if result["outcome"] == "drift" else "is trained again"
    reasons = [*result["reasons"], *filter(None, [overdue_reason])]
    return Message.create(f"{result['model_name']} {title}", facts, reasons, {"Findings": result["page"]})


def _build_gate_message(verdict: Result) -> Message | None:
    outcome = verdict["outcome"]
    reasons = [check["reason"] for check in verdict["checks"] if check["outcome"] in ("failed", "undecided")]
    approval = ["a person has to approve: Required Actions in Airflow"] if verdict["needs_approval"] else []
    facts = {**_build_model_facts(verdict), "verdict": outcome, "compared with": verdict["champion"] or "no champion"}
    title = f"{verdict['model_name']} version {verdict['version']} {OUTCOME_PHRASES[outcome]}"
    if verdict["days_needed"]:
        facts["days of holdout that would decide"] = verdict["days_needed"]
    lines = [*approval, *verdict["next_steps"], *(reasons or [verdict["reason"]])]
    return Message.create(title, facts, lines, {"Report": verdict["report"]})


def _build_promote_message(result: Result) -> Message | None:
    if not result["changed"]:
        return None
    model, version = result["model_name"], result["version"]
    facts = {"model": model, "champion": version, "previous champion": result["previous"] or "none"}
    links = {"Report": settings().build_report_url(model, version)}
    return Message.create(f"{model} version {version} is champion", facts, [result["reason"]], links)


def _build_rollback_message(result: Result) -> Message | None:
    if not result["changed"]:
        return None
    model, version = result["model_name"], result["version"]
    facts = {"model": model, "champion": version, "rolled back": result["previous"]}
    links = {"Report": settings().build_report_url(model, result["previous"])}
    return Message.create(f"{model} was rolled back to version {version}", facts, [result["reason"]], links)


def _build_skew_message(result: Result) -> Message | None:
    if result["outcome"] != "skew":
        return None
    facts = {"model": result["model_name"], "version": ", ".join(result["versions"]), "endpoint": result["endpoint"]}
    facts |= {"partition": result["partition"], "rows of requests": f"{result['rows']:,}"}
    lines = [result["reason"], "This is an error of serving: no training is started."]
    return Message.create(f"{result['model_name']}: requests differ from the lake", facts, lines)


def _build_deployment_message(result: Result) -> Message | None:
    if not result["changed"]:
        return None
    facts = {
        **_build_model_facts(result),
        "endpoint": result["endpoint"],
        "served before": result["previous"] or "none",
    }
    if result["cost_usd_month"] is not None:
        facts["instances"] = f"{result['cost_usd_month']:,.2f} USD a month"
    return Message.create(f"{result['model_name']} version {result['version']} is deployed", facts)


def _build_shadow_message(result: Result) -> Message | None:
    # If the shadow failed, its task failed, which has a message. If it passed, the deployment that follows has one.
    if result["outcome"] != "undecided":
        return None
    facts = {**_build_model_facts(result), "endpoint": result["endpoint"], "compared": f"{result['requests']} requests"}
    title = f"{result['model_name']} version {result['version']} was a shadow, but its requests decide nothing"
    return Message.create(title, facts, result["reason"].split("; "), {"Report": result["page"]})


def _build_showback_message(result: Result) -> Message | None:
    notices = result["notices"]
    if not notices:
        return None
    projects = sorted({notice["project"] or "unallocated" for notice in notices})
    titles = {notice["kind"]: NOTICE_PHRASES[notice["kind"]] for notice in notices}
    facts = {"project": ", ".join(projects), "month": f"{result['month']}: {result['month_usd']:,.2f} USD so far"}
    title = f"{', '.join(projects)}: {', '.join(titles.values())}"
    return Message.create(title, facts, [notice["text"] for notice in notices])


def _build_guard_message(decision: Result) -> Message | None:
    if decision["outcome"] != "held_back":
        return None
    end_text = decision["until"] or "a person acts, or new data arrive"
    facts = {"model": decision["model_name"], "as of": decision["as_of"], "guard": decision["guard"], "until": end_text}
    return Message.create(f"{decision['model_name']}: a retraining is held back", facts, decision["reason"].split("; "))


def _build_model_facts(result: Result) -> dict[str, object]:
    return {"model": result["model_name"], "version": result["version"]}


MESSAGE_BUILDERS: dict[str, Callable[[Result], Message | None]] = {
    "drift": _build_drift_message,
    "gate": _build_gate_message,
    "guard": _build_guard_message,
    "promote": _build_promote_message,
    "rollback": _build_rollback_message,
    "serving": _build_deployment_message,
    "showback": _build_showback_message,
    "skew": _build_skew_message,
    "shadow": _build_shadow_message,
}
"""For each step with messages, the function that builds the message from the step's Result."""
OUTCOME_PHRASES = {
    "passed": "passed the gate",
    "failed": "did not pass the gate",
    "undecided": "is undecided: too little data",
}
"""Last words of the title of a message about a verdict, by the verdict's outcome."""
NOTICE_PHRASES = {
    "threshold": "a budget reached a threshold",
    "forecast": "a budget will be exceeded",
    "anomaly": "the costs are unusually high",
}
"""Part of the title of a message about costs, by the kind of the notice."""
CHAMPION_STEPS = ("promote", "rollback")
"""Steps that can change the champion."""
