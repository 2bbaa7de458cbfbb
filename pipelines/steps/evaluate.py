"""Measure a trained model on the holdout, and register it as a candidate if a name is given.

The step writes the evidence: metrics.json, the curves as CSV and as a PNG, the score of every row of the holdout, and
reference.json for profiles. Idempotent: the same model on the same holdout is registered once.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from pipelines.code_files import PARAMS_FILE, find_project, get_model_file
from pipelines.contract import Result, Spec
from pipelines.errors import DataError, InvalidError
from pipelines.monitoring.profiles import BinPolicy
from pipelines.system.log import log
from pipelines.tuning.record import TuningRecord

if TYPE_CHECKING:
    import pandas as pd

    from pipelines.container.serving.compiled_features import CompiledFeatures
    from pipelines.dataset import Dataset, TrainedModel
    from pipelines.evaluation.metrics import Array


SHOWN_METRICS = {
    "binary": ("auc", "pr_auc", "brier"),
    "multiclass": ("log_loss", "macro_auc", "accuracy", "macro_f1"),
    "regression": ("rmse", "mae", "r2", "bias"),
}
"""Maps each task to the metrics that are in the step's log line. The Result has all metrics."""


def _require_model_name(name: str) -> str:
    if set("/:") & set(name):
        raise ValueError("it is not the name of a registered model; give the address of a model as trained_model")
    return name


class EvaluateSpec(Spec):
    """The model to evaluate, the rows for it, and whether to register it."""

    prerequisites: ClassVar[Mapping[str, str]] = {"training_job": "model", "lineage": "model"}

    dataset: str = ""
    """Dataset of the model; empty: the one that the features were built from."""
    features: Path = Path("data/features")
    """Folder with holdout/, as `preprocess` wrote it."""
    trained_model: str = "data/model"
    """Folder of the trained model, or s3://BUCKET/KEY/model.tar.gz."""
    record: str = "data/training"
    """Folder of the files that the training script wrote about the training, or s3://BUCKET/KEY/output.tar.gz."""
    snapshot: Path = Path("data/snapshot.json")
    """The pinned window that the features were built from."""
    evaluation: Path = Path("data/evaluation")
    """Folder to write: metrics.json, predictions.parquet, reference.json, tuning.json, plots/."""
    model: Annotated[str, AfterValidator(_require_model_name)] = ""
    """Registered model that gets a version; empty: the model is measured, and not registered."""
    training_job: str = ""
    """Name of the training job; empty: the name in the record."""
    tuning: TuningRecord | None = None
    """The search that found the hyperparameters; null: the one that the record or section `train` names, if any."""
    reference: BinPolicy = BinPolicy()
    """How to choose the bins for profiles of the rows that the model will score."""
    lock: Path = Path("dvc.lock")
    """dvc.lock of the run; for a model in PROJECT/models/NAME, that of the project. If the file exists, its digest is
    part of the version's lineage."""
    lineage: dict[str, str] = Field(default_factory=dict)
    """More tags for the version: the job's ARN, the DAG run, the costs. Costs also become metrics of the run."""


class EvaluateResult(Result):
    """An evaluated model, and the version that it was registered as."""

    evaluation: Path
    """Folder of the evidence."""
    metrics: dict[str, float]
    """Metrics of the holdout, by name; see `compute_metrics` in `pipelines.evaluation.metrics`, for a regression
    `compute_regression_metrics` in `pipelines.evaluation.regression`, and for a multiclass model
    `compute_multiclass_metrics` in `pipelines.evaluation.multiclass`. The dataset's metrics.py may add others."""
    model_digest: str
    """SHA-256 of the model's files."""
    model_name: str = ""
    """Registered model; empty if it was not registered."""
    version: str = ""
    """Version of the registered model."""
    run_id: str = ""
    """Id of the version's MLflow run."""


