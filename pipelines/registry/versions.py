"""The model registry: MLflow runs, versions and aliases, and the tags that tell where a version came from."""

from __future__ import annotations

import datetime as dt
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

# A server that is down should be said to be down within seconds; MLflow's defaults try for minutes.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
# Else it packs the uv.lock of the whole project, 700 KB, into every model.
os.environ.setdefault("MLFLOW_UV_AUTO_DETECT", "false")

import mlflow
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException

from pipelines.container.tracking import JOB_TAG, is_reachable, silence_mlflow_warnings
from pipelines.dataset import Dataset
from pipelines.errors import DataError, InvalidError, ServiceError
from pipelines.registry import packaging
from pipelines.registry.mlflow_errors import may_pass, outages, put
from pipelines.settings import settings
from pipelines.system.files import sha256

silence_mlflow_warnings()

CHAMPION, CHALLENGER = "champion", "challenger"
PROVENANCE = "provenance.json"
"""Artifact of a version's run."""
PROMOTED_TAG, WOULD_TAG = "leeway.promoted_over", "leeway.would_promote_over"
"""Tags of a version that was made the champion, and of one that a backfill did not make it: over which, or "none"."""
CANDIDATE_TAG = "leeway.candidate"
"""Tag of a version: digest of what it was made of. One candidate is one version, however often it is registered."""


@dataclass(frozen=True)
class Candidate:
    """A trained and evaluated model, before it is a version."""

    dataset: Dataset
    folder: Path
    """The model's files."""
    digest: str
    """What it was made of."""
    training_job: str
    tags: Mapping[str, str]
    """Lineage."""
    metrics: Mapping[str, float]
    """Of the holdout."""
    artifacts: tuple[Path, ...]
    """Files and folders that are evidence: evaluation, dvc.lock, params.yaml."""
    provenance: Mapping[str, Any]
    """What it was made of, for `reproduce`; see `pipelines.registry.lineage`."""
    example: pd.DataFrame
    """A few feature rows."""


