"""Features as Parquet files that describe themselves: key, features and label are in their metadata."""

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
"""Of a row group: equal rows give equal bytes, in whatever batches an engine gives them."""
PREFETCHED_BATCHES = 4
"""Batches that an engine may be ahead of the writer, each on a core of its own."""
LABEL = "leeway.label"
"""Name that the label goes by while the features are built, so that none is made of it."""


def build_labelled(chosen: Dataset, rows: ibis.Table) -> ibis.Table:
    """`build` without the rows whose label never became known, sorted by key.

    They are left out last: they count where features look at their neighbours.
    """
    built = build(chosen, rows)
    return built.filter(built[chosen.label].notnull()).order_by(*chosen.key)


def build_all(chosen: Dataset, rows: ibis.Table) -> ibis.Table:
    """`build`, sorted by key: what is scored is made as what is trained on."""
    return build(chosen, rows).order_by(*chosen.key)


def build(chosen: Dataset, rows: ibis.Table) -> ibis.Table:
    """Key, features and label of every row of `rows`; the label is null where it never became known.

    Nothing of `chosen.later_known` is there to be used: an expression that names it does not compile.

    Raises:
        DataError: a feature of the dataset is not built.
    """
    hidden = dict.fromkeys((*chosen.later_known, chosen.label))
    known = rows.mutate(**{LABEL: rows[chosen.label]}).drop(*hidden)
    built = chosen.load_features()(known)
    missing = [name for name in (*chosen.key, *chosen.features, LABEL) if name not in built.columns]
    if missing:
        raise DataError(f"the features of {chosen.name} lack {', '.join(missing)}.", "Its `features` must keep `rows`.")
    columns = [built[name] for name in chosen.key]
    columns += [_cast(built[name], kind) for name, kind in chosen.features.items() if name not in chosen.key]
    return built.select(*columns, built[LABEL].name(chosen.label))


def find_source_columns(chosen: Dataset, rows: pa.Schema) -> dict[str, frozenset[str]]:
    """Of each feature the columns of `rows` that it is made of."""
    built = build(chosen, ibis.table(ibis.Schema.from_pyarrow(rows), name="rows"))
    return {name: frozenset(_find_columns(built[name].op())) for name in chosen.features}


def _find_columns(value: ops.Value) -> Iterator[str]:
    """The table's own columns below an expression."""
    for one in value.find(ops.Field, filter=ops.Value):
        if isinstance(one.rel, ops.UnboundTable):
            yield one.name
        else:
            yield from _find_columns(one.rel.values[one.name])


def _cast(column: ibis.Column, kind: str) -> ibis.Column:
    return column.cast("float64").name(column.get_name()) if kind == "number" else column


def feature_schema(chosen: Dataset, rows: pa.Schema) -> pa.Schema:
    """Of the features of rows with the columns `rows`, whichever engine builds them."""
    kinds = {name: pa.float64() if kind == "number" else pa.string() for name, kind in chosen.features.items()}
    keys = {name: rows.field(name).type for name in chosen.key}
    columns = {**keys, **{name: kind for name, kind in kinds.items() if name not in keys}}
    told = {"dataset": chosen.name, "key": list(chosen.key), "label": chosen.label, "features": dict(chosen.features)}
    fields = [*columns.items(), (chosen.label, rows.field(chosen.label).type)]
    return pa.schema(fields, {METADATA: json.dumps(told).encode()})


def write_features(built: Iterable[pa.RecordBatch], wanted: pa.Schema, folder: Path) -> int:
    """`folder`/data.parquet holds the features, as `schema` says. Returns the number of rows.

    Memory does not grow with them. Equal rows give equal bytes.

    Args:
        built: sorted by key, each key once.
        wanted: of `schema`.
        folder: made.

    Raises:
        DataError: a key is there twice, or is null.
    """
    folder.mkdir(parents=True, exist_ok=True)
    keys, rows = json.loads(wanted.metadata[METADATA])["key"], 0
    last: pa.Table | None = None
    with (
        closing(prefetch(built, PREFETCHED_BATCHES)) as batches,
        pq.ParquetWriter(folder / FILE, wanted, compression="zstd") as writer,
    ):
        for group in _regroup(batches, wanted):
            here = group.select(keys)
            _check_keys(here if last is None else pa.concat_tables([last, here]))
            writer.write_table(group, row_group_size=GROUP_ROWS)
            last, rows = here.slice(here.num_rows - 1), rows + group.num_rows
    return rows


def _regroup(batches: Iterable[pa.RecordBatch], wanted: pa.Schema) -> Iterator[pa.Table]:
    """The rows in tables of `GROUP_ROWS`; the last one has what is left."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        rest = batch.cast(wanted)
        while count + rest.num_rows >= GROUP_ROWS:
            here = GROUP_ROWS - count
            yield pa.Table.from_batches([*waiting, rest.slice(0, here)], wanted).combine_chunks()
            waiting, count, rest = [], 0, rest.slice(here)
        waiting.append(rest)
        count += rest.num_rows
    if count:
        yield pa.Table.from_batches(waiting, wanted).combine_chunks()


def _check_keys(keys: pa.Table) -> None:
    """Refuses neighbours with equal keys, and nulls: an engine would be free to order such rows as it likes."""
    empty = [name for name in keys.column_names if keys[name].null_count]
    if empty:
        raise DataError(f"the key column {empty[0]} is null in {keys[empty[0]].null_count} rows.", "Mend the source.")
    same = pa.chunked_array([pa.repeat(True, keys.num_rows - 1)]) if keys.num_rows > 1 else None
    for name in keys.column_names if same else ():
        same = pc.and_(same, pc.equal(keys[name].slice(1), keys[name].slice(0, keys.num_rows - 1)))
    if same and (at := pc.index(same, True).as_py()) >= 0:
        raise DataError(f"the key {keys.slice(at, 1).to_pylist()[0]} is there twice.", "Mend the source.")
