"""Divide a feature file into parts by a hash of each row's key, so that S3 can give each host of a training a share."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.classes import list_classes
from pipelines.errors import DataError
from pipelines.feature_files import FILE_NAME, METADATA_KEY
from pipelines.system.data_files import explain_damage
from pipelines.system.files import sha256

if TYPE_CHECKING:
    from collections.abc import Sequence

PARTS = 60
"""Number of parts. It does not depend on the number of hosts, so a training that was interrupted on 4 hosts finds the
same parts on 2. 60 can be divided evenly among 1 to 6, 10, 12, 15 and 20 hosts."""
BATCH_ROWS = 262_144
"""Number of rows in memory at a time."""


def divide_file(source: Path, folder: Path) -> tuple[int, int]:
    """Write the rows of a feature file to part-00.parquet, part-01.parquet, and so on; a part without rows is left out.

    A row's part depends only on its key. A file without a key is divided by the position of the rows. Memory does not
    grow with the rows. Equal files give equal parts.

    Args:
        source: folder with data.parquet, as the step `preprocess` wrote it.
        folder: folder to write; it exists, and is empty.

    Returns:
        The number of parts that have rows, and the number of rows.

    Raises:
        DataError: the file cannot be read, has no description of its columns in its metadata, or lacks a column that
            the description names. A retry cannot help.
    """
    path = source / FILE_NAME
    with explain_damage(path, "Run `preprocess` again; it writes this file."), pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        description = json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}"))
        if not description:
            raise DataError(f"{path} has no description of its columns.", "The step `preprocess` writes it.")
        _check_columns(path, schema, description)
        parts = {"rows": file.metadata.num_rows, "sha256": sha256(path), **_list_values(file, description)}
        metadata = {**schema.metadata, METADATA_KEY: json.dumps({**description, "parts": parts}).encode()}
        count = _write_parts(file, schema.with_metadata(metadata), description.get("key", []), folder)
    return count, parts["rows"]


def _check_columns(path: Path, schema: pa.Schema, description: dict[str, Any]) -> None:
    names = {*description.get("key", []), *description["features"], description["label"]}
    if missing_names := sorted(names - set(schema.names)):
        raise DataError(
            f"{path} lacks the column(s) {', '.join(missing_names[:10])}.",
            "Run `preprocess` again; it writes this file.",
        )


def _list_values(file: pq.ParquetFile, description: dict[str, Any]) -> dict[str, Any]:
    """List the categories and the classes of all rows, because the rows of one host may not have all of them."""
    names = [name for name, kind in description["features"].items() if kind == "category"]
    label = description["label"] if description.get("task") == "multiclass" else ""
    values: dict[str, set[Any]] = defaultdict(set)
    for batch in file.iter_batches(BATCH_ROWS, columns=[*names, *([label] if label else [])]):
        for name in batch.schema.names:
            values[name].update(batch.column(name).unique().drop_null().to_pylist())
    classes = list_classes(pd.Series(sorted(values[label]))) if label else []
    return {"categories": {name: sorted(values[name]) for name in names}, "classes": classes}


def _write_parts(file: pq.ParquetFile, schema: pa.Schema, key: Sequence[str], folder: Path) -> int:
    """Write each row to its part; return the number of parts that have rows."""
    writers: dict[int, pq.ParquetWriter] = {}
    first_row = 0
    with ExitStack() as stack:
        for batch in file.iter_batches(BATCH_ROWS):
            table = pa.Table.from_batches([batch]).replace_schema_metadata(schema.metadata)
            numbers = _compute_part_numbers(table, key, first_row)
            first_row += table.num_rows
            for number in np.unique(numbers):
                if number not in writers:
                    path = folder / f"part-{number:02d}.parquet"
                    writers[number] = stack.enter_context(pq.ParquetWriter(path, schema, compression="zstd"))
                writers[number].write_table(table.filter(pa.array(numbers == number)))
    return len(writers)


def _compute_part_numbers(table: pa.Table, key: Sequence[str], first_row: int) -> np.ndarray[Any, Any]:
    """Return the number of the part of each row, from 0."""
    if not key:
        return np.arange(first_row, first_row + table.num_rows) % PARTS
    # As text: the hash of an integer would depend on its width.
    texts = table.select(list(key)).to_pandas().astype(str)
    return pd.util.hash_pandas_object(texts, index=False).to_numpy() % PARTS