class Registry:
    """An MLflow server that answers."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.client = MlflowClient(uri, uri)

    @classmethod
    def open(cls) -> Self:
        """The configured registry.

        Raises:
            InvalidError: MLFLOW_TRACKING_URI is not set.
            ServiceError: it does not answer. A retry can help.
        """
        uri = settings().mlflow_tracking_uri
        if not uri:
            raise InvalidError("there is no registry: MLFLOW_TRACKING_URI is not set.", "`make up` prints an address.")
        if uri.startswith("http") and not is_reachable(uri):
            raise ServiceError(f"MLflow at {uri} does not answer.", "Is MLFLOW_TRACKING_URI right, and the server up?")
        mlflow.set_tracking_uri(uri)
        return cls(uri)

    def register(self, candidate: Candidate, name: str) -> ModelVersion:
        """The candidate is a version of model `name`, its run complete. Idempotent: by the candidate's digest.

        Raises:
            ServiceError: MLflow failed. A retry can help.
        """
        with outages():
            is_it = f"name = '{name}' and tags.`{CANDIDATE_TAG}` = '{candidate.digest}'"
            same = self.client.search_model_versions(is_it)
            if same:
                return same[0]
            run_id = self._run_of(candidate)
            with mlflow.start_run(run_id=run_id):
                mlflow.log_metrics({f"holdout_{key}": value for key, value in candidate.metrics.items()})
                for path in candidate.artifacts:
                    mlflow.log_artifacts(str(path), path.name) if path.is_dir() else mlflow.log_artifact(str(path))
                mlflow.log_dict(dict(candidate.provenance), PROVENANCE)
                model_uri = packaging.logged(candidate)
            tags = {**candidate.tags, CANDIDATE_TAG: candidate.digest, JOB_TAG: candidate.training_job}
            return mlflow.register_model(model_uri, name, tags=tags)

    def version(self, name: str, number: str) -> ModelVersion:
        """A version, with its tags and aliases.

        Raises:
            DataError: there is none.
        """
        with outages():
            try:
                return self.client.get_model_version(name, number)
            except MlflowException as error:
                if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                    raise DataError(f"the registry has no {name} version {number}.") from None
                raise

    def named(self, name: str, which: str) -> ModelVersion:
        """The version by its number or by an alias.

        Raises:
            DataError: there is none.
        """
        if which.isdecimal():
            return self.version(name, which)
        found = self._aliased(name, which)
        if found is None:
            raise DataError(f"the registry has no {name}@{which}.", "Give a version's number, or an alias.")
        return found

    def champion(self, name: str) -> ModelVersion | None:
        """The version that alias `champion` names; None where there is none."""
        return self._aliased(name, CHAMPION)

    def _aliased(self, name: str, alias: str) -> ModelVersion | None:
        with outages():
            try:
                return self.client.get_model_version_by_alias(name, alias)
            except MlflowException as error:
                if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                    return None
                raise

    def champion_before(self, name: str, moment: dt.date) -> ModelVersion | None:
        """The champion that a training as of `moment` met; None where there was none.

        Of the versions that are or were champion, or would have been if their backfill promoted, the one with the
        latest as_of before `moment`; the newer version of two.
        """
        now = self.champion(name)
        crowned = [
            one
            for one in self.versions(name)
            if {PROMOTED_TAG, WOULD_TAG} & set(one.tags) or (now is not None and str(one.version) == str(now.version))
        ]
        earlier = [one for one in crowned if as_of(one) < moment]
        return max(earlier, key=lambda one: (as_of(one), int(one.version)), default=None)

    def versions(self, name: str) -> list[ModelVersion]:
        """Every version with its tags, oldest first; their aliases are not told."""
        return self._search(f"name = '{name}'")

    def seen_with(self, tag: str, value: str) -> list[ModelVersion]:
        """As `versions`, of all models: those whose tag is of that value."""
        return self._search(f"tags.`{tag}` = '{value}'")

    def _search(self, what: str) -> list[ModelVersion]:
        with outages():
            page, found = None, []
            while page is None or page.token:
                page = self.client.search_model_versions(what, page_token=page.token if page else None)
                found += page
        return sorted(found, key=lambda one: (one.name, int(one.version)))

    def tag(self, name: str, number: str, tags: Mapping[str, str]) -> None:
        """The version has these tags, besides those it had."""
        for key, value in tags.items():
            put(self.client.set_model_version_tag, name, number, key, value)

    def keep(self, version: ModelVersion, folder: Path, name: str) -> None:
        """The files of `folder` are among the artifacts of the version's run, under `name`."""
        with outages():
            self.client.log_artifacts(version.run_id, str(folder), name)

    def record(self, version: ModelVersion, folder: Path) -> Path:
        """Below `folder`, the artifacts of a version's run: its evidence."""
        with outages():
            return Path(mlflow.artifacts.download_artifacts(run_id=version.run_id, dst_path=str(folder)))

    def artifact(self, version: ModelVersion, path: str, folder: Path) -> Path | None:
        """Below `folder`, one file of that evidence; None where its run has none of that name, or it has no run."""
        if not version.run_id:  # registered by hand, from files
            return None
        with outages():
            parent = path.rpartition("/")[0]
            there = {one.path for one in self.client.list_artifacts(version.run_id, parent or None)}
            if path not in there:
                return None
            return Path(self.client.download_artifacts(version.run_id, path, str(folder)))

    def package(self, version: ModelVersion, folder: Path) -> Path:
        """Below `folder`, the files that a server gets."""
        with outages():
            return Path(mlflow.artifacts.download_artifacts(_uri(version), dst_path=str(folder)))

    def model(self, version: ModelVersion, folder: Path) -> Path:
        """Below `folder`, the files that the training made."""
        return next(iter((self.package(version, folder) / "artifacts").iterdir()))

    def digest(self, version: ModelVersion) -> str:
        """SHA-256 of the files that the training made, as the registry has them now.

        Raises:
            DataError: they are gone.
        """
        with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
            try:
                return sha256(self.model(version, Path(folder)))
            except (OSError, StopIteration, MlflowException) as error:
                if may_pass(error):
                    raise ServiceError(f"MLflow failed: {error}.") from None
                raise DataError(f"{version.name} version {version.version} has no model files: {error}.") from None

    def score(self, version: ModelVersion, rows: pd.DataFrame) -> Any:
        """What the packaged model of a version says of feature rows (shape: rows)."""
        return self.scorer(version)(rows)

    def scorer(self, version: ModelVersion) -> Callable[[pd.DataFrame], Any]:
        """The same as a function: the model is fetched once.

        Raises:
            DataError: it cannot be loaded: files are gone or broken. A retry cannot help.
        """
        try:
            model = mlflow.pyfunc.load_model(_uri(version))
            wanted = [column.name for column in model.metadata.get_input_schema().inputs]
        except Exception as error:  # what a broken package raises is its own
            if may_pass(error):
                raise ServiceError(f"MLflow failed: {error}.") from None
            what = f"{version.name} version {version.version} cannot be loaded: {error}."
            raise DataError(what, "Where it is champion: `python -m pipelines rollback` to one that can.") from None

        def score(rows: pd.DataFrame) -> Any:
            with outages():
                return model.predict(rows[wanted])

        return score

    def metrics(self, version: ModelVersion) -> dict[str, float]:
        """The metrics of the run that a version came from."""
        with outages():
            return dict(self.client.get_run(version.run_id).data.metrics)

    def importance(self, version: ModelVersion) -> dict[str, float]:
        """Feature (`NA` is a name) to its share of the importance, as `evaluate` kept it; empty where it kept none."""
        with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
            path = self.artifact(version, "evaluation/plots/importance.csv", Path(folder))
            told = pd.read_csv(path, dtype={"feature": str}, keep_default_na=False) if path else pd.DataFrame()
            return dict(told.itertuples(index=False))

    def params(self, version: ModelVersion) -> dict[str, str]:
        """The training's parameters of a version."""
        with outages():
            return dict(self.client.get_run(version.run_id).data.params) if version.run_id else {}

    def _run_of(self, candidate: Candidate) -> str:
        """The run that the training job made, or one made now where it could not reach the server."""
        name = candidate.dataset.name
        found = self.client.get_experiment_by_name(name)
        experiment = found.experiment_id if found else self.client.create_experiment(name)
        filter_ = f"tags.`{JOB_TAG}` = '{candidate.training_job}'"
        runs = self.client.search_runs([experiment], filter_, max_results=1)
        if runs:
            return str(runs[0].info.run_id)
        tags = {JOB_TAG: candidate.training_job}
        return str(self.client.create_run(experiment, run_name=candidate.training_job, tags=tags).info.run_id)


def _uri(version: ModelVersion) -> str:
    return f"models:/{version.name}/{version.version}"


def as_of(version: ModelVersion) -> dt.date:
    """The moment as of which a version was trained.

    Raises:
        DataError: it carries no such tag, so it was not registered by `evaluate`.
    """
    told = version.tags.get("leeway.as_of")
    if not told:
        raise DataError(f"{version.name} version {version.version} has no tag leeway.as_of.", "Register by `evaluate`.")
    return dt.date.fromisoformat(told)
