"""Builds the features of a pinned window: train, validation and holdout, as Parquet.

Reads data/snapshot.json and nothing else that moves: the same snapshot and code give the same bytes. Rows whose label
never became known (cancelled flights) are left out. Idempotent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.dataset import Dataset, dataset
from pipelines.errors import DataError
from pipelines.log import log
from pipelines.steps.snapshot import SnapshotResult
from pipelines.window import DAY, Days


class PreprocessSpec(Spec):
    """What to build features from, and where to."""

    snapshot: Path = Path("data/snapshot.json")
    """The pinned window, as `snapshot` wrote it."""
    validation_days: Annotated[int, Field(ge=1)] = 7
    """Last days of the training window that are kept apart for early stopping."""
    features: Path = Path("data/features")
    """Folder to write: train/, validation/ and holdout/, each with data.parquet."""


class PreprocessResult(Result):
    """Built features."""

    features: Path
    """Folder of the features."""
    rows_train: int
    """Labelled rows to fit on."""
    rows_validation: int
    """Labelled rows for early stopping."""
    rows_holdout: int
    """Labelled rows of the holdout."""
    digest: str
    """SHA-256 over the folder: names the version of the features."""


def run(spec: PreprocessSpec) -> PreprocessResult:
    """`spec.features` holds the features of the pinned window, whole.

    Raises:
        DataError: no snapshot file, the snapshot is gone from the lake, or no labelled row is left.
    """
    from pipelines.features import write_split
    from pipelines.files import sha256, whole_folder
    from pipelines.lake import Lake

    pinned = SnapshotResult.read(spec.snapshot)
    chosen, lake, counts = dataset(pinned.dataset), Lake.open(), {}
    with whole_folder(spec.features) as making:
        for name, days in _splits(pinned, spec.validation_days).items():
            rows = lake.window(pinned.table, days.first, days.last, pinned.snapshot_id)
            counts[name] = write_split(chosen, rows, making / name)
            _demand_rows(counts[name], chosen, name, days)
    log.info("features: %s labelled rows", counts)
    return PreprocessResult(
        features=spec.features,
        rows_train=counts["train"],
        rows_validation=counts["validation"],
        rows_holdout=counts["holdout"],
        digest=sha256(spec.features),
    )


def _splits(pinned: SnapshotResult, validation_days: int) -> dict[str, Days]:
    window = pinned.window()
    if validation_days >= len(window.train):
        raise DataError(f"{validation_days} validation_days leave nothing of the {len(window.train)} days of training.")
    cut = window.train.last - validation_days * DAY
    return {
        "train": Days(window.train.first, cut),
        "validation": Days(cut + DAY, window.train.last),
        "holdout": window.holdout,
    }


def _demand_rows(rows: int, chosen: Dataset, name: str, days: Days) -> None:
    if not rows:
        raise DataError(f"no row of {chosen.published} in {days} has a label, so {name} would be empty.")
