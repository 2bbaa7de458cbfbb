"""Score rows with the packaged model of a registered version, as a server would."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
from mlflow.entities.model_registry import ModelVersion
from mlflow.types import DataType

from pipelines.container.serving.table_scorer import TableScorer
from pipelines.errors import DataError, ServiceError
from pipelines.registry.artifacts import download_package
from pipelines.registry.mlflow_errors import is_transient, translate_mlflow_errors
from pipelines.registry.package.library_versions import list_version_differences
from pipelines.system.error_translation import describe_reason
from pipelines.system.log import log

Scorer = Callable[[pd.DataFrame], Any]
"""Takes rows of features; returns their scores, shape (rows,), or a frame with a column for each class or quantile."""


def load_scorer(version: ModelVersion, package: Path | None = None) -> Scorer:
    """Load the packaged model of a version; return the function that scores rows with it.

    Args:
        version: version to load.
        package: folder of the package, if it is downloaded and checked already. If None, it is downloaded and checked
            first.

    Raises:
        DataError: the model cannot be loaded, because files are missing, damaged, or not those that the gate judged. A
            retry cannot help.
        ServiceError: MLflow failed. A retry can help.
    """
    model, columns, folder = _load_model(version, package)

    def score(rows: pd.DataFrame) -> Any:
        with translate_mlflow_errors():
            return model.predict(rows if list(rows.columns) == columns else rows[columns])

    # Keep the folder as long as the function: a model may import a module of its package when it scores.
    weakref.finalize(score, folder.cleanup)
    return score


def load_table_scorer(version: ModelVersion, package: Path) -> TableScorer:
    """Load the packaged model of a version; return the function that scores tables of features.

    For a few rows, this function is faster than the one that `load_scorer` returns.

    Args and errors: see `load_scorer`. The package must exist as long as the function is used.
    """
    model, columns, _ = _load_model(version, package)
    return TableScorer(model, columns)


def _load_model(version: ModelVersion, package: Path | None) -> tuple[Any, list[str], Any]:
    """Return the model, its features' names in the order of its signature, and the temporary folder of a download.

    The caller must keep the folder as long as it uses a downloaded model.
    """
    folder = tempfile.TemporaryDirectory(prefix="leeway-")
    package = package or download_package(version, Path(folder.name))
    try:
        model = mlflow.pyfunc.load_model(str(package), suppress_warnings=True)
        _warn_of_versions(version, package, model.metadata.flavors["python_function"].get("python_version"))
        inputs = model.metadata.get_input_schema().inputs
        columns = [column.name for column in inputs]
    except Exception as error:  # a broken package can raise anything
        if is_transient(error):
            raise ServiceError(f"MLflow failed: {describe_reason(error)}.") from None
        raise DataError(
            f"{version.name} version {version.version} cannot be loaded: {describe_reason(error)}.",
            "If it is the champion, roll back to another version: `python -m pipelines rollback`.",
        ) from None

    # Features are numbers of 64 bits, and texts. For a signature with only these types, MLflow's check of the types
    # changes nothing, and takes 1 ms a call.
    if all(column.type in (DataType.double, DataType.string) for column in inputs):
        model.metadata.signature = None
    return model, columns, folder


def _warn_of_versions(version: ModelVersion, package: Path, required_python: str | None) -> None:
    if differences := list_version_differences(package, required_python):
        listing = ", ".join(differences)
        log.warning("%s version %s requires other packages: %s", version.name, version.version, listing)
