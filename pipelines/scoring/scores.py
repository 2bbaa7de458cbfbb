"""Scores of a published day: which version gives them, of which features, and where they are kept."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from mlflow.entities.model_registry import ModelVersion

from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.features import building, engines
from pipelines.lake import Commit, Lake
from pipelines.registry.versions import Registry, as_of
from pipelines.scoring.predictions import MODEL, SCORE, SCORED_AT, VERSION
from pipelines.settings import settings
from pipelines.system.duckdb_session import spill_folder
from pipelines.window import DAY, Days

Score = Callable[[pd.DataFrame], Any]


def serving(registry: Registry, name: str, which: str, day: dt.date) -> ModelVersion | None:
    """The version that scores the day; None where there is none.

    That is `which`; else the champion; else, where the champion is of after the day and so may have seen its labels,
    the one that was champion then.

    Raises:
        DataError: there is no such version, or the champion does not tell its as_of.
    """
    if which:
        return registry.version(name, which)
    champion = registry.champion(name)
    if champion is None or as_of(champion) <= day:
        return champion
    return registry.champion_before(name, day + DAY)


@contextmanager
def scored(lake: Lake, chosen: Dataset, day: dt.date, score: Score) -> Iterator[Path]:
    """A Parquet file of key, features, label and score of each row of the day, for as long as the block lasts.

    The features are those that `preprocess` builds of the day, by the same expression. Memory does not grow with it.

    Raises:
        DataError: the features cannot be built of the rows, the model wants others, or a score is no number.
    """
    with rows_of(lake, chosen, day) as (bare, built), spill_folder() as folder:
        told = (_with_score(chosen, batch, score) for batch in built)
        building.write_features(told, bare.append(pa.field(SCORE, pa.float64())), folder)
        yield folder / building.FILE


@contextmanager
def shown(lake: Lake, chosen: Dataset, day: dt.date) -> Iterator[Iterator[pd.DataFrame]]:
    """The features of each row of the day, in the order of `scored`: all that a model sees."""
    with rows_of(lake, chosen, day) as (_, built):
        yield (_features(chosen, batch) for batch in built)


@contextmanager
def rows_of(lake: Lake, chosen: Dataset, day: dt.date) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Key, features and label of each row of the day, sorted by key, and their schema."""
    with (
        lake.open_files(chosen.published, day, day) as (paths, columns),
        engines.open_engine("duckdb", paths, columns) as engine,
    ):
        bare = building.feature_schema(chosen, columns)
        yield bare, (batch.cast(bare) for batch in engine(partial(_built, chosen), Days(day, day)))


@contextmanager
def features_known(chosen: Dataset) -> Iterator[None]:
    """Within the block, a feature that is not there comes out as a DataError."""
    try:
        yield
    except KeyError as error:
        what = f"the model was trained with features that {chosen.name} does not have: {error.args[0]}."
        raise DataError(what, "Score with the code that trained it, or train again.") from None


def kept(lake: Lake, chosen: Dataset, day: dt.date, file: Path, version: ModelVersion) -> tuple[Commit, Path]:
    """The scores of the file are the day's predictions of the version, and the file is kept. Idempotent.

    Returns:
        What the commit did, and where the file is now.
    """
    of = {MODEL: str(version.name), VERSION: str(version.version)}
    told = {**of, SCORED_AT: dt.datetime.now(dt.UTC)}
    with pq.ParquetFile(file) as opened:
        names = [*chosen.key, SCORE]
        schema = _schema(opened.schema_arrow, names)
        batches = (_told(batch.select(names), schema, told) for batch in opened.iter_batches(columns=names))
        rows = pa.RecordBatchReader.from_batches(schema, batches)
        commit = lake.write_partition(chosen.predictions, day, rows, chosen.key, part=of, aside=[SCORED_AT])
    place = settings().home / "scored" / chosen.name / of[MODEL] / of[VERSION] / f"{day}.parquet"
    place.parent.mkdir(parents=True, exist_ok=True)
    os.replace(file, place)
    return commit, place


def _built(chosen: Dataset, rows: ibis.Table) -> ibis.Table:
    try:
        return building.build_all(chosen, rows)
    except (AttributeError, ibis.common.exceptions.IbisError) as error:  # what ibis says of a column that is not there
        raise DataError(f"the features of {chosen.name} cannot be built of its rows: {error}.") from None


def _features(chosen: Dataset, rows: pa.RecordBatch) -> pd.DataFrame:
    shown: pd.DataFrame = rows.select(list(chosen.features)).to_pandas()
    return shown


def _with_score(chosen: Dataset, rows: pa.RecordBatch, score: Score) -> pa.RecordBatch:
    """The rows and what the model says of their features, of which it sees nothing else."""
    with features_known(chosen):
        told = np.asarray(score(_features(chosen, rows)), dtype=float)
    if wrong := int(np.count_nonzero(~np.isfinite(told))):
        raise DataError(f"the model's score is not a number for {wrong} of {len(told)} rows.", "Nothing was written.")
    return rows.append_column(SCORE, pa.array(told))


def _schema(scored: pa.Schema, names: list[str]) -> pa.Schema:
    stamps = [(MODEL, pa.string()), (VERSION, pa.string()), (SCORED_AT, pa.timestamp("us", tz="UTC"))]
    return pa.schema([*(scored.field(name) for name in names), *(pa.field(*one) for one in stamps)])


def _told(batch: pa.RecordBatch, schema: pa.Schema, told: dict[str, Any]) -> pa.RecordBatch:
    """The batch and the same for each of its rows."""
    stamps = [pa.repeat(pa.scalar(value, schema.field(name).type), batch.num_rows) for name, value in told.items()]
    return pa.RecordBatch.from_arrays([*batch.columns, *stamps], schema=schema)
