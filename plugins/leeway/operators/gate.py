"""GateOperator."""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.utils.skipmixin import SkipMixin
from airflow.sdk.definitions.context import Context

from leeway.operators.step import IN_BACKFILL, StepOperator


class GateOperator(StepOperator, SkipMixin):
    """Judges a candidate by the policy in params.yaml, and against the champion on the same holdout.

    A "no" is a result: the task succeeds, what follows it is skipped, and the log says why. In a backfill the champion
    is the one of the candidate's moment, not today's. Idempotent.

    Args:
        dataset: dataset of the model (templated).
        workspace: folder of the run's DVC workspace (templated).
        model_name: registered model (templated).
        version: the candidate's version (templated).
        backfill: whether a backfill asks (templated); told by the run where it is not given.

    Returns:
        `GateResult`: passed, reason, checks, champion, model_name, version, verdict.
    """

    step = "gate"
    fields = ("dataset", "workspace", "model_name", "version", "backfill")

    def __init__(
        self,
        *,
        dataset: str,
        workspace: str,
        model_name: str,
        version: str,
        backfill: bool | str = IN_BACKFILL,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset, self.workspace = dataset, workspace
        self.model_name, self.version, self.backfill = model_name, version, backfill

    def spec(self) -> dict[str, Any]:
        """The step's spec: the workspace's files under the names that dvc.yaml gives them."""
        own = {name: value for name, value in super().spec().items() if name != "workspace"}
        return own | {
            "evaluation": f"{self.workspace}/data/evaluation",
            "features": f"{self.workspace}/data/features",
            "verdict": f"{self.workspace}/data/verdict.json",
        }

    def execute(self, context: Context) -> Any:
        """The verdict; where it is a no, what follows is skipped."""
        verdict = super().execute(context)
        for check in verdict["checks"]:
            self.log.info("%s  %s", "yes" if check["passed"] else "NO ", check["reason"])
        if verdict["passed"]:
            return verdict
        self.log.warning("not promoted: %s", verdict["reason"])
        # `skip` leaves by an exception, so the verdict would never be returned.
        context["ti"].xcom_push("return_value", verdict)
        self.skip(context["ti"], context["task"].get_direct_relatives(upstream=False))
        return verdict
