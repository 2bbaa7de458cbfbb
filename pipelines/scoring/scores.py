"""Score a published partition: choose the version, build the features, and store the scores."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from pipelines.feature_files import FILE_NAME
from pipelines.features import building, engines
from pipelines.features.earlier_values import find_first_needed_partition, run_features
from pipelines.lake import Commit, Lake
from pipelines.partitions import Partition, get_begin, get_date
from pipelines.registry.lifecycle import find_champion_as_of
from pipelines.registry.versions import Registry, read_as_of
from pipelines.scored_rows import append_scores, list_score_fields, list_stored_scores
from pipelines.scoring.predictions import MODEL, SCORED_AT, VERSION
from pipelines.settings import settings
from pipelines.system.temporary_folders import make_temporary_folder
from pipelines.window import DAY

Scorer = Callable[[pd.DataFrame], Any]
"""Takes a frame of features, shape (rows, features); returns one score for each row, shape (rows,), or a frame with a
column for each class or quantile."""


def choose_version(registry: Registry, name: str, number: str, partition: Partition) -> ModelVersion | None:
    """Choose the version of model `name` that scores the partition.

    Returns:
        Version `number` if it is given, else the champion. A champion that was trained as of a later day may have seen
        labels of the partition. Then, of all past champions, the one with the latest as_of up to the partition's day is
        returned instead; `find_champion_as_of` says which count as past champions. None if there is no such version.

    Raises:
        DataError: there is no version `number`, or the champion has no as_of. A retry cannot help.
        ServiceError: MLflow failed. A retry can help.
    """
    if number:
        return registry.get_version(name, number)
    champion, first_day = registry.find_champion(name), get_date(partition)
    if champion is None or read_as_of(champion) <= first_day:
        return champion
    return find_champion_as_of(registry, name, first_day + DAY)


@contextmanager
def score_partition(lake: Lake, dataset: Dataset, partition: Partition, scorer: Scorer) -> Iterator[Path]:
    """Write a Parquet file with key, features, label and scores of each row; remove it when the block ends.

    The features come from the same expression as in `preprocess`. Memory use does not grow with the partition.

    Yields:
        The path of the file.

    Raises:
        DataError: the features cannot be built from the rows, the model needs other features, or a score is not a
            finite number. A retry cannot help.
    """
    with read_rows(lake, dataset, partition) as (schema, batches), make_temporary_folder() as folder:
        scored_batches = (
            append_scores_to_batch(dataset, batch, score_features(dataset, batch, scorer)) for batch in batches
        )
        scored_schema = pa.schema([*schema, *list_score_fields(dataset)], schema.metadata)
        building.write_features(scored_batches, scored_schema, folder)
        yield folder / FILE_NAME


@contextmanager
def read_features(lake: Lake, dataset: Dataset, partition: Partition) -> Iterator[Iterator[pd.DataFrame]]:
    """Read the features of the partition in batches, in the same order of rows as `score_partition`.

    Yields:
        The batches.
    """
    with read_rows(lake, dataset, partition) as (_, batches):
        yield (_select_features(dataset, batch) for batch in batches)


@contextmanager
def read_rows(
    lake: Lake, dataset: Dataset, partition: Partition
) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Read key, features and label of each row of the partition, sorted by key, in batches.

    Yields:
        The schema, and the batches.
    """
    first = find_first_needed_partition(dataset, partition)
    with (
        lake.open_files(dataset.table, first, partition) as (paths, columns),
        engines.open_engine("duckdb", paths, columns) as engine,
    ):
        schema = building.build_feature_schema(dataset, columns)
        batches = run_features(engine, dataset, _build_features, get_begin(partition), get_date(partition))
        yield schema, (batch.cast(schema) for batch in batches)


@contextmanager
def report_missing_features(dataset: Dataset) -> Iterator[None]:
    """Translate a KeyError of the block, which means that the rows lack a feature of the model, into a DataError.

    Raises:
        DataError: the rows lack a feature. A retry cannot help.
    """
    try:
        yield
    except KeyError as error:
        message = f"the model was trained with features that {dataset.name} does not have: {error.args[0]}."
        raise DataError(message, "Score with the code that trained it, or train again.") from None


