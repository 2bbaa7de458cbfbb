"""Read the rows of the Parquet files of a channel as batches of tensors, one row group at a time."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from pipelines.container.torch.order import Selection
from pipelines.container.torch.sources import Batch, list_files
from pipelines.errors import DataError

MAX_OPEN_FILES = 64
"""Largest number of files that a reader keeps open."""
DEFAULT_BUFFER = 50_000
"""Smallest number of rows that are shuffled together, unless the script sets it."""
READ_ERRORS = (OSError, pa.ArrowException, ValueError)
"""Errors that pyarrow raises for a damaged file."""


@dataclass(frozen=True)
class RowArrays:
    """Rows in memory: `arrays` maps each name in the batch to an array with an entry for each row."""

    arrays: Mapping[str, np.ndarray[Any, Any]]

    def slice(self, start: int, stop: int) -> dict[str, np.ndarray[Any, Any]]:
        """Return the rows from `start` up to `stop`, not copied."""
        return {name: array[start:stop] for name, array in self.arrays.items()}


class ParquetRows:
    """The rows of all Parquet files of a channel: a `Source` whose blocks and parts are the row groups.

    Whole row groups are read. A reader has at most one buffer of shuffled rows and one row group in memory. All files
    must have the columns that are read, with the same types.

    Args:
        folder: folder of the channel.
        columns: maps each name in the batch to a column of the files, or to several. One column becomes a tensor of
            its type, with a row for each sample. Several columns become one float32 matrix, with a row for each sample
            and a column for each column of the files. None: each column of the files, under its own name.

    Raises:
        DataError: there is no file or no row, a file is damaged, lacks a column or has it with another type, or a
            column does not hold numbers. A retry cannot help.
    """

    part_name = "row group"
    part_hint = "Write smaller row groups: `pq.write_table(..., row_group_size=10_000)`."
    default_buffer = DEFAULT_BUFFER

    def __init__(self, folder: Path, columns: Mapping[str, str | Sequence[str]] | None = None) -> None:
        self._folder, paths = folder, list_files(folder, ".parquet")
        schema = _read_footer(paths[0]).schema_arrow
        self._columns = dict(columns) if columns is not None else {name: name for name in schema.names}
        self._names = list(dict.fromkeys(name for columns in self._columns.values() for name in _list_names(columns)))
        self._types = _find_types(paths[0], schema, self._names)
        self._groups: list[tuple[Path, int]] = []
        self.sizes: list[int] = []
        for path in paths:
            self._add_file(path, paths[0])
        if not self.sizes:
            raise DataError(f"the channel {folder.name} has no rows.", f"Its {len(paths)} file(s) are in {folder}.")
        self.part_count = len(self.sizes)
        self.description = f"the channel {folder.name} has {self.part_count} row group(s) in {len(paths)} file(s)"
        digest = hashlib.sha256(repr((self._columns, self._types)).encode())
        for (path, group), size in zip(self._groups, self.sizes, strict=True):
            digest.update(f"{path.relative_to(folder)}\n{group} {size}\n".encode())
        self.identity = digest.hexdigest()

    @contextmanager
    def open(self) -> Iterator[Callable[[Selection], RowArrays]]:
        """Yield the function that reads the rows of a selection, and close its files at the end."""
        files = _OpenFiles()
        try:
            yield lambda selection: self._read(files, selection)
        finally:
            files.close()

    def collate(self, slices: Sequence[Mapping[str, np.ndarray[Any, Any]]]) -> Batch:
        """Return a batch of slices of rows; a single slice is not copied."""
        if len(slices) == 1:
            return {name: torch.from_numpy(array) for name, array in slices[0].items()}
        return {name: torch.from_numpy(np.concatenate([rows[name] for rows in slices])) for name in self._columns}

    def _add_file(self, path: Path, first_path: Path) -> None:
        footer = _read_footer(path)
        types = _find_types(path, footer.schema_arrow, self._names)
        if types != self._types:
            name = next(name for name in self._names if types[name] != self._types[name])
            raise DataError(
                f"the column {name} is of type {types[name]} in {path.name}, and of type {self._types[name]} in "
                f"{first_path.name}.",
                "Write all files of a channel with the same types.",
            )
        for group in range(footer.num_row_groups):
            if size := footer.metadata.row_group(group).num_rows:
                self._groups.append((path, group))
                self.sizes.append(size)

    def _read(self, files: _OpenFiles, selection: Selection) -> RowArrays:
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        for block, positions in selection.blocks:
            path, group = self._groups[block]
            try:
                table = files.get(path).read_row_group(group, columns=self._names, use_threads=False)
                values = {name: self._convert(table, path, columns) for name, columns in self._columns.items()}
            except READ_ERRORS as error:
                raise DataError(f"row group {group} of {path.name} cannot be read: {error}.", _REWRITE_HINT) from None
            _check_row_count(table, len(positions), path, group)
            is_selected = positions >= 0  # -1: the row is not selected
            for name, array in values.items():
                if name not in arrays:
                    arrays[name] = np.empty((selection.count, *array.shape[1:]), array.dtype)
                arrays[name][positions[is_selected]] = array if is_selected.all() else array[is_selected]
        return RowArrays(arrays)

    def _convert(self, table: pa.Table, path: Path, columns: str | Sequence[str]) -> np.ndarray[Any, Any]:
        if isinstance(columns, str):
            return _convert_column(table.column(columns), path, columns)
        matrix = np.empty((table.num_rows, len(columns)), np.float32)
        for number, name in enumerate(columns):
            matrix[:, number] = table.column(name).cast(pa.float32(), safe=False).to_numpy()
        return matrix


class _OpenFiles:
    """The open files of a reader: a cache with the `MAX_OPEN_FILES` files that were used last (LRU)."""

    def __init__(self) -> None:
        self._files: OrderedDict[Path, pq.ParquetFile] = OrderedDict()

    def get(self, path: Path) -> pq.ParquetFile:
        file = self._files.pop(path, None) or _open_file(path)
        self._files[path] = file
        if len(self._files) > MAX_OPEN_FILES:
            self._files.popitem(last=False)[1].close()
        return file

    def close(self) -> None:
        for file in self._files.values():
            file.close()


_REWRITE_HINT = "Write the file again."


def _read_footer(path: Path) -> pq.ParquetFile:
    """Return the closed file: its schema and its metadata stay readable."""
    try:
        with _open_file(path) as file:
            return file
    except READ_ERRORS as error:
        raise DataError(f"{path.name} cannot be read as a Parquet file: {error}.", _REWRITE_HINT) from None


def _open_file(path: Path) -> pq.ParquetFile:
    # Without this argument, pyarrow returns wrong values for a damaged page that can still be decoded.
    return pq.ParquetFile(path, page_checksum_verification=True)


def _check_row_count(table: pa.Table, expected_count: int, path: Path, group: int) -> None:
    if table.num_rows != expected_count:
        raise DataError(
            f"row group {group} of {path.name} has {table.num_rows} rows, and had {expected_count} before.",
            _REWRITE_HINT,
        )


def _list_names(columns: str | Sequence[str]) -> Sequence[str]:
    return [columns] if isinstance(columns, str) else columns


def _find_types(path: Path, schema: pa.Schema, names: Sequence[str]) -> dict[str, str]:
    """Return the types of the columns as text; raise an error if a column is missing, or does not hold numbers."""
    types = {}
    for name in names:
        if name not in schema.names:
            raise DataError(f"{path.name} has no column {name}.", f"It has {', '.join(schema.names)}.")
        column_type = schema.field(name).type
        value_type = column_type.value_type if pa.types.is_fixed_size_list(column_type) else column_type
        is_number = pa.types.is_integer(value_type) or pa.types.is_floating(value_type)
        if not (is_number or pa.types.is_boolean(value_type)):
            raise DataError(
                f"the column {name} of {path.name} is of type {column_type}, which is not a number.",
                "Name the columns to read, or write this one as numbers or as lists of fixed size.",
            )
        types[name] = str(column_type)
    return types


def _convert_column(column: pa.ChunkedArray, path: Path, name: str) -> np.ndarray[Any, Any]:
    """Return the values in the column's own type; a null of a float is NaN, any other null raises a DataError."""
    if pa.types.is_fixed_size_list(column.type):
        chunks = [chunk.flatten() for chunk in column.chunks]
        flat_values = _convert_column(pa.chunked_array(chunks, column.type.value_type), path, name)
        return flat_values.reshape(len(column), column.type.list_size)
    if column.null_count and not pa.types.is_floating(column.type):
        raise DataError(
            f"the column {name} of {path.name} has {column.null_count} null(s), and is of type {column.type}.",
            "Fill them, or write it as a float.",
        )
    values: np.ndarray[Any, Any] = column.to_numpy()
    return values