def run(spec: EvaluateSpec) -> EvaluateResult:
    """Write all evidence to `spec.evaluation`, and register the candidate if a name is given. Idempotent.

    Raises:
        SpecError: the features were built from another dataset. A retry cannot help.
        DataError: the model, the holdout or the snapshot does not exist, or cannot be read. A retry cannot help.
        ServiceError: S3 or MLflow does not answer. A retry can help.
    """
    from pipelines.classes import tabulate_scores
    from pipelines.feature_files import load_dataset_of_features
    from pipelines.score_columns import SCORE
    from pipelines.scored_rows import append_scores
    from pipelines.system import s3
    from pipelines.system.files import replace_folder, sha256
    from pipelines.tuning.refit import write_refit

    dataset = load_dataset_of_features(spec.features, spec.dataset)
    holdout, train = (_read_rows(spec.features, split, dataset) for split in ("holdout", "train"))
    with s3.open_folder(spec.trained_model, "model") as folder, replace_folder(spec.evaluation) as output:
        digest = sha256(folder)
        model = dataset.load_model(folder)
        scores = _score(model, holdout)
        score_columns = tabulate_scores(scores).set_index(holdout.index)
        if dataset.task == "regression":
            score_columns[SCORE] = _select_point_scores(scores)
        metrics = _write_metrics(dataset, model, holdout.join(score_columns), train[dataset.label], output)
        predictions = holdout[[*dataset.key, dataset.label]].join(score_columns)
        predictions.to_parquet(output / "predictions.parquet")
        _write_reference(spec, dataset, model, append_scores(dataset, holdout, scores), output / "reference.json")
        write_refit(output, spec.record, _load_train_section(spec), metrics)
    shown_metrics = ", ".join(f"{name} {metrics[name]:.4f}" for name in SHOWN_METRICS[dataset.task])
    log.info("holdout of %d rows: %s", metrics["rows"], shown_metrics)
    result = EvaluateResult(evaluation=spec.evaluation, metrics=metrics, model_digest=digest)
    return _register_candidate(spec, dataset, result, holdout, len(train)) if spec.model else result


def _read_rows(features: Path, split: str, dataset: Dataset) -> pd.DataFrame:
    from pipelines.system.data_files import read_parquet

    return read_parquet(features / split / "data.parquet", "preprocess", (*dataset.key, dataset.label))


def _score(model: TrainedModel, rows: pd.DataFrame) -> Any:
    try:
        return model.score(rows)
    except KeyError as error:
        raise DataError(
            f"the features lack {error}, which the model was trained with.", "Run `preprocess`, then `train`."
        ) from None


def _select_point_scores(scores: Any) -> Array:
    """Return the score of each row of a regression. If the model predicts quantiles, the score is the median."""
    from pipelines.classes import split_quantiles

    try:
        return split_quantiles(scores)[0]
    except ValueError as error:
        raise DataError(f"{error}.", "Correct `score` of the model.") from None


def _write_metrics(
    dataset: Dataset, model: TrainedModel, scored_rows: pd.DataFrame, train_labels: pd.Series[Any], output: Path
) -> dict[str, float]:
    """Compute the metrics; write them to `output`, with the tables and the figure of the evaluation."""
    from pipelines.classes import list_classes, read_scores
    from pipelines.evaluation.gates.inputs import compute_mean_label, read_labels
    from pipelines.evaluation.measurement import Sample, measure
    from pipelines.evaluation.metrics import tabulate_importance
    from pipelines.evaluation.own_metrics import load_own_metrics
    from pipelines.evaluation.statistics.weighted import compute_metric
    from pipelines.evaluation.tables import write_tables
    from pipelines.system.files import write_json

    classes = list_classes(train_labels) if dataset.task == "multiclass" else []
    label, score = read_labels(scored_rows[dataset.label], classes), read_scores(scored_rows, classes)
    train_mean = compute_mean_label(train_labels, classes)
    measurement = measure(dataset.task, Sample(label, score, train_mean, scored_rows, classes))
    metrics, tables = measurement.metrics, measurement.tables
    metrics |= {name: compute_metric(label, score, metric) for name, metric in load_own_metrics(dataset).items()}
    tables["importance"] = tabulate_importance(model.importance())
    write_json(output / "metrics.json", metrics)
    write_tables(output / "plots", tables)
    measurement.draw(output / "evaluation.png", tables, metrics, f"{dataset.name}: {len(scored_rows)} rows of holdout")
    return metrics


