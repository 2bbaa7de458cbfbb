"""Build features and write them to Parquet files whose metadata name the key, the features and the label."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import ibis
import ibis.expr.operations as ops
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.features.prefetch import prefetch

METADATA = b"leeway"
FILE = "data.parquet"
GROUP_ROWS = 128 * 1024
"""Rows of a row group: equal rows give equal bytes, whatever the size of the engine's batches."""
PREFETCHED_BATCHES = 4
"""Batches that the engine computes ahead, while the writer uses another core."""
LABEL = "leeway.label"
"""Name of the label while the features are built, so that no feature can be made of it."""


def build_labelled(dataset: Dataset, rows: ibis.Table) -> ibis.Table:
    """Return the features of the rows with a label, sorted by key.

    Rows whose label never became known are left out last: features of other rows may be computed from them.
    """
    built = build(dataset, rows)
    return built.filter(built[dataset.label].notnull()).order_by(*dataset.key)


def build_all(dataset: Dataset, rows: ibis.Table) -> ibis.Table:
    """Return the features of all rows, sorted by key: scoring builds features exactly as training does."""
    return build(dataset, rows).order_by(*dataset.key)


def build(dataset: Dataset, rows: ibis.Table) -> ibis.Table:
    """Return key, features and label of every row; the label is null where it never became known.

    The columns of `dataset.later_known` are removed first: an expression that names one of them does not compile.

    Raises:
        DataError: the dataset's function does not build all its features. A retry cannot help.
    """
    hidden = dict.fromkeys((*dataset.later_known, dataset.label))
    visible = rows.mutate(**{LABEL: rows[dataset.label]}).drop(*hidden)
    built = dataset.load_features()(visible)
    missing = [name for name in (*dataset.key, *dataset.features, LABEL) if name not in built.columns]
    if missing:
        raise DataError(
            f"the features of {dataset.name} lack {', '.join(missing)}.", "Its `features` must keep `rows`."
        )
    columns = [built[name] for name in dataset.key]
    columns += [_cast(built[name], kind) for name, kind in dataset.features.items() if name not in dataset.key]
    return built.select(*columns, built[LABEL].name(dataset.label))


def find_source_columns(dataset: Dataset, rows: pa.Schema) -> dict[str, frozenset[str]]:
    """Return for each feature the columns of `rows` that it is computed from."""
    built = build(dataset, ibis.table(ibis.Schema.from_pyarrow(rows), name="rows"))
    return {name: frozenset(_find_columns(built[name].op())) for name in dataset.features}


def _find_columns(value: ops.Value) -> Iterator[str]:
    """Yield the table's own columns that an expression uses."""
    for column in value.find(ops.Field, filter=ops.Value):
        if isinstance(column.rel, ops.UnboundTable):
            yield column.name
        else:
            yield from _find_columns(column.rel.values[column.name])


def _cast(column: ibis.Column, kind: str) -> ibis.Column:
    return column.cast("float64").name(column.get_name()) if kind == "number" else column


def build_feature_schema(dataset: Dataset, rows: pa.Schema) -> pa.Schema:
    """Return the schema of the features of rows with the columns `rows`: it is the same for all engines."""
    kinds = {name: pa.float64() if kind == "number" else pa.string() for name, kind in dataset.features.items()}
    keys = {name: rows.field(name).type for name in dataset.key}
    columns = {**keys, **{name: kind for name, kind in kinds.items() if name not in keys}}
    description = {
        "dataset": dataset.name,
        "key": list(dataset.key),
        "label": dataset.label,
        "features": dict(dataset.features),
    }
    fields = [*columns.items(), (dataset.label, rows.field(dataset.label).type)]
    return pa.schema(fields, {METADATA: json.dumps(description).encode()})


def write_features(batches: Iterable[pa.RecordBatch], schema: pa.Schema, folder: Path) -> int:
    """Write features to `folder`/data.parquet; return the number of rows.

    Memory does not grow with the rows. Equal rows give equal bytes.

    Args:
        batches: of features, sorted by key, each key once.
        schema: as `build_feature_schema` returns it.
        folder: created.

    Raises:
        DataError: a key occurs twice, or is null. A retry cannot help.
    """
    folder.mkdir(parents=True, exist_ok=True)
    keys, rows = json.loads(schema.metadata[METADATA])["key"], 0
    last: pa.Table | None = None
    with (
        closing(prefetch(batches, PREFETCHED_BATCHES)) as prefetched,
        pq.ParquetWriter(folder / FILE, schema, compression="zstd") as writer,
    ):
        for group in _regroup(prefetched, schema):
            group_keys = group.select(keys)
            _check_keys(group_keys if last is None else pa.concat_tables([last, group_keys]))
            writer.write_table(group, row_group_size=GROUP_ROWS)
            last, rows = group_keys.slice(group_keys.num_rows - 1), rows + group.num_rows
    return rows


def _regroup(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows in tables of `GROUP_ROWS`; the last table has the rest."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        rest = batch.cast(schema)
        while count + rest.num_rows >= GROUP_ROWS:
            missing = GROUP_ROWS - count
            yield pa.Table.from_batches([*waiting, rest.slice(0, missing)], schema).combine_chunks()
            waiting, count, rest = [], 0, rest.slice(missing)
        waiting.append(rest)
        count += rest.num_rows
    if count:
        yield pa.Table.from_batches(waiting, schema).combine_chunks()


def _check_keys(keys: pa.Table) -> None:
    """Refuse equal keys of neighbours, and null keys: the order of such rows would differ between engines."""
    empty = [name for name in keys.column_names if keys[name].null_count]
    if empty:
        raise DataError(
            f"the key column {empty[0]} is null in {keys[empty[0]].null_count} rows.", "Correct the source."
        )
    same = pa.chunked_array([pa.repeat(True, keys.num_rows - 1)]) if keys.num_rows > 1 else None
    for name in keys.column_names if same else ():
        same = pc.and_(same, pc.equal(keys[name].slice(1), keys[name].slice(0, keys.num_rows - 1)))
    if same and (at := pc.index(same, True).as_py()) >= 0:
        raise DataError(f"the key {keys.slice(at, 1).to_pylist()[0]} occurs twice.", "Correct the source.")
