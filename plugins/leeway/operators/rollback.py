"""The operator that runs the step `rollback`."""

from __future__ import annotations

from typing import Any

from leeway.operators.step import StepOperator


class RollbackOperator(StepOperator):
    """Make the previous champion the champion again, and block the present one. Idempotent: a DAG run rolls back once.

    A blocked version can be promoted again only with `force`.

    Args:
        model: registered model (templated).
        why: reason, which is recorded (templated).
        to: version to make champion (templated); by default the previous champion.
        champion: version that is expected to be champion (templated). If another version is, the task fails, and
            nothing changes. By default any version may be champion.
        force: whether `to` may be a version that was never champion or is blocked (templated).

    Returns:
        `RollbackResult`: model_name, version, previous, changed, reason.
    """

    step = "rollback"
    fields = ("model", "why", "to", "champion", "force")

    def __init__(
        self,
        *,
        model: str,
        why: str,
        to: str = "",
        champion: str = "",
        force: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model, self.why, self.to, self.champion = model, why, to, champion
        self.force = force

    def build_spec(self) -> dict[str, Any]:
        """Return the step's spec."""
        # If the DAG's param has no value, Jinja renders it to "None".
        versions = {"to": self.to, "champion": self.champion}
        return super().build_spec() | {name: "" if value == "None" else value for name, value in versions.items()}
