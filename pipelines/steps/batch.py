"""Write the input of SageMaker Batch Transform to a folder: a published partition, and the model that scores it.

Idempotent: equal rows and versions give equal files.
"""

from __future__ import annotations

from pathlib import Path

from pipelines.contract import Result, Spec
from pipelines.dataset import load_dataset
from pipelines.partitions import PartitionKey
from pipelines.system.log import log


class BatchSpec(Spec):
    """One published partition that a Batch Transform job scores."""

    dataset: str
    """Dataset whose published table holds the partition."""
    model: str
    """Registered model."""
    partition: PartitionKey
    """Partition to score: a day (YYYY-MM-DD), an hour (YYYY-MM-DDTHH) or a month (YYYY-MM), depending on the
    dataset."""
    version: str = ""
    """Version to score with; empty: the version that the step `score` would choose."""
    folder: Path
    """Folder to write: model/model.tar.gz, and rows/."""


class BatchResult(Result):
    """The input of a Batch Transform job. Empty if no version can score the partition; `score` then reports why."""

    version: str = ""
    """Version that scores the partition."""
    request: str = ""
    """Name of the rows that were written: their number and a digest. With it, the step `score` checks that the job's
    output belongs to the published rows."""


def run(spec: BatchSpec) -> BatchResult:
    """Write the model and the rows of a Batch Transform job to `spec.folder`, if a version can score the partition.

    Raises:
        DataError: the partition is not published, the version does not exist, its files are not those that
            the gate judged, or it needs features that the rows do not have. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    from pipelines.lake import Lake
    from pipelines.registry.artifacts import open_package
    from pipelines.registry.versions import Registry
    from pipelines.scoring import batch, scores
    from pipelines.scoring.predictions import require_published
    from pipelines.system.files import replace_folder

    dataset, lake = load_dataset(spec.dataset), Lake.open()
    require_published(lake, dataset, spec.partition)
    registry = Registry.open()
    version = scores.choose_version(registry, spec.model, spec.version, spec.partition)
    if version is None:
        return BatchResult()
    with (
        open_package(version) as package,
        replace_folder(spec.folder) as folder,
        scores.read_features(lake, dataset, spec.partition) as frames,
    ):
        (folder / "model").mkdir()
        batch.pack_model(package, folder / "model" / "model.tar.gz", version.name, str(version.version))
        with scores.report_missing_features(dataset):
            request = batch.write_request(frames, batch.list_features(package), folder / "rows")
    rows = request.partition("-")[0]  # a request's name begins with its number of rows
    log.info("%s %s: %s rows for %s version %s", dataset.name, spec.partition, rows, version.name, version.version)
    return BatchResult(version=str(version.version), request=request)
