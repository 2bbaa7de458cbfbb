"""Builds the features of a pinned window: train, validation and holdout, as Parquet.

Reads data/snapshot.json and nothing else that moves: the same snapshot and code give the same bytes, on either engine.
Rows whose label never became known (cancelled flights) are left out. Memory does not grow with the window. Idempotent.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.dataset import load_dataset
from pipelines.errors import DataError
from pipelines.features.pin import PinnedWindow
from pipelines.system.log import log
from pipelines.window import DAY, Days

if TYPE_CHECKING:
    from pipelines.features.engines import RunExpression
    from pipelines.features.pinned import PinnedRows


class PreprocessSpec(Spec):
    """What to build features from, and where to."""

    snapshot: Path = Path("data/snapshot.json")
    """The pinned window, as `snapshot` wrote it; its rows are read from the lake."""
    window: Path | None = None
    """Folder that `pack` wrote, to read in the place of `snapshot` and the lake."""
    engine: Literal["duckdb", "spark"] = "duckdb"
    """What builds them: duckdb, in this process; spark, in local mode (needs Java 17). The features are the same."""
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
        DataError: no snapshot file, the snapshot is gone from the lake, no labelled row is left, or a key is there
            twice.
        SpecError: the engine is not installed here.
    """
    from pipelines.features import engines, pinned
    from pipelines.system.files import replace_folder, sha256

    with (
        nullcontext(pinned.open_packed(spec.window)) if spec.window else pinned.open_from_lake(spec.snapshot) as window
    ):
        splits = _split_window(window.snapshot, spec.validation_days)
        with (
            engines.open_engine(spec.engine, window.paths, window.schema) as engine,
            replace_folder(spec.features) as making,
        ):
            counts = {name: _write_split(window, days, engine, making / name) for name, days in splits.items()}
    log.info("features: %s labelled rows", counts)
    return PreprocessResult(
        features=spec.features,
        rows_train=counts["train"],
        rows_validation=counts["validation"],
        rows_holdout=counts["holdout"],
        digest=sha256(spec.features),
    )


def _split_window(pinned: PinnedWindow, validation_days: int) -> dict[str, Days]:
    window = pinned.window()
    if validation_days >= len(window.train):
        raise DataError(f"{validation_days} validation_days leave nothing of the {len(window.train)} days of training.")
    cut = window.train.last - validation_days * DAY
    return {
        "train": Days(window.train.first, cut),
        "validation": Days(cut + DAY, window.train.last),
        "holdout": window.holdout,
    }


def _write_split(window: PinnedRows, days: Days, engine: RunExpression, folder: Path) -> int:
    """`folder` holds the labelled rows of the days; returns their number."""
    from pipelines.features import building as features

    chosen = load_dataset(window.snapshot.dataset)

    built = engine(partial(features.build_labelled, chosen), days)
    written = features.write_features(built, features.feature_schema(chosen, window.schema), folder)
    if not written:
        raise DataError(f"no row of {chosen.published} in {days} has a label, so {folder.name} would be empty.")
    return written
