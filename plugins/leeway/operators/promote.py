"""The operator that runs the step `promote`."""

from __future__ import annotations

from typing import Any

from airflow.sdk import TriggerRule

from leeway.operators.step import IN_BACKFILL, StepOperator, drop_empty_field


class PromoteOperator(StepOperator):
    """Make a version the champion if its verdict allows that and its as_of is not before the champion's. Idempotent.

    In a backfill, the version is promoted only if `promote_in_backfill` allows it. Otherwise the task succeeds, and a
    tag of the version names the champion that the version would have replaced.

    The trigger rule is `none_failed_min_one_success`. So the task also runs if PromotionApprovalOperator was skipped
    because nobody has to approve: then GateOperator, whose output the task uses, is the task before it that succeeded.

    Args:
        model: registered model (templated).
        version: version to promote (templated).
        verdict: file of the verdict: `gate.output["verdict"]` of GateOperator (templated).
        promote_in_backfill: whether a backfill may promote (templated); if empty, section `promote` of params.yaml
            decides.
        backfill: whether a backfill runs the task (templated); by default, whether a backfill started the DAG run.
        force: whether to promote a version even if its as_of is before the champion's, or if it was judged against
            another champion, rejected, rolled back or retired (templated). Even then its verdict must allow the
            promotion.
        why: reason, which is recorded; required with `force` (templated).

    Returns:
        `PromoteResult`: model_name, version, previous, changed, promoted, reason.
    """

    step = "promote"
    fields = ("model", "version", "verdict", "promote_in_backfill", "backfill", "force", "why")

    def __init__(
        self,
        *,
        model: str,
        version: str,
        verdict: str,
        promote_in_backfill: bool | str = "",
        backfill: bool | str = IN_BACKFILL,
        force: bool | str | None = None,
        why: str | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("trigger_rule", TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS)
        super().__init__(**kwargs)
        self.model, self.version, self.verdict = model, version, verdict
        self.promote_in_backfill, self.backfill = promote_in_backfill, backfill
        self.force, self.why = force, why

    def build_spec(self) -> dict[str, Any]:
        """Return the step's spec, without `promote_in_backfill` if it is empty: then params.yaml decides."""
        return drop_empty_field(super().build_spec(), "promote_in_backfill")
