"""Build the features of a pinned window, for train, validation and holdout, as Parquet files.

The step reads only a pinned window (data/snapshot.json, or a folder that `pack` wrote) and its rows. So the same
snapshot and code give the same bytes, on either engine. Rows whose label never became known, such as those of cancelled
flights, are left out. Memory does not grow with the window. Idempotent.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.dataset import load_dataset
from pipelines.errors import DataError
from pipelines.features.pinned_window import PinnedWindow
from pipelines.parameters import MAX_DAYS
from pipelines.system.log import log
from pipelines.window import DAY, Days, Unit, count_months, get_month_start, subtract_months

if TYPE_CHECKING:
    from pipelines.features.engines import RunExpression
    from pipelines.features.pinned_rows import PinnedRows


class PreprocessSpec(Spec):
    """The window to build features from, and the folder to write them to."""

    replaced_fields: ClassVar[Mapping[str, str]] = {"window": "snapshot"}

    snapshot: Path = Path("data/snapshot.json")
    """The pinned window, as `snapshot` wrote it; its rows are read from the lake."""
    window: Path | None = None
    """Folder that `pack` wrote, to read instead of `snapshot` and the lake."""
    engine: Literal["duckdb", "spark"] = "duckdb"
    """Engine that builds the features: duckdb (in this process) or spark (in local mode, needs Java 17). Both give the
    same bytes."""
    validation_days: Annotated[int, Field(ge=1, le=MAX_DAYS)] = 7
    """Number of days at the end of the training window that are used for early stopping."""
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
    """SHA-256 over the folder: the version of the features."""


def run(spec: PreprocessSpec) -> PreprocessResult:
    """Write the features of the pinned window to `spec.features`.

    Raises:
        DataError: the snapshot file does not exist, the lake does not have the snapshot any more, no labelled row is
            left, a key occurs twice, or the labels cannot be learned from. A retry cannot help.
        SpecError: the engine is not installed here. A retry cannot help.
    """
    from pipelines.features import engines, label_column, labels, pinned_rows
    from pipelines.system.files import replace_folder, sha256

    window = spec.window
    with (
        nullcontext(pinned_rows.open_packed_folder(window))
        if window
        else pinned_rows.open_from_lake(spec.snapshot) as rows
    ):
        dataset = load_dataset(rows.window.dataset)
        splits = _split_window(rows.window, spec.validation_days, dataset.partition)
        label_column.check_label_type(dataset, rows.schema)
        with (
            engines.open_engine(spec.engine, rows.paths, rows.schema) as engine,
            replace_folder(spec.features) as folder,
        ):
            counts = {name: _write_split(rows, days, engine, folder / name) for name, days in splits.items()}
            labels.check_label_values(dataset, folder)
    log.info("features: %s labelled rows", counts)
    return PreprocessResult(
        features=spec.features,
        rows_train=counts["train"],
        rows_validation=counts["validation"],
        rows_holdout=counts["holdout"],
        digest=sha256(spec.features),
    )


def _split_window(pinned_window: PinnedWindow, validation_days: int, unit: Unit) -> dict[str, Days]:
    """Return the days of train, validation and holdout. Months are not cut: `validation_days` is rounded to months."""
    window = pinned_window.get_window()
    train_last = window.train.last - validation_days * DAY
    if unit == "month":
        month_start = get_month_start(window.train.last)
        train_last = subtract_months(month_start, count_months(validation_days) - 1) - DAY
    if train_last < window.train.first:
        raise DataError(f"{validation_days} validation_days leave nothing of the {len(window.train)} days of training.")
    return {
        "train": Days(window.train.first, train_last),
        "validation": Days(train_last + DAY, window.train.last),
        "holdout": window.holdout,
    }


def _write_split(rows: PinnedRows, days: Days, engine: RunExpression, folder: Path) -> int:
    """Write the features of the labelled rows of the days to `folder`; return their number."""
    from pipelines.features import building
    from pipelines.features.earlier_values import run_features

    dataset = load_dataset(rows.window.dataset)
    begin = dt.datetime.combine(days.first, dt.time(), dt.UTC)
    batches = run_features(engine, dataset, building.build_labelled_features, begin, days.last)
    schema = building.build_feature_schema(dataset, rows.schema, rows.window.label_delay_days)
    count = building.write_features(batches, schema, folder)
    if not count:
        raise DataError(f"no row of {dataset.table} in {days} has a label, so {folder.name} would be empty.")
    return count
