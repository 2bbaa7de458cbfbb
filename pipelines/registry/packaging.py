"""Package a candidate as an MLflow model that holds what a server needs to score with it, and nothing else."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd

from pipelines.dataset import Dataset
from pipelines.registry.candidate import Candidate

PACKAGES = ("mlflow", "xgboost-cpu", "pandas", "numpy", "pyarrow")
"""What a served model needs, pinned to the versions that trained it, so that MLflow does not have to guess."""


def log_package(candidate: Candidate) -> str:
    """Log the candidate as a model of MLflow's active run; return the model's address."""
    scores: Any = pd.Series([0.5], name="score")
    if candidate.dataset.task == "multiclass":  # the signature then names the classes
        scores = candidate.dataset.load_model(candidate.folder).score(candidate.example)
    with tempfile.TemporaryDirectory(prefix="leeway-") as folder, _write_no_bytecode():
        info = mlflow.pyfunc.log_model(
            name=candidate.dataset.name,
            python_model=str(candidate.dataset.find_file("serving.py")),
            model_config={"module": candidate.dataset.import_module("model").__name__},
            artifacts={"model": str(candidate.folder)},
            code_paths=[str(_copy_code(candidate.dataset, Path(folder)))],
            signature=mlflow.models.infer_signature(candidate.example, scores),
            input_example=candidate.example,
            pip_requirements=[f"{package}=={installed_version(package)}" for package in PACKAGES],
        )
    return str(info.model_uri)


@contextmanager
def _write_no_bytecode() -> Iterator[None]:
    """Let imports write no bytecode while the block runs. MLflow imports serving.py from the folder that it logs."""
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def _copy_code(dataset: Dataset, folder: Path) -> Path:
    """Copy the modules that the dataset's bundle lists; return their package `pipelines`, below `folder`."""
    for name, path in dataset.locate_bundle().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, folder / name)
    return folder / "pipelines"
