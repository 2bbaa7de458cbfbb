"""Write a published partition and the model that scores it to a folder, for SageMaker Batch Transform.

Idempotent: equal rows and versions give equal files.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from pipelines.contract import Result, Spec
from pipelines.dataset import load_dataset
from pipelines.system.log import log


class BatchSpec(Spec):
    """One published partition that a Batch Transform job scores."""

    dataset: str = "flights"
    """Dataset whose published table holds the partition."""
    model_name: str
    """Registered model."""
    partition: dt.date
    """Day to score (YYYY-MM-DD)."""
    version: str = ""
    """Version to score with; empty: the one that the step `score` would choose."""
    folder: Path
    """Folder to write: model/model.tar.gz, and rows/."""


class BatchResult(Result):
    """The request for a Batch Transform job. Where `request` is empty, no version scores; the step `score` says why."""

    version: str = ""
    """Version that scores."""
    request: str = ""
    """Name of the request that was written, for the step `score`."""


def run(spec: BatchSpec) -> BatchResult:
    """Write the model and the rows of a Batch Transform job to `spec.folder`, where a version may score the partition.

    Raises:
        DataError: the partition is not published, the version does not exist, or it needs features that the rows do
            not have. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    from pipelines.lake import Lake
    from pipelines.registry.versions import Registry
    from pipelines.scoring import batch, scores
    from pipelines.scoring.predictions import require_published
    from pipelines.system.files import replace_folder

    data, lake = load_dataset(spec.dataset), Lake.open()
    require_published(lake, data, spec.partition)
    registry = Registry.open()
    version = scores.choose_version(registry, spec.model_name, spec.version, spec.partition)
    if version is None:
        return BatchResult()
    with replace_folder(spec.folder) as making, scores.read_features(lake, data, spec.partition) as frames:
        (making / "model").mkdir()
        batch.pack_model(version, making / "model" / "model.tar.gz")
        with scores.report_missing_features(data):
            request = batch.write_request(frames, batch.list_features(version), making / "rows")
    rows = request.partition("-")[0]
    log.info("%s %s: %s rows for %s version %s", data.name, spec.partition, rows, version.name, version.version)
    return BatchResult(version=str(version.version), request=request)
