"""Make the message about a task that ended from its step, its result and its run. Most endings are no news."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leeway.notifiers.message import LINE, Message, clean, mask_secrets
from pipelines.settings import settings

Result = Mapping[str, Any]


def build_step_message(step: str, result: Result, *, backfill: bool, log: str) -> Message | None:
    """Return the message about a task that succeeded or was skipped; None if its end is no news.

    Args:
        step: step of the operator.
        result: its Result, the task's XCom.
        backfill: whether a backfill ran it; then only a change of the champion is news.
        log: address of the task's log.
    """
    is_news = result and step in BUILDERS and (not backfill or step in MOVING)
    message = BUILDERS[step](result) if is_news else None
    if message is None or not log:
        return message
    return Message(message.title, message.facts, message.lines, {**message.links, "Log": log})


def build_failure_message(dag: str, run: str, task: str, *, tried: int, log: str, error: object) -> Message:
    """Return the message about a task that failed and is not retried."""
    # The whole text is masked first: a secret may have several lines.
    first = next(
        (line for line in mask_secrets(error or "").splitlines() if line.strip()), "no error is known; see the log"
    )
    kind = f"{type(error).__name__}: " if isinstance(error, BaseException) else ""
    facts = {"DAG": dag, "run": run, "task": task, "try": tried}
    return Message.create(f"{dag}: task {task} failed", facts, [clean(kind + first, LINE)], {"Log": log})


def _drift(result: Result) -> Message | None:
    if result["outcome"] != "drift" or not result["retrain"]:
        return None
    facts = {**_about(result), "window": f"up to {result['partition']}, {result['rows']:,} rows"}
    facts |= {"worst columns": ", ".join(result["worst"][:5]), "retraining as of": result["as_of"]}
    return Message.create(f"{result['model_name']} has drifted", facts, result["reasons"], {"Findings": result["page"]})


def _gate(verdict: Result) -> Message | None:
    outcome = verdict["outcome"]
    against = [check["reason"] for check in verdict["checks"] if check["outcome"] in ("failed", "undecided")]
    approval = ["a person has to approve: Required Actions in Airflow"] * bool(verdict["asks"])
    facts = {**_about(verdict), "verdict": outcome, "compared with": verdict["champion"] or "no champion"}
    title = f"{verdict['model_name']} version {verdict['version']} {AT_THE_GATE[outcome]}"
    return Message.create(title, facts, [*approval, *(against or [verdict["reason"]])], {"Report": verdict["report"]})


def _promote(result: Result) -> Message | None:
    if not result["changed"]:
        return None
    model, version = result["model_name"], result["version"]
    facts = {"model": model, "champion": version, "previous champion": result["previous"] or "none"}
    links = {"Report": settings().report_page(model, version)}
    return Message.create(f"{model} version {version} is champion", facts, [result["reason"]], links)


def _rollback(result: Result) -> Message | None:
    if not result["changed"]:
        return None
    model, version = result["model_name"], result["version"]
    facts = {"model": model, "champion": version, "rolled back": result["previous"]}
    links = {"Report": settings().report_page(model, result["previous"])}
    return Message.create(f"{model} was rolled back to version {version}", facts, [result["reason"]], links)


def _guard(decision: Result) -> Message | None:
    if decision["outcome"] != "held_back":
        return None
    until = decision["until"] or "a person or new data change it"
    facts = {"model": decision["model_name"], "as of": decision["as_of"], "guard": decision["guard"], "until": until}
    return Message.create(f"{decision['model_name']}: a retraining is held back", facts, decision["reason"].split("; "))


def _about(result: Result) -> dict[str, object]:
    return {"model": result["model_name"], "version": result["version"]}


BUILDERS: dict[str, Callable[[Result], Message | None]] = {
    "drift": _drift,
    "gate": _gate,
    "guard": _guard,
    "promote": _promote,
    "rollback": _rollback,
}
AT_THE_GATE = {
    "passed": "passed the gate",
    "failed": "did not pass the gate",
    "undecided": "is undecided: too little data",
}
MOVING = ("promote", "rollback")
"""Steps that can change the champion."""
