"""Measures a trained model on the holdout, and registers it as a candidate where it is told a name.

Evidence: metrics.json, the curves as CSV and a PNG, the score of every holdout row, and reference.json for profiles.
Idempotent: the same model on the same holdout is registered once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.dataset import load_dataset
from pipelines.errors import DataError
from pipelines.monitoring.profiles import Policy
from pipelines.system.log import log

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.entities.model_registry import ModelVersion

    from pipelines.dataset import Dataset, TrainedModel
    from pipelines.registry.versions import Registry


class EvaluateSpec(Spec):
    """What to evaluate, on what, and whether to register it."""

    dataset: str = "flights"
    """Dataset of the model."""
    features: Path = Path("data/features")
    """Folder with holdout/, as `preprocess` wrote it."""
    model: str = "data/model"
    """Folder of the model, or s3://BUCKET/KEY/model.tar.gz."""
    record: str = "data/training"
    """Folder of the training's record, or s3://BUCKET/KEY/output.tar.gz."""
    snapshot: Path = Path("data/snapshot.json")
    """The pinned window that the features were built from."""
    evaluation: Path = Path("data/evaluation")
    """Folder to write: metrics.json, predictions.parquet, reference.json, plots/."""
    register_as: str = ""
    """Name of the registered model; empty: do not register."""
    training_job: str = ""
    """Name of the training job; the local training's where it is not given."""
    reference: Policy = Policy()
    """How fine the bins are over which what the model scores is profiled later."""
    lock: Path = Path("dvc.lock")
    """dvc.lock of the run; its digest goes into the lineage where the file exists."""
    lineage: dict[str, str] = Field(default_factory=dict)
    """More tags for the version: the job's ARN, the run of the DAG, its costs; costs are metrics of the run, too."""


class EvaluateResult(Result):
    """An evaluated model."""

    evaluation: Path
    """Folder of the evidence."""
    metrics: dict[str, float]
    """Metrics of the holdout, by name; see `pipelines.evaluation.metrics.metrics`."""
    model_digest: str
    """SHA-256 of the model's files."""
    model_name: str = ""
    """Registered model; empty where it was not registered."""
    version: str = ""
    """Its version."""
    run_id: str = ""
    """Its MLflow run."""


def run(spec: EvaluateSpec) -> EvaluateResult:
    """`spec.evaluation` is whole, and the candidate registered where a name was given.

    Raises:
        DataError: the model, the holdout or the snapshot is not there or not readable.
        ServiceError: S3 or MLflow does not answer. A retry can help.
    """
    from pipelines.evaluation import metrics as evaluation
    from pipelines.system import s3
    from pipelines.system.files import replace_folder, sha256, write_json

    chosen = load_dataset(spec.dataset)
    holdout, train = (_rows(spec.features, split) for split in ("holdout", "train"))
    with s3.open_folder(spec.model, "model") as folder, replace_folder(spec.evaluation) as making:
        model = chosen.load_model(folder)
        score, label = _score(model, holdout), holdout[chosen.label].to_numpy(dtype=float)
        told = evaluation.metrics(label, score, float(train[chosen.label].mean()))
        tables = {
            "pr_curve": evaluation.precision_recall(label, score),
            "calibration": evaluation.calibration(label, score),
            "importance": evaluation.importance(model.importance()),
        }
        write_json(making / "metrics.json", told)
        evaluation.write_tables(making / "plots", tables)
        evaluation.draw(making / "evaluation.png", tables, told, f"{spec.dataset}: {len(holdout)} rows of holdout")
        holdout[[*chosen.key, chosen.label]].assign(score=score).to_parquet(making / "predictions.parquet")
        _keep_reference(spec, chosen, holdout.assign(score=score), making / "reference.json")
        digest = sha256(folder)
    log.info(
        "holdout of %d rows: AUC %.4f, PR-AUC %.4f, Brier %.4f",
        *(told[key] for key in ("rows", "auc", "pr_auc", "brier")),
    )
    result = EvaluateResult(evaluation=spec.evaluation, metrics=told, model_digest=digest)
    return (
        _registered(spec, result, holdout, {"train": len(train), "holdout": len(holdout)})
        if spec.register_as
        else result
    )


