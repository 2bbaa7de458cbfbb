"""Write a few rows to one file whose name contains the digest of its content."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import Table

from pipelines.lake.commits import DATE_COLUMN
from pipelines.lake.new_files import NewFiles, remove_unused_files

DIGEST_IN_NAME = re.compile(r"-([0-9a-f]{64})\.parquet$")
"""End of the name of a file that `write_file_with_digest` wrote."""


@contextmanager
def write_file_with_digest(table: Table, day: dt.date, rows: pa.Table) -> Iterator[NewFiles]:
    """Write a few rows to one file in the table's folder; remove it when the block ends, unless it is committed.

    The digest of the content is in the file's name, so it is still known after the snapshot that wrote the file has
    expired.
    """
    content = pa.BufferOutputStream()
    with pq.ParquetWriter(content, rows.schema, compression="zstd") as writer:
        writer.write_table(rows)
    buffer = content.getvalue()
    digest = hashlib.sha256(buffer).hexdigest()
    path = f"{table.location()}/data/{DATE_COLUMN}={day}/{uuid.uuid4()}-{digest}.parquet"
    new_files = NewFiles(rows.schema, [path], rows.num_rows, digest)
    try:
        with table.io.new_output(path).create(overwrite=True) as target:
            target.write(buffer)
        yield new_files
    finally:
        remove_unused_files(table, new_files)


def read_digest_in_name(location: str) -> str:
    """Return the SHA-256 in the name of a file that `write_file_with_digest` wrote; empty for other files."""
    match = DIGEST_IN_NAME.search(location)
    return match[1] if match else ""
