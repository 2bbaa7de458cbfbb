"""Package a candidate as an MLflow model that holds what a server needs to score with it, and nothing else."""

from __future__ import annotations

import shutil
import tempfile
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
    if candidate.dataset.task != "binary":  # a frame's signature names the classes or quantiles
        example_scores = candidate.dataset.load_model(candidate.folder).score(candidate.example)
        scores = example_scores if isinstance(example_scores, pd.DataFrame) else scores
    with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
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


def _copy_code(dataset: Dataset, folder: Path) -> Path:
    """Copy the modules that the dataset's bundle lists; return their package `pipelines`, below `folder`."""
    for name, path in dataset.locate_bundle().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, folder / name)
    return folder / "pipelines"
