"""The operator that runs the step `evaluate`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leeway.operators.step import StepOperator

TRAINING_FACTS = (
    "training_job_arn",
    "instance_type",
    "training_s",
    "billable_s",
    "cost_usd",
    "price_usd_h",
    "saving",
    "interruptions",
    "lost_s",
    "capacity_s",
)
"""Fields of SpotTrainingOperator's result that become tags of the version."""
CHOICE_FACTS = ("instance_choice", "predicted_s", "predicted_usd")
"""More such fields, which a result has only with `instance_type="auto"`."""


class EvaluateOperator(StepOperator):
    """Measure a trained model on the holdout, and register it as a candidate, once. Idempotent.

    Args:
        dataset: dataset of the model (templated); by default the one in the model's parameters.
        workspace: folder of the run's DVC workspace: `workspace` in DvcReproOperator's result (templated). The features
            and the snapshot are read there, and the evaluation is written there.
        training: result of SpotTrainingOperator (templated). It gives the defaults of `trained_model`, `record`
            and `training_job`; its job, its costs and the DAG run become tags of the version.
        trained_model: folder of the trained model, or s3://BUCKET/KEY/model.tar.gz (templated); by default the one in
            `training`.
        record: folder of the files that the training script wrote about the training, or
            s3://BUCKET/KEY/output.tar.gz (templated); by default the one in `training`. The files become evidence of
            the version.
        model: registered model (templated); if empty, the model is measured and not registered.
        training_job: name of the training job (templated); by default the one in `training`.
        lineage: more tags of the version, name to value; the names get the prefix `leeway.` (templated).

    Returns:
        `EvaluateResult`: evaluation, metrics, model_digest, model_name, version, run_id.
    """

    step = "evaluate"
    fields = ("dataset", "workspace", "training", "trained_model", "record", "model", "training_job", "lineage")

    def __init__(
        self,
        *,
        dataset: str = "",
        workspace: str,
        training: Mapping[str, Any] | None = None,
        trained_model: str | None = None,
        record: str | None = None,
        model: str = "",
        training_job: str | None = None,
        lineage: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset, self.workspace = dataset, workspace
        self.training, self.trained_model, self.record = training, trained_model, record
        self.model, self.training_job, self.lineage = model, training_job, lineage

    def build_spec(self) -> dict[str, Any]:
        """Return the step's spec, with the workspace's files under the names that dvc.yaml gives them."""
        spec = super().build_spec()
        del spec["workspace"]
        if training := spec.pop("training", None):
            spec = {"trained_model": training["model"], "record": training["record"]} | spec
            if training.get("tuning"):
                spec = {"tuning": training["tuning"]} | spec
            if self.model:
                spec = {"training_job": training["training_job"]} | spec
                spec["lineage"] = self._build_lineage_tags(training)
        return spec | {
            "features": f"{self.workspace}/data/features",
            "snapshot": f"{self.workspace}/data/snapshot.json",
            "evaluation": f"{self.workspace}/data/evaluation",
            "lock": f"{self.workspace}/dvc.lock",
        }

    def _build_lineage_tags(self, training: Mapping[str, Any]) -> dict[str, str]:
        """Return the tags of the version: the facts about its training, the DAG run, and `lineage`."""
        facts = {name: str(training[name]) for name in TRAINING_FACTS}
        facts |= {name: str(training[name]) for name in CHOICE_FACTS if training.get(name)}
        return {**facts, "dag_run": self.actor_variables["LEEWAY_RUN"], **(self.lineage or {})}
