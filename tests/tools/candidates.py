"""Register a trained and evaluated model without a second evaluation."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import mlflow
import pandas as pd

from pipelines.dataset import load_dataset
from pipelines.registry import registration
from pipelines.registry.candidate import Candidate
from pipelines.registry.package import packaging
from pipelines.steps import evaluate
from pipelines.system.files import sha256

PACKAGES: dict[tuple[str, str], str] = {}
"""URI of the package of each model, by MLflow's address and the digest of the model's files."""


def register(name: str, has_own_package: bool = False, **fields: Any) -> str:
    """Register the candidate in data/ with the second half of the step `evaluate`, and return its version.

    The first half takes 2 s of CPU time. It has already written data/evaluation, which must belong to data/model and
    data/features, as in a copy of the fixture `trained`.

    Args:
        name: the model's name in the registry.
        has_own_package: log a package for this version, for a test that damages it. Otherwise all versions with
            the same files share one package, because it takes a second to log a package.
        fields: further fields of EvaluateSpec.
    """
    spec = evaluate.EvaluateSpec(model=name, **{"dataset": "flights", **fields})
    metrics = json.loads((spec.evaluation / "metrics.json").read_text())
    result = evaluate.EvaluateResult(
        evaluation=spec.evaluation, metrics=metrics, model_digest=sha256(Path(spec.trained_model))
    )
    train, holdout = (pd.read_parquet(spec.features / split / "data.parquet") for split in ("train", "holdout"))
    log_package = packaging.log_package if has_own_package else _log_package_once
    with patch.object(registration, "log_package", log_package):
        return evaluate._register_candidate(spec, load_dataset("flights"), result, holdout, len(train)).version


def _log_package_once(candidate: Candidate) -> str:
    key = (mlflow.get_tracking_uri(), sha256(candidate.folder))
    if key not in PACKAGES:
        PACKAGES[key] = packaging.log_package(candidate)
    return PACKAGES[key]
