"""What is said of a task that ended: a pure function of its step, its result and its run. Most endings are no news."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leeway.notifiers.message import LINE, Message, clean, masked
from pipelines.settings import settings

Result = Mapping[str, Any]


def message_of(step: str, result: Result, *, backfill: bool, log: str) -> Message | None:
    """What is said of a task that succeeded or was skipped; None where that is no news.

    Args:
        step: the operator's step.
        result: its Result, the task's XCom.
        backfill: whether a backfill ran it: then only what moved the champion is news.
        log: address of the task's log.
    """
    told = SAYS[step](result) if result and step in SAYS and not (backfill and step not in MOVING) else None
    return told and Message(told.title, told.facts, told.lines, {**told.links, "Log": log} if log else told.links)


def failure_of(dag: str, run: str, task: str, *, tried: int, log: str, error: object) -> Message:
    """What is said of a task that failed and is not tried again."""
    # Masked as a whole: a secret may have several lines.
    first = next((line for line in masked(error or "").splitlines() if line.strip()), "no error is known; see the log")
    kind = f"{type(error).__name__}: " if isinstance(error, BaseException) else ""
    facts = {"DAG": dag, "run": run, "task": task, "try": tried}
    return Message.of(f"{dag}: task {task} failed", facts, [clean(kind + first, LINE)], {"Log": log})


def _drift(found: Result) -> Message | None:
    if found["outcome"] != "drift" or not found["retrain"]:
        return None
    facts = {**_about(found), "window": f"up to {found['partition']}, {found['rows']:,} rows"}
    facts |= {"worst columns": ", ".join(found["worst"][:5]), "retraining as of": found["as_of"]}
    return Message.of(f"{found['model_name']} has drifted", facts, found["reasons"], {"What was seen": found["page"]})


def _gate(verdict: Result) -> Message | None:
    outcome = verdict["outcome"]
    against = [one["reason"] for one in verdict["checks"] if one["outcome"] in ("failed", "undecided")]
    asked = ["a person is asked: Required Actions in Airflow"] * bool(verdict["asks"])
    facts = {**_about(verdict), "verdict": outcome, "compared with": verdict["champion"] or "no champion"}
    title = f"{verdict['model_name']} version {verdict['version']} {AT_THE_GATE[outcome]}"
    return Message.of(title, facts, [*asked, *(against or [verdict["reason"]])], {"Report": verdict["report"]})


def _promote(done: Result) -> Message | None:
    if not done["changed"]:
        return None
    model, version = done["model_name"], done["version"]
    facts = {"model": model, "champion": version, "before": done["previous"] or "none"}
    links = {"Report": settings().report_page(model, version)}
    return Message.of(f"{model} version {version} is champion", facts, [done["reason"]], links)


def _rollback(done: Result) -> Message | None:
    if not done["changed"]:
        return None
    model, version = done["model_name"], done["version"]
    facts = {"model": model, "champion": version, "rolled back": done["previous"]}
    links = {"Report": settings().report_page(model, done["previous"])}
    return Message.of(f"{model} was rolled back to version {version}", facts, [done["reason"]], links)


def _guard(answer: Result) -> Message | None:
    if answer["outcome"] != "held_back":
        return None
    until = answer["until"] or "something has to happen first"
    facts = {"model": answer["model_name"], "as of": answer["as_of"], "guard": answer["guard"], "until": until}
    return Message.of(f"{answer['model_name']}: a retraining is held back", facts, answer["reason"].split("; "))


def _about(result: Result) -> dict[str, object]:
    return {"model": result["model_name"], "version": result["version"]}


SAYS: dict[str, Callable[[Result], Message | None]] = {
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
"""Steps that move the champion."""
