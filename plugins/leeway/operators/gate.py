"""The operator that runs the step `gate`."""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.utils.skipmixin import SkipMixin
from airflow.sdk.definitions.context import Context

from leeway.hooks.step import metrics
from leeway.links.report import ReportLink
from leeway.operators.step import IN_BACKFILL, StepOperator

MARKS = {"passed": "yes", "failed": "NO ", "undecided": "?  ", "reported": "   "}
"""First characters of a check's line in the log, by the check's outcome."""


class GateOperator(StepOperator, SkipMixin):
    """Judge a candidate by the policy in params.yaml, and compare it with the champion on the same holdout.

    The task also succeeds if the verdict is `failed` or `undecided` (too little data). The log then says why, and the
    tasks after it are skipped, unless a person has to decide. The task's button "Report" opens the page of the verdict.
    In a backfill the candidate is compared with the champion at the candidate's `as_of`, not with today's champion.
    Idempotent.

    Args:
        dataset: dataset of the model (templated); by default the one in the model's parameters.
        workspace: folder of the run's DVC workspace: `workspace` in DvcReproOperator's result (templated).
        model: registered model (templated).
        version: the candidate's version (templated).
        backfill: whether a backfill runs the task (templated); by default, whether a backfill started the DAG run.

    Returns:
        `GateResult`: passed, outcome, reason, checks, days_needed, next_steps, needs_approval, approval_timeout_h,
        approval_default, facts, hyperparameters, differences, champion, model_digest, package_digest, model_name,
        version, verdict, report.
    """

    step = "gate"
    fields = ("dataset", "workspace", "model", "version", "backfill")
    operator_extra_links = (ReportLink(),)

    def __init__(
        self,
        *,
        dataset: str = "",
        workspace: str,
        model: str,
        version: str,
        backfill: bool | str = IN_BACKFILL,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset, self.workspace = dataset, workspace
        self.model, self.version, self.backfill = model, version, backfill

    def build_spec(self) -> dict[str, Any]:
        """Return the step's spec, with the workspace's files under the names that dvc.yaml gives them."""
        fields = {name: value for name, value in super().build_spec().items() if name != "workspace"}
        return fields | {
            "evaluation": f"{self.workspace}/data/evaluation",
            "features": f"{self.workspace}/data/features",
            "verdict": f"{self.workspace}/data/verdict.json",
            "report": f"{self.workspace}/data/report",
        }

    def execute(self, context: Context) -> Any:
        """Return the verdict; skip the tasks after this one, unless it is `passed` or a person has to decide."""
        verdict = super().execute(context)
        metrics.count_gate_verdict(verdict, self.model)
        for check in verdict["checks"]:
            self.log.info("%s  %s", MARKS[check["outcome"]], check["reason"])
        if verdict["passed"] or verdict["needs_approval"]:
            return verdict
        self.log.warning("not promoted: %s", ". ".join([verdict["reason"], *verdict["next_steps"]]))
        # If there are tasks to skip, `skip` raises an error, and the verdict is not returned. So it is pushed here.
        context["ti"].xcom_push("return_value", verdict)
        # A teardown that uses this verdict is downstream too, and must run.
        downstream_tasks = context["task"].get_direct_relatives(upstream=False)
        self.skip(context["ti"], [task for task in downstream_tasks if not task.is_teardown])
        return verdict
