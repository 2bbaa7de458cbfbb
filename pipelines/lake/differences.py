"""What a partition's new rows change of its old ones, in memory that does not grow with them.

Rows are compared by 64-bit hashes of them and of their keys, sorted out into files by the key's, a file at a time: a
row that changed goes unseen once in 2^64. Equal rows of DuckDB's have equal hashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from pyiceberg.table import DataScan

from pipelines.lake import views
from pipelines.lake.commits import Changes
from pipelines.lake.spool import Spool
from pipelines.system.duckdb_session import connect, create_view, quote_identifier, spill_folder

BUCKETS = 64
"""Files that the hashes are sorted out into: 10 M rows before and after are 5 MB each."""
BATCH_ROWS = 64 * 1024
_HASH_TYPE = np.dtype([("key", "u8"), ("row", "u8"), ("had", "?")])
# One query for both, so that a column has one type in them: equal numbers of two types have two hashes.
_HASHES = """
SELECT hash({key}) AS key, hash({row}) AS row, {had} AS had
FROM (SELECT true AS {had}, * FROM had UNION ALL BY NAME SELECT false AS {had}, * FROM has)
"""


def count_changes(old: DataScan, spool: Spool, key: Sequence[str], aside: Sequence[str] = ()) -> Changes:
    """How the spool's rows differ from those of the scan, as multisets: their order does not matter.

    Args:
        old: the partition as it is.
        spool: the partition as it would be.
        key: columns that name a row; where it is empty, a changed row is one removed and one added.
        aside: columns that are not looked at.
    """
    schema = _merge_schemas(views.read_schema(old), spool.schema)
    compared = [name for name in schema.names if name not in aside]
    with connect() as connection, spill_folder() as folder:
        with (
            views.create_scan_view(connection, "had", old, schema),
            create_view(connection, "has", views.localize_files(old.io, spool.paths, folder), schema),
        ):
            _write_buckets(_read_hashes(connection, compared, key or compared), folder)
        counted = [_count_bucket(np.fromfile(_bucket_path(folder, one), _HASH_TYPE)) for one in range(BUCKETS)]
    came, went, same = (sum(one) for one in zip(*counted, strict=True))
    changed = same if key else 0
    return Changes(added=came - changed, removed=went - changed, changed=changed)


def _merge_schemas(had: pa.Schema, has: pa.Schema) -> pa.Schema:
    """All columns, as the new rows have them where they do."""
    kinds = {one.name: one.type for one in had} | {one.name: one.type for one in has}
    return pa.schema(list(kinds.items()))


def _read_hashes(
    connection: duckdb.DuckDBPyConnection, columns: Sequence[str], key: Sequence[str]
) -> pa.RecordBatchReader:
    # DuckDB 2.0 would keep the files' content in its own memory, which is read once here.
    connection.execute("SET enable_external_file_cache = false")
    connection.execute("SET preserve_insertion_order = false")
    row, named = (", ".join(quote_identifier(one) for one in names) for names in (columns, key))
    return connection.sql(_HASHES.format(key=named, row=row, had=quote_identifier("leeway had"))).to_arrow_reader(
        BATCH_ROWS
    )


def _write_buckets(hashes: pa.RecordBatchReader, folder: Path) -> None:
    """Each file has all rows of some keys."""
    with ExitStack() as stack:
        files = [stack.enter_context(_bucket_path(folder, one).open("wb")) for one in range(BUCKETS)]
        for batch in hashes:
            found = np.empty(batch.num_rows, _HASH_TYPE)
            for name in _HASH_TYPE.names or ():
                found[name] = batch[name].to_numpy(zero_copy_only=False)
            place = (found["key"] % BUCKETS).astype("u1")
            order = np.argsort(place, kind="stable")
            ends = np.cumsum(np.bincount(place, minlength=BUCKETS))
            for file, rows in zip(files, np.split(found[order], ends[:-1]), strict=True):
                rows.tofile(file)


def _bucket_path(folder: Path, number: int) -> Path:
    return folder / f"{number:02d}.hashes"


def _count_bucket(found: np.ndarray) -> tuple[int, int, int]:
    """Rows that came, rows that went, and how many of both are of the same key."""
    rows, first, place = np.unique(found["row"], return_index=True, return_inverse=True)
    balance = np.bincount(place, np.where(found["had"], -1, 1), len(rows))
    keys, of_key = np.unique(found["key"][first], return_inverse=True)
    came, went = (np.bincount(of_key, np.maximum(one, 0), len(keys)) for one in (balance, -balance))
    return int(came.sum()), int(went.sum()), int(np.minimum(came, went).sum())
