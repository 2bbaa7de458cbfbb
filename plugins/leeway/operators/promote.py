"""PromoteOperator."""

from __future__ import annotations

from typing import Any

from leeway.operators.step import IN_BACKFILL, StepOperator, drop_unset


class PromoteOperator(StepOperator):
    """Makes a version the champion, where its verdict is a yes and it is not older than the champion. Idempotent.

    A backfill moves no alias unless it is told to: the task then succeeds, and the version is tagged with what it would
    have been.

    Args:
        model_name: registered model (templated).
        version: version to promote (templated).
        verdict: file of the verdict, as GateOperator returned it (templated).
        promote_in_backfill: whether a backfill may promote (templated); empty: as params.yaml says, section promote.
        backfill: whether a backfill asks (templated); told by the run where it is not given.
        force: whether to promote a version that is older than the champion, was judged against another one, was
            rejected, rolled back or retired (templated); never one whose verdict is a no.
        why: why, for the record; `force` needs it (templated).

    Returns:
        `PromoteResult`: model_name, version, previous, changed, promoted, reason.
    """

    step = "promote"
    fields = ("model_name", "version", "verdict", "promote_in_backfill", "backfill", "force", "why")

    def __init__(
        self,
        *,
        model_name: str,
        version: str,
        verdict: str,
        promote_in_backfill: bool | str = "",
        backfill: bool | str = IN_BACKFILL,
        force: bool | str | None = None,
        why: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model_name, self.version, self.verdict = model_name, version, verdict
        self.promote_in_backfill, self.backfill = promote_in_backfill, backfill
        self.force, self.why = force, why

    def spec(self) -> dict[str, Any]:
        """The step's spec; `in_backfill` is left to params.yaml where nothing was said."""
        own = super().spec()
        own["in_backfill"] = own.pop("promote_in_backfill")
        return drop_unset(own, "in_backfill")
