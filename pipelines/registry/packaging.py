"""A candidate as an MLflow model: what a server needs to score with it, and nothing else."""

from __future__ import annotations

import shutil
import tempfile
from importlib.metadata import version as installed
from pathlib import Path
from typing import TYPE_CHECKING

import mlflow
import pandas as pd

from pipelines.dataset import Dataset

if TYPE_CHECKING:
    from pipelines.registry.versions import Candidate

PACKAGES = ("mlflow", "xgboost-cpu", "pandas", "numpy", "pyarrow")
"""What a served model needs; pinned to what trained it, so that MLflow need not guess."""


def logged(candidate: Candidate) -> str:
    """The address of the model, which the active run now has: `pipelines.registry.versions` sets MLflow up."""
    scores = pd.Series([0.5], name="score")
    with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
        info = mlflow.pyfunc.log_model(
            name=candidate.dataset.name,
            python_model=str(candidate.dataset.package / "serving.py"),
            artifacts={"model": str(candidate.folder)},
            code_paths=[str(_code(candidate.dataset, Path(folder)))],
            signature=mlflow.models.infer_signature(candidate.example, scores),
            input_example=candidate.example,
            pip_requirements=[f"{package}=={installed(package)}" for package in PACKAGES],
        )
    return str(info.model_uri)


def _code(dataset: Dataset, folder: Path) -> Path:
    """The part of `pipelines` that a served model needs, copied from the dataset's bundle."""
    project = dataset.package.parents[2]
    for name in (dataset.package / "bundle.txt").read_text(encoding="utf-8").split():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(project / name, folder / name)
    return folder / "pipelines"