def _score(model: TrainedModel, rows: pd.DataFrame) -> Any:
    try:
        return model.score(rows)
    except KeyError as error:
        raise DataError(
            f"the features lack {error}, which the model was trained with.", "Run `preprocess`, `train`."
        ) from None


def _keep_reference(spec: EvaluateSpec, chosen: Dataset, scored: pd.DataFrame, path: Path) -> None:
    """`path` holds the bins for profiles of what the model scores, and the training's and holdout's profiles."""
    from pipelines.lake import PARTITION
    from pipelines.monitoring.profiles.counting import count_days
    from pipelines.monitoring.profiles.record import Record
    from pipelines.monitoring.profiles.reference import fit
    from pipelines.system.duckdb_session import spill_folder

    train = spec.features / "train" / "data.parquet"
    reference = fit(train, chosen.features, chosen.label, spec.reference)
    with spill_folder() as folder:
        scored.to_parquet(folder / "holdout.parquet")
        days = [count_days(reference, one, PARTITION) for one in (train, folder / "holdout.parquet")]
        Record(reference, *days).write(path)


def _rows(features: Path, split: str) -> pd.DataFrame:
    import pandas as pd

    path = features / split / "data.parquet"
    if not path.exists():
        raise DataError(f"{path} is not there.", "The step `preprocess` writes it.")
    return pd.read_parquet(path)


def _local_job(record: Path) -> str:
    """The training job that left a record."""
    from pipelines.container.tracking import JOB
    from pipelines.system.files import read_json

    told = read_json(record / "environment.json", "the training script writes it")
    if JOB not in told:
        raise DataError(f"{record}/environment.json does not name its training job.", "Give `--training-job`.")
    return str(told[JOB])


def _registered(
    spec: EvaluateSpec, result: EvaluateResult, holdout: pd.DataFrame, rows: dict[str, int]
) -> EvaluateResult:
    """The result, with the version that the candidate became."""
    from pipelines import params
    from pipelines.registry import lifecycle, lineage
    from pipelines.registry.versions import Candidate, Registry
    from pipelines.system import s3

    registry, chosen = Registry.open(), load_dataset(spec.dataset)
    with s3.open_folder(spec.model, "model") as folder, s3.open_folder(spec.record, "training") as record:
        evidence = (spec.evaluation, record, spec.snapshot, spec.lock, spec.lock.with_name(params.FILE))
        candidate = Candidate(
            dataset=chosen,
            folder=folder,
            tags=lineage.tags(spec, rows, result.model_digest),
            digest=lineage.candidate_digest(result.model_digest, spec.features, spec.snapshot),
            training_job=spec.training_job or _local_job(record),
            metrics=result.metrics,
            artifacts=tuple(path for path in evidence if path.exists()),
            provenance=lineage.provenance(spec, result.model_digest),
            example=holdout[list(chosen.features)].head(3),
        )
        version = registry.register(candidate, spec.register_as)
        lifecycle.registered(version.name, str(version.version))
    _tell_costs(registry, version, spec.lineage)
    log.info("registered as %s version %s", version.name, version.version)
    named = {"model_name": version.name, "version": str(version.version), "run_id": version.run_id or ""}
    return result.model_copy(update=named)


def _tell_costs(registry: Registry, version: ModelVersion, told: dict[str, str]) -> None:
    """The version's run has the costs as metrics and tags. Idempotent: said again at one moment, a metric is one."""
    from mlflow.entities import Metric, RunTag

    from pipelines.registry import lineage
    from pipelines.registry.mlflow_errors import outages

    at = version.creation_timestamp
    metrics = [Metric(name, value, at, 0) for name, value in lineage.cost_metrics(told).items()]
    tags = [RunTag(name, value) for name, value in lineage.cost_tags(told).items()]
    if metrics or tags:
        with outages():
            registry.client.log_batch(version.run_id, metrics, tags=tags)
