"""Define a candidate: a trained and evaluated model that can be registered as a version."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pipelines.container.serving.compiled_features import CompiledFeatures
from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.system.files import sha256


@dataclass(frozen=True)
class Candidate:
    """A trained and evaluated model that is not registered yet."""

    dataset: Dataset
    folder: Path
    """Folder of the model's files."""
    model_digest: str
    """SHA-256 of the model's files, as they were evaluated."""
    digest: str
    """SHA-256 that identifies the candidate; see `compute_candidate_digest`."""
    training_job: str
    """Name of the training job."""
    tags: Mapping[str, str]
    """Tags for the version, which hold its lineage; see `pipelines.registry.lineage.build_tags`."""
    metrics: Mapping[str, float]
    """Metrics of the holdout, by name."""
    artifacts: Mapping[str, Path]
    """Files and folders of evidence, by their names among the artifacts of the run: evaluation, training, dvc.lock."""
    provenance: Mapping[str, Any]
    """Record that `reproduce` compares; see `pipelines.registry.lineage.build_provenance`."""
    example: pd.DataFrame
    """A few feature rows: the packaged model declares their columns as its input."""
    compiled_features: CompiledFeatures | None = None
    """How raw rows become features; None if this is not known: then the version can only score rows of features."""


def compute_candidate_digest(model_digest: str, features: Path, snapshot: Path) -> str:
    """Compute the SHA-256 that identifies a candidate.

    Args:
        model_digest: digest of the model.
        features: folder of the features that the model was trained and evaluated on.
        snapshot: file snapshot.json of the training: the window of the data, and their snapshot in the lake.
    """
    return hashlib.sha256(" ".join([model_digest, sha256(features), sha256(snapshot)]).encode()).hexdigest()


def read_job_name(record: Path) -> str:
    """Read the name of the training job from environment.json, which the job wrote.

    Args:
        record: folder of the job's record.

    Raises:
        DataError: the record does not name the job. A retry cannot help.
    """
    from pipelines.system.files import read_json
    from pipelines.system.mlflow_server import JOB_KEY

    environment = read_json(record / "environment.json", "the training script writes it")
    if JOB_KEY not in environment:
        raise DataError(f"{record}/environment.json does not name its training job.", "Give `--training-job`.")
    return str(environment[JOB_KEY])
