"""Register a candidate as a version of a model, and log its evidence and costs to the run of its training."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import mlflow
from mlflow.entities import Metric, RunTag
from mlflow.entities.model_registry import ModelVersion

from pipelines.errors import ConflictError
from pipelines.registry.artifacts import PROVENANCE, find_model_folder
from pipelines.registry.candidate import Candidate
from pipelines.registry.mlflow_errors import translate_mlflow_errors
from pipelines.registry.package.digest import PACKAGE_TAG, compute_package_digest
from pipelines.registry.package.packaging import log_package
from pipelines.registry.versions import Registry
from pipelines.system.files import read_json, sha256
from pipelines.system.mlflow_server import JOB_TAG

CANDIDATE_TAG = "leeway.candidate"
"""Tag of a version that holds its `Candidate.digest`. It prevents a second version of the same candidate."""
MAX_PARAM_LENGTH = 6_000
"""MLflow's limit for the value of a parameter, characters."""
FORBIDDEN_CHARACTERS = re.compile(r"[^\w\-. :/]")
"""Characters that MLflow does not allow in the name of a metric. The name of a metric of one class contains the name of
the class, which may have such characters."""


def register_candidate(registry: Registry, candidate: Candidate, name: str) -> ModelVersion:
    """Register the candidate as a version of model `name`, and log its evidence and package to the training job's run.

    Idempotent: if the candidate is registered already, return its version. Its digest identifies it.

    Raises:
        ConflictError: the model's files changed since they were evaluated. A retry evaluates them again.
        ServiceError: MLflow failed. A retry can help.
    """
    with translate_mlflow_errors():
        query = f"name = '{name}' and tags.`{CANDIDATE_TAG}` = '{candidate.digest}'"
        existing_versions: list[ModelVersion] = registry.client.search_model_versions(query)
        if existing_versions:
            return existing_versions[0]
        with mlflow.start_run(run_id=_find_or_create_run(registry, candidate)) as run:
            mlflow.log_params(_find_missing_params(candidate.artifacts, run.data.params))
            mlflow.log_metrics({_build_metric_name(metric): value for metric, value in candidate.metrics.items()})
            _log_artifacts(candidate.artifacts)
            mlflow.log_dict(dict(candidate.provenance), PROVENANCE)
            uri = log_package(candidate)
        tags = {**candidate.tags, CANDIDATE_TAG: candidate.digest, JOB_TAG: candidate.training_job}
        tags[PACKAGE_TAG] = _compute_logged_digest(candidate, uri)
        return mlflow.register_model(uri, name, tags=tags)


def log_costs(registry: Registry, version: ModelVersion, metrics: dict[str, float], tags: dict[str, str]) -> None:
    """Log the costs of the training to the version's run.

    Idempotent: the timestamp of all metrics is the time of the registration, and MLflow stores one value for each
    metric and timestamp.

    Raises:
        ServiceError: MLflow failed. A retry can help.
    """
    timestamp_ms = version.creation_timestamp
    run_metrics = [Metric(name, value, timestamp_ms, step=0) for name, value in metrics.items()]
    run_tags = [RunTag(name, value) for name, value in tags.items()]
    if run_metrics or run_tags:
        with translate_mlflow_errors():
            registry.client.log_batch(version.run_id, run_metrics, tags=run_tags)


def _compute_logged_digest(candidate: Candidate, uri: str) -> str:
    """Compute the digest of the logged package. Check that the package has the files that were evaluated."""
    with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
        package = Path(mlflow.artifacts.download_artifacts(uri, dst_path=folder))
        digest = compute_package_digest(package)
        if sha256(find_model_folder(package)) != candidate.model_digest:
            raise ConflictError(f"the model files of {candidate.training_job} changed during the registration.")
    return digest


def _log_artifacts(artifacts: Mapping[str, Path]) -> None:
    """Log files and folders to the active run, each under its key in `artifacts`."""
    with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
        for name, path in artifacts.items():
            if path.is_dir():
                mlflow.log_artifacts(str(path), name)
            else:
                mlflow.log_artifact(str(shutil.copyfile(path, Path(folder) / name)))


def _find_missing_params(artifacts: Mapping[str, Path], logged_params: Mapping[str, str]) -> dict[str, str]:
    """Return the hyperparameters in the training's record that its job did not log, because MLflow did not answer."""
    path = artifacts.get("training", Path()) / "params.json"
    params = read_json(path, "the training script writes it") if path.is_file() else {}
    return {
        name: str(value)[:MAX_PARAM_LENGTH]
        for name, value in (params.items() if isinstance(params, dict) else ())
        if name not in logged_params
    }


def _find_or_create_run(registry: Registry, candidate: Candidate) -> str:
    """Return the id of the run that the training job logged to; create a run if the job could not reach the server."""
    client, name, tags = registry.client, candidate.dataset.name, {JOB_TAG: candidate.training_job}
    experiment = client.get_experiment_by_name(name)
    experiment_id = experiment.experiment_id if experiment else client.create_experiment(name)
    query = f"tags.`{JOB_TAG}` = '{candidate.training_job}'"
    runs = client.search_runs([experiment_id], query, max_results=1)
    if runs:
        return str(runs[0].info.run_id)
    return str(client.create_run(experiment_id, run_name=candidate.training_job, tags=tags).info.run_id)


def _build_metric_name(metric: str) -> str:
    """Return the name of a metric of the holdout in MLflow, with an underscore for each forbidden character."""
    return f"holdout_{FORBIDDEN_CHARACTERS.sub('_', metric)}"
