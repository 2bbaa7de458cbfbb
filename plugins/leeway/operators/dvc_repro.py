"""DvcReproOperator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leeway.operators.step import StepOperator

WORKSPACE = "{{ dag.dag_id }}.{{ run_id }}"


class DvcReproOperator(StepOperator):
    """Brings stages of dvc.yaml up to date in a workspace of the run's own, over the shared cache. Idempotent.

    Concurrent runs never meet DVC's lock, and the same window is computed once: the second run takes it from the run
    cache.

    Args:
        targets: stages to bring up to date, with those that they depend on (templated).
        refresh: stages to run afresh first: their inputs lie outside DVC's sight (templated).
        overrides: of params.yaml, section to key to value (templated).
        workspace: name of the workspace (templated); of the DAG and the run where it is not given.

    Returns:
        `ReproResult`: workspace, lock, lock_digest, outs (path to hash), ran.
    """

    step = "repro"
    # Not `params`: that is the DAG's params in every operator.
    fields = ("targets", "refresh", "overrides", "workspace")

    def __init__(
        self,
        *,
        targets: Sequence[str],
        refresh: Sequence[str] = (),
        overrides: Mapping[str, Mapping[str, Any]] | None = None,
        workspace: str = WORKSPACE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.targets, self.refresh, self.overrides, self.workspace = targets, refresh, overrides, workspace

    def spec(self) -> dict[str, Any]:
        """The step's spec."""
        return {
            "targets": list(self.targets),
            "refresh": list(self.refresh),
            "params": self.overrides or {},
            "workspace": self.workspace,
        }
