"""Puts a published partition and the version that scores it into a folder, for SageMaker Batch Transform.

Idempotent: equal rows and versions give equal files.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from pipelines.contract import Result, Spec
from pipelines.dataset import dataset
from pipelines.system.log import log


class BatchSpec(Spec):
    """One published partition that is to be scored elsewhere."""

    dataset: str = "flights"
    """Dataset whose published table holds the partition."""
    model_name: str
    """Registered model."""
    partition: dt.date
    """Day to score (YYYY-MM-DD)."""
    version: str = ""
    """Version to score with; as of the step `score` where it is empty."""
    folder: Path
    """Folder to write: model/model.tar.gz, and rows/."""


class BatchResult(Result):
    """What a Batch Transform job is to be asked; nothing where `asked` is empty, and the step `score` says why."""

    version: str = ""
    """Version that scores."""
    asked: str = ""
    """Name of the rows that were written, for the step `score`."""


def run(spec: BatchSpec) -> BatchResult:
    """`spec.folder` has what a job needs to score the partition, where there is a version that may.

    Raises:
        DataError: the partition is not published, the version is not there, or wants features that the rows do not
            have. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    from pipelines.lake import Lake
    from pipelines.registry.versions import Registry
    from pipelines.scoring import batch, scores
    from pipelines.scoring.predictions import demand_published
    from pipelines.system.files import replace_folder

    chosen, lake = dataset(spec.dataset), Lake.open()
    demand_published(lake, chosen, spec.partition)
    registry = Registry.open()
    version = scores.serving(registry, spec.model_name, spec.version, spec.partition)
    if version is None:
        return BatchResult()
    with replace_folder(spec.folder) as making, scores.shown(lake, chosen, spec.partition) as frames:
        (making / "model").mkdir()
        batch.pack(registry, version, making / "model" / "model.tar.gz")
        with scores.features_known(chosen):
            asked = batch.write(frames, batch.features_of(version), making / "rows")
    rows = asked.partition("-")[0]
    log.info("%s %s: %s rows for %s version %s", chosen.name, spec.partition, rows, version.name, version.version)
    return BatchResult(version=str(version.version), asked=asked)
