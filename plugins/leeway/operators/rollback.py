"""RollbackOperator."""

from __future__ import annotations

from typing import Any

from leeway.operators.step import StepOperator


class RollbackOperator(StepOperator):
    """Makes the champion before the champion again, and blocks the one that is taken out. Idempotent: once a DAG run.

    Args:
        model_name: registered model (templated).
        why: why, for the record (templated).
        to: version that is to be champion (templated); the champion before where it is not given.
        force: whether `to` may be a version that was never champion, or is blocked itself (templated).

    Returns:
        `RollbackResult`: model_name, version, previous, changed, reason.
    """

    step = "rollback"
    fields = ("model_name", "why", "to", "force")

    def __init__(
        self,
        *,
        model_name: str,
        why: str,
        to: str = "",
        force: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model_name, self.why, self.to, self.force = model_name, why, to, force

    def spec(self) -> dict[str, Any]:
        """The step's spec."""
        # "None" is what Jinja makes of a param that nobody set.
        return super().spec() | {"to": "" if self.to == "None" else self.to}