def _write_reference(
    spec: EvaluateSpec, dataset: Dataset, model: TrainedModel, scored_rows: pd.DataFrame, path: Path
) -> None:
    """Write the bins for profiles of the rows that the model will score, and profiles of the train and holdout rows.

    Profiles of a multiclass model also count the predicted classes. In place of the label, these profiles have whether
    the prediction is right. For every model, the scores of the training rows are left out, because the model has seen
    these rows.
    """
    from pipelines.lake import DATE_COLUMN
    from pipelines.monitoring.profiles.class_scores import fit_classes
    from pipelines.monitoring.profiles.counting import count_days
    from pipelines.monitoring.profiles.losses import fit_losses
    from pipelines.monitoring.profiles.record import ReferenceRecord
    from pipelines.monitoring.profiles.reference import fit_reference
    from pipelines.score_columns import IS_RIGHT, PREDICTED, SCORE, SCORES
    from pipelines.scored_rows import append_scores
    from pipelines.system.temporary_folders import make_temporary_folder

    train = spec.features / "train" / "data.parquet"
    with make_temporary_folder() as folder:
        if dataset.task == "multiclass":
            rows = _read_rows(spec.features, "train", dataset)
            rows = append_scores(dataset, rows, _score(model, rows)).drop(columns=[SCORE, SCORES, IS_RIGHT])
            train = folder / "train.parquet"
            rows.to_parquet(train)
            column_kinds = {**dataset.features, PREDICTED: "category"}
            reference = fit_reference(train, column_kinds, IS_RIGHT, spec.reference)
        else:
            reference = fit_reference(train, dataset.features, dataset.label, spec.reference, dataset.task)
        holdout = folder / "holdout.parquet"
        scored_rows.to_parquet(holdout)
        if dataset.task == "multiclass":
            reference = reference.model_copy(update={"classes": fit_classes(holdout, dataset.label)})
        elif dataset.task == "regression":
            reference = reference.model_copy(update={"losses": fit_losses(reference, holdout)})
        profiles = [count_days(reference, file, DATE_COLUMN) for file in (train, holdout)]
        ReferenceRecord(reference, *profiles).write(path)


def _load_train_section(spec: EvaluateSpec) -> Mapping[str, Any]:
    """Return section `train` of the model's parameters, with the tuning of the spec.

    If no version is registered, as in `dvc repro`, params.yaml is not read, so that the stage does not depend on it.
    """
    from pipelines import params

    section = params.load(find_project(spec.lock.parent), spec.model).get("train", {}) if spec.model else {}
    return {**section, "tuning": spec.tuning.model_dump()} if spec.tuning else section


def _register_candidate(
    spec: EvaluateSpec, dataset: Dataset, result: EvaluateResult, holdout: pd.DataFrame, train_row_count: int
) -> EvaluateResult:
    """Register the candidate; return the result with its version."""
    from pipelines.registry import lifecycle, lineage
    from pipelines.registry.candidate import Candidate, compute_candidate_digest, read_job_name
    from pipelines.registry.registration import log_costs, register_candidate
    from pipelines.registry.versions import Registry
    from pipelines.system import s3

    registry = Registry.open()
    project_files = _locate_project_files(spec)
    origin = lineage.Origin(spec.features, spec.snapshot, project_files["dvc.lock"], result.model_digest)
    with s3.open_folder(spec.trained_model, "model") as folder, s3.open_folder(spec.record, "training") as record:
        # The gate, `reproduce` and profiles look for these names. The files may have other names in the spec.
        evidence = {"evaluation": spec.evaluation, "training": record, "snapshot.json": spec.snapshot}
        rows = {"train": train_row_count, "holdout": len(holdout)}
        evidence |= project_files
        candidate = Candidate(
            dataset=dataset,
            folder=folder,
            model_digest=result.model_digest,
            tags=lineage.build_tags(origin, rows, {"task": dataset.task, **spec.lineage}),
            digest=compute_candidate_digest(result.model_digest, spec.features, spec.snapshot),
            training_job=spec.training_job or read_job_name(record),
            metrics=result.metrics,
            artifacts={name: path for name, path in evidence.items() if path.exists()},
            provenance=lineage.build_provenance(origin),
            example=holdout[list(dataset.features)].head(3),
            compiled_features=_compile_features(dataset),
        )
        version = register_candidate(registry, candidate, spec.model)
        lifecycle.record_registration(version.name, str(version.version), lineage.select_origin(version.tags))
    metrics, tags = lineage.build_cost_metrics(spec.lineage), lineage.build_cost_tags(spec.lineage)
    log_costs(registry, version, metrics, tags)
    log.info("registered as %s version %s", version.name, version.version)
    fields = {"model_name": version.name, "version": str(version.version), "run_id": version.run_id or ""}
    return result.model_copy(update=fields)


def _compile_features(dataset: Dataset) -> CompiledFeatures | None:
    """Compile how raw rows become features; if that is impossible, log why, and return None."""
    from pipelines.lake import Lake
    from pipelines.serving.compilation import compile_features

    try:
        row_schema = Lake.open().read_schema(dataset.table)
        return compile_features(dataset, row_schema, has_lookups=bool(dataset.lookups))
    except InvalidError as error:
        log.warning("servers and endpoints of this version cannot compute features from raw rows: %s", error)
        return None


def _locate_project_files(spec: EvaluateSpec) -> dict[str, Path]:
    """Return dvc.lock and the file of the model's parameters; in a project without models, its params.yaml."""
    project = find_project(spec.lock.parent)
    parameters = project / get_model_file(spec.model)
    return {
        "dvc.lock": project / spec.lock.name,
        PARAMS_FILE: parameters if parameters.exists() else project / PARAMS_FILE,
    }
