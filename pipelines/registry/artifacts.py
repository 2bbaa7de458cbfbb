"""Read and write the files of a registered version: its run's artifacts, and its packaged model.

Functions without a parameter `registry` use the server that `Registry.open` connected to last.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mlflow
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException

from pipelines.container.serving.compiled_features import CompiledFeatures, read_compiled_features
from pipelines.errors import DataError, ServiceError
from pipelines.evaluation.tables import read_importance
from pipelines.registry.mlflow_errors import is_transient, translate_mlflow_errors
from pipelines.registry.package.digest import check_package, compute_package_digest
from pipelines.registry.versions import Registry
from pipelines.system.error_translation import describe_reason

PROVENANCE = "provenance.json"
"""Artifact of a version's run: its data, code and parameters; see `pipelines.registry.lineage.build_provenance`."""
IMPORTANCE = "evaluation/plots/importance.csv"
"""Artifact of a version's run: the share of each feature in the importance of all features."""


def upload_folder(registry: Registry, version: ModelVersion, folder: Path, name: str) -> None:
    """Store the files of `folder` under `name` among the artifacts of the version's run. Idempotent.

    Raises:
        ServiceError: MLflow failed. A retry can help.
    """
    with translate_mlflow_errors():
        registry.client.log_artifacts(version.run_id, str(folder), name)


def download_run(version: ModelVersion, folder: Path) -> Path:
    """Download all artifacts of the version's run; return their folder, below `folder`.

    Raises:
        DataError: the version has no run, because it was registered by hand. A retry cannot help.
        ServiceError: MLflow failed. A retry can help.
    """
    if not version.run_id:
        raise DataError(f"{version.name} version {version.version} has no run.", "Register it with `evaluate`.")
    with translate_mlflow_errors():
        return Path(mlflow.artifacts.download_artifacts(run_id=version.run_id, dst_path=str(folder)))


def download_artifact(registry: Registry, version: ModelVersion, path: str, folder: Path) -> Path | None:
    """Download one artifact of the version's run to `folder`.

    Returns:
        The path of the file. None if the run has no such artifact, or if the version has no run because it was
        registered by hand from files.

    Raises:
        ServiceError: MLflow failed. A retry can help.
    """
    if not version.run_id:
        return None
    with translate_mlflow_errors():
        parent = path.rpartition("/")[0]
        paths = {artifact.path for artifact in registry.client.list_artifacts(version.run_id, parent or None)}
        if path not in paths:
            return None
        return Path(registry.client.download_artifacts(version.run_id, path, str(folder)))


def find_model_folder(package: Path) -> Path:
    """Return the folder of the files that the training wrote, inside a downloaded package.

    Raises:
        StopIteration: the package's folder of artifacts is empty.
        OSError: the package has no folder of artifacts.
    """
    return next(iter((package / "artifacts").iterdir()))


def download_package(version: ModelVersion, folder: Path) -> Path:
    """Download the packaged model that a server loads; check that its files are those that the gate judged.

    Callers must load the returned folder, not MLflow's URI: only the files in the folder have been checked.

    Args:
        version: version whose package is downloaded.
        folder: existing folder in which only this user can write, such as a `tempfile.TemporaryDirectory`.

    Returns:
        The folder of the package, below `folder`.

    Raises:
        DataError: files are missing, or are not those that the gate judged. A retry cannot help.
        ServiceError: MLflow failed. A retry can help.
    """
    package = download_unchecked_package(version, folder)
    check_package(version, package)
    return package


@contextmanager
def open_package(version: ModelVersion) -> Iterator[Path]:
    """Yield the folder of the checked package; remove it when the block ends.

    Raises:
        DataError: files are missing, or are not those that the gate judged. A retry cannot help.
        ServiceError: MLflow failed. A retry can help.
    """
    with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
        yield download_package(version, Path(folder))


def read_package_features(version: ModelVersion, package: Path) -> CompiledFeatures | None:
    """Read the compiled features from a checked package; None if the version was registered without them.

    Raises:
        DataError: the file cannot be read. A retry cannot help.
    """
    try:
        return read_compiled_features(package)
    except ValueError as error:
        raise DataError(f"{version.name} version {version.version}: {error}.") from None


def download_unchecked_package(version: ModelVersion, folder: Path) -> Path:
    """Download the packaged model without checking its files. The caller must check all of them before it loads one.

    Raises:
        DataError: files are missing. A retry cannot help.
        ServiceError: MLflow failed. A retry can help.
    """
    try:
        package = Path(mlflow.artifacts.download_artifacts(get_model_uri(version), dst_path=str(folder)))
        find_model_folder(package)
    except (OSError, StopIteration, MlflowException) as error:
        if is_transient(error):
            raise ServiceError(f"MLflow failed: {error}.") from None
        reason = "its package is empty" if isinstance(error, StopIteration) else describe_reason(error)
        raise DataError(
            f"{version.name} version {version.version} has no model files: {reason}.",
            "If it is the champion, roll back to another version: `python -m pipelines rollback`.",
        ) from None
    return package


def compute_stored_digest(version: ModelVersion) -> str:
    """Compute the digest of the package that the registry stores for the version now.

    Raises:
        DataError: files are missing. A retry cannot help.
        ServiceError: MLflow failed. A retry can help.
    """
    with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
        return compute_package_digest(download_unchecked_package(version, Path(folder)))


def download_importance(registry: Registry, version: ModelVersion) -> dict[str, float]:
    """Return each feature's share of the importance, as `evaluate` stored it; empty if the run has none."""
    with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
        path = download_artifact(registry, version, IMPORTANCE, Path(folder))
        return read_importance(path) if path else {}


def get_model_uri(version: ModelVersion) -> str:
    """Return MLflow's URI of the packaged model."""
    return f"models:/{version.name}/{version.version}"
