"""Build features, and write them to Parquet files whose metadata name the key, the features and the label."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import ibis
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.feature_files import FILE_NAME, METADATA_KEY
from pipelines.features.columns import HIDDEN_LABEL, compute_columns, select_feature, select_keys
from pipelines.features.earlier_values import replace_looked_up_features
from pipelines.features.engines import GROUP_ROWS
from pipelines.features.label_column import find_label_type
from pipelines.features.prefetch import prefetch
from pipelines.lake import DATE_COLUMN
from pipelines.lookups import Lookup

PREFETCHED_BATCHES = 4
"""Number of batches that the engine computes in advance, while the writer uses another core."""


def build_labelled_features(dataset: Dataset, rows: ibis.Table, since: dt.datetime | None = None) -> ibis.Table:
    """Return the features of the rows with a label, sorted by key.

    Rows whose label is not known are removed only at the end, because features of other rows may depend on them.

    Args:
        dataset: dataset of the rows.
        rows: published rows.
        since: start (UTC) of the first partition whose features are returned; None: all partitions. If no lookup reads
            earlier partitions, `since` is ignored, and the features of all `rows` are returned.
    """
    features = _build_known_features(dataset, rows, since)
    return features.filter(features[dataset.label].notnull()).order_by(*dataset.key)


def build_sorted_features(dataset: Dataset, rows: ibis.Table, since: dt.datetime | None = None) -> ibis.Table:
    """Return the features of all rows, sorted by key, for scoring. They are built exactly as for training.

    Args:
        dataset: dataset of the rows.
        rows: published rows.
        since: start (UTC) of the first partition whose features are returned; None: all partitions. If no lookup reads
            earlier partitions, `since` is ignored, and the features of all `rows` are returned.
    """
    return _build_known_features(dataset, rows, since).order_by(*dataset.key)


def build_features(dataset: Dataset, rows: ibis.Table) -> ibis.Table:
    """Return the key, the features and the label of every row; the label is null if it is not known.

    Features of lookups are those of the row's own partition.

    Raises:
        DataError: the result of the dataset's `features` lacks a feature, a key column or the label; or the label
            cannot be computed. A retry cannot help.
    """
    return _select_features(dataset, compute_columns(dataset, rows))


def _build_known_features(dataset: Dataset, rows: ibis.Table, since: dt.datetime | None) -> ibis.Table:
    """Return key, features and label of each row. Features of lookups are those known before the row's partition."""
    return _select_features(dataset, replace_looked_up_features(dataset, compute_columns(dataset, rows), since))


def _select_features(dataset: Dataset, columns: ibis.Table) -> ibis.Table:
    """Select the key, the features and the label, under its own name, from all columns."""
    keys = [columns[name] for name in dataset.key]
    features = [select_feature(dataset, columns, name) for name in dataset.features if name not in dataset.key]
    return columns.select(*keys, *features, columns[HIDDEN_LABEL].name(dataset.label))


def build_lookup_values(dataset: Dataset, lookup: Lookup, rows: ibis.Table) -> ibis.Table:
    """Return the columns of a lookup's key and its features. No row occurs twice.

    The names of the key's columns are prefixed with `features.columns.KEY_PREFIX`.
    """
    columns = compute_columns(dataset, rows)
    features = [select_feature(dataset, columns, name) for name in lookup.features]
    return columns.select(*select_keys(columns, lookup.key), *features).distinct()


def build_feature_schema(dataset: Dataset, row_schema: pa.Schema, label_delay_days: int = 0) -> pa.Schema:
    """Return the schema of the feature file, the same for all engines.

    Args:
        dataset: dataset whose features are written.
        row_schema: schema of the rows that the features are computed from; it gives the types of key and label.
        label_delay_days: days until the label of a row is known. A training that splits the rows by day needs it.
    """
    feature_types = {name: pa.float64() if kind == "number" else pa.string() for name, kind in dataset.features.items()}
    key_types = {name: row_schema.field(name).type for name in dataset.key}
    columns = {**key_types, **{name: kind for name, kind in feature_types.items() if name not in key_types}}
    description = {
        "dataset": dataset.name,
        "key": list(dataset.key),
        "label": dataset.label,
        "task": dataset.task,
        "features": dict(dataset.features),
        "day": DATE_COLUMN if DATE_COLUMN in dataset.key else "",
        "unit": dataset.partition,
        "label_delay_days": label_delay_days,
    }
    fields = [*columns.items(), (dataset.label, find_label_type(dataset, row_schema))]
    return pa.schema(fields, {METADATA_KEY: json.dumps(description).encode()})


def write_features(batches: Iterable[pa.RecordBatch], schema: pa.Schema, folder: Path) -> int:
    """Write features to data.parquet in `folder`; return the number of rows.

    Memory does not grow with the rows. Equal rows give equal bytes.

    Args:
        batches: batches of features, sorted by key; each key occurs once.
        schema: schema that `build_feature_schema` returned.
        folder: folder to write; created if it does not exist.

    Raises:
        DataError: a key occurs twice, or is null. A retry cannot help.
    """
    folder.mkdir(parents=True, exist_ok=True)
    key_columns, row_count = json.loads(schema.metadata[METADATA_KEY])["key"], 0
    last_key: pa.Table | None = None
    with (
        closing(prefetch(batches, PREFETCHED_BATCHES)) as prefetched_batches,
        pq.ParquetWriter(folder / FILE_NAME, schema, compression="zstd") as writer,
    ):
        for group in _regroup(prefetched_batches, schema):
            keys = group.select(key_columns)
            _check_keys(keys if last_key is None else pa.concat_tables([last_key, keys]))
            writer.write_table(group, row_group_size=GROUP_ROWS)
            last_key, row_count = keys.slice(keys.num_rows - 1), row_count + group.num_rows
    return row_count


def _regroup(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows in tables of `GROUP_ROWS`; only the last table may be smaller."""
    pending_batches: list[pa.RecordBatch] = []
    pending_rows = 0
    for batch in batches:
        remainder = batch.cast(schema)
        while pending_rows + remainder.num_rows >= GROUP_ROWS:
            missing_rows = GROUP_ROWS - pending_rows
            yield pa.Table.from_batches([*pending_batches, remainder.slice(0, missing_rows)], schema).combine_chunks()
            pending_batches, pending_rows, remainder = [], 0, remainder.slice(missing_rows)
        pending_batches.append(remainder)
        pending_rows += remainder.num_rows
    if pending_rows:
        yield pa.Table.from_batches(pending_batches, schema).combine_chunks()


def _check_keys(keys: pa.Table) -> None:
    """Refuse a null key, and two consecutive rows with the same key, because engines could order them differently."""
    null_columns = [name for name in keys.column_names if keys[name].null_count]
    if null_columns:
        raise DataError(
            f"the key column {null_columns[0]} is null in {keys[null_columns[0]].null_count} rows.",
            "Correct the source.",
        )
    is_repeated = pa.chunked_array([pa.repeat(True, keys.num_rows - 1)]) if keys.num_rows > 1 else None
    for name in keys.column_names if is_repeated else ():
        is_repeated = pc.and_(is_repeated, pc.equal(keys[name].slice(1), keys[name].slice(0, keys.num_rows - 1)))
    if is_repeated and (index := pc.index(is_repeated, True).as_py()) >= 0:
        raise DataError(f"the key {keys.slice(index, 1).to_pylist()[0]} occurs twice.", "Correct the source.")
