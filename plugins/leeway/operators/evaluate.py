"""EvaluateOperator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leeway.operators.step import StepOperator


class EvaluateOperator(StepOperator):
    """Measures a trained model on the holdout, and registers it as a candidate. Idempotent: one candidate, one version.

    Args:
        dataset: dataset of the model (templated).
        workspace: folder of the run's DVC workspace: features and snapshot are read there, the evaluation is written
            there (templated).
        model: folder of the model, or s3://BUCKET/KEY/model.tar.gz (templated).
        record: folder of the training's record, or s3://BUCKET/KEY/output.tar.gz (templated).
        register_as: registered model; empty: measure only (templated).
        training_job: name of the training job (templated).
        lineage: more tags for the version, without the prefix `leeway.` (templated).

    Returns:
        `EvaluateResult`: evaluation, metrics, model_digest, model_name, version, run_id.
    """

    step = "evaluate"
    fields = ("dataset", "workspace", "model", "record", "register_as", "training_job", "lineage")

    def __init__(
        self,
        *,
        dataset: str,
        workspace: str,
        model: str,
        record: str,
        register_as: str = "",
        training_job: str = "",
        lineage: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset, self.workspace = dataset, workspace
        self.model, self.record = model, record
        self.register_as, self.training_job, self.lineage = register_as, training_job, lineage

    def spec(self) -> dict[str, Any]:
        """The step's spec: the workspace's files under the names that dvc.yaml gives them."""
        own = {name: value for name, value in super().spec().items() if name != "workspace"}
        return own | {
            "features": f"{self.workspace}/data/features",
            "snapshot": f"{self.workspace}/data/snapshot.json",
            "evaluation": f"{self.workspace}/data/evaluation",
            "lock": f"{self.workspace}/dvc.lock",
        }
