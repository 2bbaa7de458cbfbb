"""Features as Parquet files that describe themselves: key, features and label are in their metadata."""

from __future__ import annotations

import json
from pathlib import Path

import ibis
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.dataset import Dataset

METADATA = b"leeway"
FILE = "data.parquet"


def build(chosen: Dataset, rows: pa.Table) -> pa.Table:
    """Key, features and label of every row of `rows`, sorted by key; the label is null where it never became known."""
    known = ibis.memtable(rows)
    built = chosen.build()(known)
    label = known.select(*chosen.key, chosen.label)
    joined = built.join(label, list(chosen.key)).order_by(*chosen.key)
    columns = [*chosen.key, *(name for name in chosen.features if name not in chosen.key), chosen.label]
    table: pa.Table = joined.select(*columns).to_pyarrow()
    return table.replace_schema_metadata({METADATA: json.dumps(_schema(chosen)).encode()})


def write_split(chosen: Dataset, rows: pa.Table, folder: Path) -> int:
    """`folder`/data.parquet holds the labelled rows of `rows`. Equal rows give equal bytes. Returns their number."""
    table = build(chosen, rows)
    labelled = table.filter(table[chosen.label].is_valid())
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(labelled, folder / FILE, compression="zstd")
    return int(labelled.num_rows)


def _schema(chosen: Dataset) -> dict[str, object]:
    return {"dataset": chosen.name, "key": list(chosen.key), "label": chosen.label, "features": dict(chosen.features)}