def store_scores(
    lake: Lake, dataset: Dataset, partition: Partition, file: Path, version: ModelVersion
) -> tuple[Commit, Path]:
    """Replace the predictions of the version for the partition by the scores in the file. Idempotent.

    The file is moved to LEEWAY_HOME/scored/DATASET/MODEL/VERSION. The step `profile` reads it there.

    Returns:
        The commit, and the new path of the file.
    """
    model = {MODEL: str(version.name), VERSION: str(version.version)}
    constants = {**model, SCORED_AT: dt.datetime.now(dt.UTC)}
    with pq.ParquetFile(file) as parquet:
        names = [*dataset.key, *list_stored_scores(dataset)]
        schema = _build_prediction_schema(parquet.schema_arrow, names)
        batches = (
            _append_constants(batch.select(names), schema, constants) for batch in parquet.iter_batches(columns=names)
        )
        rows = pa.RecordBatchReader.from_batches(schema, batches)
        commit = lake.write_partition(
            dataset.predictions, partition, rows, dataset.key, part_values=model, ignored_columns=[SCORED_AT]
        )
    path = settings().home / "scored" / dataset.name / model[MODEL] / model[VERSION] / f"{partition}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    os.replace(file, path)
    return commit, path


def _build_features(dataset: Dataset, rows: ibis.Table, since: dt.datetime | None) -> ibis.Table:
    try:
        return building.build_sorted_features(dataset, rows, since)
    except (AttributeError, ibis.common.exceptions.IbisError) as error:  # ibis raises either for a missing column
        raise DataError(f"the features of {dataset.name} cannot be built from its rows: {error}.") from None


def _select_features(dataset: Dataset, rows: pa.RecordBatch | pa.Table) -> pd.DataFrame:
    features: pd.DataFrame = rows.select(list(dataset.features)).to_pandas()
    return features


def score_features(dataset: Dataset, rows: pa.RecordBatch | pa.Table, scorer: Scorer) -> Any:
    """Score rows of features. The model sees only the features.

    Returns:
        What the scorer returned.

    Raises:
        DataError: the model needs other features, or a score is not a finite number. A retry cannot help.
    """
    with report_missing_features(dataset):
        scores = scorer(_select_features(dataset, rows))
    return check_scores(scores)


def check_scores(scores: Any) -> Any:
    """Check that each score is a finite number, and return the scores unchanged.

    Raises:
        DataError: a score is not a finite number. A retry cannot help.
    """
    values = np.asarray(scores, dtype=float)
    if invalid_count := int(np.count_nonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))):
        raise DataError(
            f"the model's score is not a number for {invalid_count} of {len(values)} rows.", "Nothing was written."
        )
    return scores


def append_scores_to_batch(dataset: Dataset, rows: pa.RecordBatch, scores: Any) -> pa.RecordBatch:
    """Append the columns of scores to a batch of rows.

    Args:
        dataset: dataset of the rows.
        rows: rows with the label, which is null if it is not known.
        scores: scores of the rows, as a model returns them.

    Raises:
        DataError: the scores have no valid classes or quantiles. A retry cannot help.
    """
    try:
        scored_rows = append_scores(dataset, rows.select([dataset.label]).to_pandas(), scores)
    except ValueError as error:
        raise DataError(f"{error}.", "Nothing was written.") from None
    for field in list_score_fields(dataset):
        rows = rows.append_column(field, pa.array(scored_rows[field.name], field.type, from_pandas=True))
    return rows


def _build_prediction_schema(scored_schema: pa.Schema, names: list[str]) -> pa.Schema:
    """Return the schema of the table of predictions: the columns `names` of the scored rows, then the constants."""
    constants = [(MODEL, pa.string()), (VERSION, pa.string()), (SCORED_AT, pa.timestamp("us", tz="UTC"))]
    return pa.schema([*(scored_schema.field(name) for name in names), *(pa.field(*constant) for constant in constants)])


def _append_constants(batch: pa.RecordBatch, schema: pa.Schema, constants: dict[str, Any]) -> pa.RecordBatch:
    """Append columns that have the same value in each row."""
    columns = [
        pa.repeat(pa.scalar(value, schema.field(name).type), batch.num_rows) for name, value in constants.items()
    ]
    return pa.RecordBatch.from_arrays([*batch.columns, *columns], schema=schema)
