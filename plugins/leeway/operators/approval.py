"""The operator that asks a person for the approval of a promotion."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Param
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowSkipException

from leeway.hooks.step.hook import StepHook
from leeway.operators.output import ResultOutputMixin
from pipelines.escaping import escape

ANSWERS = {"approve": ApprovalOperator.APPROVE, "reject": ApprovalOperator.REJECT}
"""Maps each value of `approval_default` in params.yaml to the option that Airflow chooses if nobody answers."""
PLOTS = {"curves": "curves.png", "reliability": "reliability.png", "slices and weeks": "holdout_parts.png"}
"""Maps the text of each link in the form to the file in the report's folder that the link opens."""
REASON_PARAM = Param(
    "", type="string", maxLength=1000, title="Why", description="Reason; it is recorded with the decision."
)
"""Field of the form in which the person writes the reason."""


class PromotionApprovalOperator(ResultOutputMixin, ApprovalOperator):
    """Ask a person whether a candidate may be promoted, if its verdict requires an approval.

    If the verdict requires no approval, the task is skipped, and PromoteOperator after it runs nevertheless.

    The form (Airflow's Required Actions) shows the table of checks, links to the report, facts about the candidate, and
    its differences from the champion. The decision, its reason and the person are recorded as an event of the version.
    After a rejection, the tasks after this one are skipped. Section `gate` of params.yaml says how long the task waits,
    and which decision applies if nobody answers.

    Args:
        verdict: the whole result of GateOperator, `gate.output` (templated). PromoteOperator gets only its field
            `verdict`.
        python: interpreter of the environment that has the ML libraries (templated); if empty, LEEWAY_PYTHON, or else
            the interpreter that runs Airflow.

    Returns:
        `DecideResult`: model_name, version, approved, who, changed. A skipped task returns nothing.
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
        kwargs.pop("params", None)  # the DAG's params, which Airflow passes to each task, must not be in the form
        # Without a response_timeout, the base class would use the task's execution_timeout. `execute` sets the timeout
        # that the verdict names.
        super().__init__(
            subject="May the candidate be promoted?",
            params={"why": REASON_PARAM},
            response_timeout=dt.timedelta(days=1),
            **kwargs,
        )
        self.verdict, self.python = verdict, python

    def execute(self, context: Context) -> Any:
        """Wait for a person's answer.

        Raises:
            AirflowSkipException: nobody has to approve.
        """
        verdict = self.verdict
        if not verdict["needs_approval"]:
            raise AirflowSkipException(f"nobody has to approve: {verdict['reason']}")
        self.subject = escape(f"Promote {verdict['model_name']} version {verdict['version']}? ({verdict['outcome']})")
        self.body = render_body(verdict)
        self.defaults = [ANSWERS[verdict["approval_default"]]]
        self.response_timeout = dt.timedelta(hours=verdict["approval_timeout_h"])
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Record the decision; skip the tasks after this one if it is a rejection."""
        decision = None if "error" in event else self._record_decision(self.verdict, event)
        super().execute_complete(context, event)
        return decision

    def _record_decision(self, verdict: Mapping[str, Any], event: Mapping[str, Any]) -> dict[str, Any]:
        actor = (event.get("responded_by_user") or {}).get("name") or "nobody answered"
        is_approved = event["chosen_options"][0] == self.APPROVE
        spec = {
            "model": verdict["model_name"],
            "version": verdict["version"],
            "verdict": verdict["verdict"],
            "decision": "approve" if is_approved else "reject",
            "why": (event.get("params_input") or {}).get("why", ""),
        }
        return StepHook(self.log, self.python, {"LEEWAY_ACTOR": actor}).run("decide", spec)


def render_body(verdict: Mapping[str, Any]) -> str:
    """Render a verdict as Markdown: its checks, the differences from the champion, and facts about the candidate."""
    checks = [
        [
            check["outcome"],
            check["name"],
            _format_number(check["value"]),
            _format_interval(check),
            _format_number(check["bound"]),
        ]
        for check in verdict["checks"]
    ]
    parts = [
        _escape_markdown(". ".join(filter(None, [verdict["reason"], " ".join(verdict["next_steps"])]))),
        _render_links(verdict["report"]),
        _render_table(["", "check", "value", "interval", "bound"], checks),
    ]
    if verdict["differences"]:
        rows = [[name, *values] for name, values in verdict["differences"].items()]
        parts.append(_render_table(["difference", f"champion {verdict['champion']}", "candidate"], rows))
    parts.append(_render_table(["candidate", ""], [[name, value] for name, value in verdict["facts"].items()]))
    return "\n\n".join(parts)


def _render_links(report: str) -> str:
    """Render links to the report and to the plots in the report's folder."""
    address = quote(report, safe="/:?#@!$&'*+,;=%~")
    folder = address.rpartition("/")[0]
    plots = ", ".join(f"[{name}]({folder}/{file})" for name, file in PLOTS.items())
    return f"[The report]({address}): {plots}."


def _render_table(headers: list[str], rows: list[list[str]]) -> str:
    all_rows = [headers, ["---"] * len(headers), *rows]
    return "\n".join("| " + " | ".join(map(_escape_markdown, row)) + " |" for row in all_rows)


def _escape_markdown(text: object) -> str:
    """Return one line of Markdown that shows the text. The text cannot add links, HTML or columns of a table."""
    return re.sub(r"([\\`|<>\[\]])", r"\\\1", escape(text))


def _format_number(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def _format_interval(check: Mapping[str, Any]) -> str:
    return "" if check["low"] is None else f"{_format_number(check['low'])} to {_format_number(check['high'])}"
