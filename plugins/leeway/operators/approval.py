"""PromotionApprovalOperator."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Param
from airflow.sdk.definitions.context import Context

from leeway.hooks.step.hook import StepHook
from leeway.operators.output import ReturnsResult

ANSWERS = {"approve": ApprovalOperator.APPROVE, "reject": ApprovalOperator.REJECT}
PLOTS = {"curves": "curves.png", "reliability": "reliability.png", "slices and weeks": "parts.png"}
COMMENT = Param("", type="string", title="Why", description="For the registry's events.")


class PromotionApprovalOperator(ReturnsResult, ApprovalOperator):
    """Asks a person whether a judged candidate may be promoted, where its verdict asks for that; else lets it pass.

    The form (Airflow's Required Actions) has the verdict's table, its report, what the candidate is, and what is
    otherwise than with the champion. Whoever answers is on record, with the comment, as an event of the version. A "no"
    skips what follows. How long is waited, and what silence means, is in params.yaml, section gate.

    Args:
        verdict: result of GateOperator (templated).
        python: interpreter of the environment that has the ML libraries (templated).

    Returns:
        `DecideResult` where somebody was asked: model_name, version, approved, who, changed; else asked: false.
    """

    template_fields = (*ApprovalOperator.template_fields, "verdict", "python")
    ui_color = "#dcebf7"

    def __init__(
        self,
        *,
        verdict: Mapping[str, Any],
        python: str = "",
        **kwargs: Any,
    ) -> None:
        kwargs.pop("params", None)  # the DAG's, which Airflow gives to each task: the form asks for its own only
        # Without a response_timeout the base class would take the task's execution_timeout for it; `execute` knows it.
        super().__init__(
            subject="May it be promoted?", params={"why": COMMENT}, response_timeout=dt.timedelta(days=1), **kwargs
        )
        self.verdict, self.python = verdict, python

    def execute(self, context: Context) -> Any:
        """Lets pass what asks nobody; else waits for a person's answer."""
        verdict = self.verdict
        if not verdict["asks"]:
            self.log.info("nobody has to agree: %s", verdict["reason"])
            return {"asked": False}
        self.subject = f"Promote {verdict['model_name']} version {verdict['version']}? ({verdict['outcome']})"
        self.body = body(verdict)
        self.defaults = [ANSWERS[verdict["approval_default"]]]
        self.response_timeout = dt.timedelta(hours=verdict["approval_timeout_h"])
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """The decision is on record; after a "no" what follows is skipped."""
        decided = None if "error" in event else self._record(self.verdict, event)
        super().execute_complete(context, event)
        return decided

    def _record(self, verdict: Mapping[str, Any], event: Mapping[str, Any]) -> dict[str, Any]:
        who = (event.get("responded_by_user") or {}).get("name") or "nobody answered"
        approved = event["chosen_options"][0] == self.APPROVE
        spec = {name: verdict[name] for name in ("model_name", "version", "verdict")}
        spec |= {
            "decision": "approve" if approved else "reject",
            "why": (event.get("params_input") or {}).get("why", ""),
        }
        return StepHook(self.log, self.python, {"LEEWAY_ACTOR": who}).run("decide", spec)


def body(verdict: Mapping[str, Any]) -> str:
    """A verdict as Markdown: what was checked, what the candidate is, what is otherwise than with the champion."""
    checks = [
        [one["outcome"], one["check"], _number(one["value"]), _interval(one), _number(one["bound"])]
        for one in verdict["checks"]
    ]
    parts = [
        verdict["reason"],
        _links(verdict["report"]),
        _table(["", "check", "value", "interval", "bound"], checks),
    ]
    if verdict["differs"]:
        rows = [[name, *both] for name, both in verdict["differs"].items()]
        parts.append(_table(["otherwise than with", f"champion {verdict['champion']}", "candidate"], rows))
    parts.append(_table(["candidate", ""], [[name, told] for name, told in verdict["facts"].items()]))
    return "\n\n".join(parts)


def _links(report: str) -> str:
    """The page, and beside it the plots."""
    beside = report.rpartition("/")[0]
    plots = ", ".join(f"[{name}]({beside}/{file})" for name, file in PLOTS.items())
    return f"[The report]({report}): {plots}."


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def _interval(check: Mapping[str, Any]) -> str:
    return "" if check["low"] is None else f"{_number(check['low'])} to {_number(check['high'])}"
