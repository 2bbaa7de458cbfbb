"""Package a candidate as an MLflow model that holds what a server needs to score with it, and nothing else."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, DataType, Schema

from pipelines.container.inference import KEY
from pipelines.container.serving.compiled_features import FILE_NAME, CompiledFeatures
from pipelines.dataset import Dataset
from pipelines.registry.candidate import Candidate
from pipelines.score_columns import SCORE

PACKAGES = ("mlflow", "xgboost-cpu", "pandas", "numpy", "pyarrow")
"""Python packages that a served model needs, unless its module `model` names others in `PACKAGES`. The package requires
the versions that are installed in the process that writes it. The training job may have used others."""
RAW_ROW_PACKAGES, LOOKUP_PACKAGES = ("duckdb",), ("boto3",)
"""Packages that a served model needs, too, if it computes features from raw rows, and if it has lookups."""


def log_package(candidate: Candidate) -> str:
    """Log the candidate as a model of MLflow's active run, and return the model's URI."""
    with _prepare_arguments(
        candidate.dataset, candidate.folder, candidate.example, candidate.compiled_features
    ) as arguments:
        info = mlflow.pyfunc.log_model(name=candidate.dataset.name, **arguments)
    return str(info.model_uri)


def save_package(
    dataset: Dataset,
    folder: Path,
    example: pd.DataFrame,
    path: Path,
    compiled_features: CompiledFeatures | None = None,
) -> None:
    """Save the package of a trained model to the folder `path`, without a server.

    Args:
        dataset: dataset of the model.
        folder: folder of the model's files.
        example: a few feature rows.
        path: folder to write; it must not exist.
        compiled_features: how raw rows become features; None: the package can only score rows of features.
    """
    with _prepare_arguments(dataset, folder, example, compiled_features) as arguments:
        mlflow.pyfunc.save_model(path=str(path), **arguments)


@contextmanager
def _prepare_arguments(
    dataset: Dataset, folder: Path, example: pd.DataFrame, compiled_features: CompiledFeatures | None
) -> Iterator[dict[str, Any]]:
    """Yield MLflow's arguments for a package. The files that they name exist until the block ends."""
    with tempfile.TemporaryDirectory(prefix="leeway-") as code, _write_no_bytecode():
        module = dataset.import_module("model")
        yield {
            "python_model": str(dataset.find_file("serving.py")),
            "model_config": {"module": module.__name__},
            "artifacts": {"model": str(folder)},
            "code_paths": _write_code(dataset, Path(code), compiled_features),
            "metadata": {KEY: list(dataset.key)},
            "signature": _build_signature(example, dataset.load_model(folder).score(example)),
            "input_example": example,
            "pip_requirements": _list_requirements(getattr(module, "PACKAGES", PACKAGES), compiled_features),
        }


def _build_signature(example: pd.DataFrame, scores: Any) -> ModelSignature:
    """Return the names and types of the features and of the scores: `score`, or each class or quantile.

    If a column of the example has a missing value, MLflow infers that callers may leave the column out. If a category
    is missing in all rows, it infers that the column may have any type. Both would be wrong: the model needs each
    feature.
    """
    named_scores = scores if isinstance(scores, pd.DataFrame) else pd.Series(scores, name=SCORE)
    inferred_signature = mlflow.models.infer_signature(example, named_scores)
    columns = [
        ColSpec(column.type if isinstance(column.type, DataType) else DataType.string, column.name)
        for column in inferred_signature.inputs.inputs
    ]
    return ModelSignature(Schema(columns), inferred_signature.outputs)


@contextmanager
def _write_no_bytecode() -> Iterator[None]:
    """Write no bytecode for imports in the block, because MLflow imports serving.py and would pack its bytecode."""
    earlier_value = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = earlier_value


def _list_requirements(model_packages: Iterable[str], compiled_features: CompiledFeatures | None) -> list[str]:
    packages = [*model_packages]
    if compiled_features:
        packages += [*RAW_ROW_PACKAGES, *(LOOKUP_PACKAGES if compiled_features.lookups else ())]
    # The local part of a version is left out: a package index has torch 2.13.0, and not 2.13.0+cpu.
    return [f"{package}=={installed_version(package).partition('+')[0]}" for package in packages]


def _write_code(dataset: Dataset, folder: Path, compiled_features: CompiledFeatures | None) -> list[str]:
    """Copy the modules of the dataset's source bundle, and write the compiled features; return the paths for MLflow."""
    for name, path in dataset.locate_bundle().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, folder / name)
    paths = [str(folder / "pipelines")]
    if compiled_features:
        (folder / FILE_NAME).write_text(compiled_features.format(), encoding="utf-8")
        paths.append(str(folder / FILE_NAME))
    return paths
