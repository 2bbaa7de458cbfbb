"""The operator that runs the step `repro`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk.definitions.context import Context

from leeway.operators.step import StepOperator

WORKSPACE = "{{ dag.dag_id }}.{{ run_id }}"
"""Template of the name of the run's workspace."""


class DvcReproOperator(StepOperator):
    """Bring stages of dvc.yaml up to date in the run's own workspace, with the shared cache. Idempotent.

    DVC locks only the run's workspace, so runs with different inputs do not wait for each other. A window is computed
    once: a second run with the same window waits for the first one, and takes its result from the run cache. If
    LEEWAY_DVC_REMOTE is set, data are pulled from there and pushed there.

    Args:
        targets: stages to bring up to date, with the stages that they depend on (templated).
        refresh: stages to run first even if DVC finds no change, because DVC does not know their inputs (templated).
        overrides: values that replace those of params.yaml, as a mapping of section to key to value (templated).
        model: model whose models/NAME/params.yaml overrides params.yaml (templated); by default only params.yaml
            is read.
        window: window of the training, as GuardOperator returns it (templated); replaces values of section `snapshot`
            of params.yaml.
        workspace: name of the workspace (templated); by default DAG.RUN.
        commit: commit of the code that runs (templated). By default it is the version of the run's DAG bundle, if that
            is a commit, so that a run that is cleared later runs the same code again; else LEEWAY_GIT_COMMIT; else the
            project's HEAD.
        push: whether to push the data to LEEWAY_DVC_REMOTE, if it is set (templated).
        wait: whether to wait while another task of the run uses the workspace (templated); otherwise the task fails,
            and a retry can help.

    Returns:
        `ReproResult`: workspace, lock, lock_digest, git_commit,
        stages (for each stage and output: digest, size_bytes, files), ran.
    """

    step = "repro"
    # The field of the spec is `params`. In an operator, `params` are the DAG's params, so here it is `overrides`.
    fields = ("targets", "refresh", "overrides", "model", "window", "workspace", "commit", "push", "wait")

    def __init__(
        self,
        *,
        targets: Sequence[str],
        refresh: Sequence[str] = (),
        overrides: Mapping[str, Mapping[str, Any]] | None = None,
        model: str = "",
        window: Mapping[str, Any] | None = None,
        workspace: str = WORKSPACE,
        commit: str = "",
        push: bool = True,
        wait: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.targets, self.refresh, self.workspace = targets, refresh, workspace
        self.overrides, self.model, self.window = overrides, model, window
        self.commit, self.push, self.wait = commit, push, wait
        self.bundle_version = ""

    def build_spec(self) -> dict[str, Any]:
        """Return the step's spec."""
        overrides = dict(self.overrides or {})
        if self.window:
            overrides["snapshot"] = {**overrides.get("snapshot", {}), **self.window}
        return {
            "targets": list(self.targets),
            "refresh": list(self.refresh),
            "params": overrides,
            "model": self.model,
            "workspace": self.workspace,
            "commit": self.commit,
            "bundle_version": self.bundle_version,
            "push": self.push,
            "wait": self.wait,
        }

    def execute(self, context: Context) -> Any:
        """Run the step with the code of the run's DAG bundle version, if there is one; return its Result."""
        # The version is None if the bundle has no versions, or if the DAG does not pin them.
        bundle = getattr(context["ti"], "bundle_instance", None)
        self.bundle_version = str(getattr(bundle, "version", None) or "")
        return super().execute(context)
