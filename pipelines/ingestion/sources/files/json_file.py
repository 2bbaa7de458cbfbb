"""Read JSON lines in blocks."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import json

from pipelines.errors import DataError
from pipelines.ingestion.sources.files.text_stream import Utf8Stream
from pipelines.ingestion.sources.layouts import Layout, check_columns, is_read_as_text

BLOCK_BYTES = 1024 * 1024
"""Bytes that are parsed at a time. A line cannot be longer."""
ROW_PATTERN = re.compile(r" in row (\d+)")
COLUMN_PATTERN = re.compile(r"Column\(/([^)]*)\) changed from (\w+) to (\w+)")
"""Parts of messages of pyarrow 25: the row of an error, and a value of another type than the column."""
UNEXPECTED_FIELDS = {"guess": "infer", "take": "error", "ignore": "ignore"}
"""Maps each value of `Layout.extra` to pyarrow's option for fields that its schema lacks. With `take`, the schema has
all columns of the first lines, so a new field in a later line is an error. `guess` is not a value of `extra`: with it,
this module infers the columns and types of the first lines."""


def read_batches(file: Any, origin: str, layout: Layout) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield batches, each with the number of its first line, from 1; no batch for an empty file.

    Empty lines are skipped, and are not counted in the numbers.

    Raises:
        DataError: a column is missing, a value does not have its type, or the file is truncated. A retry cannot help.
        SpecError: there is no such encoding. A retry cannot help.
    """
    # pyarrow 25 replaces bytes that are not UTF-8 with U+FFFD and reports nothing, so the stream checks them.
    text = Utf8Stream(file, origin, layout.encoding, 2 * BLOCK_BYTES)
    if not text.head.strip():
        return
    row = 1
    try:
        for batch in _open_reader(text, _choose_types(text.head, origin, layout), layout.extra):
            yield row, batch
            row += batch.num_rows
    except pa.ArrowInvalid as error:
        raise _translate_error(str(error), origin, row) from None


def _open_reader(source: Any, types: dict[str, pa.DataType], extra: str) -> Any:
    return json.open_json(
        source,
        read_options=json.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
        parse_options=json.ParseOptions(
            explicit_schema=pa.schema(list(types.items())), unexpected_field_behavior=UNEXPECTED_FIELDS[extra]
        ),
    )


def _choose_types(head: bytes, origin: str, layout: Layout) -> dict[str, pa.DataType]:
    """Return the types in which pyarrow reads the columns: from the declared types or else from the first lines."""
    declared_types = {name: _choose_reading_type(data_type) for name, data_type in layout.columns.items()}
    lines = head[: head.rfind(b"\n") + 1] or head  # without the last line, which may be incomplete
    names = _open_reader(io.BytesIO(lines), {}, "guess").schema.names
    check_columns(origin, list(declared_types), names)
    schema = _open_reader(io.BytesIO(lines), declared_types, "guess").schema
    undeclared_names = layout.list_undeclared_columns(names)
    return declared_types | {
        name: _choose_undeclared_type(schema.field(name).type, name, origin) for name in undeclared_names
    }


def _choose_reading_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type in which pyarrow reads a declared column: text for dates and times, which are converted later."""
    return pa.string() if is_read_as_text(data_type) or pa.types.is_temporal(data_type) else data_type


def _choose_undeclared_type(data_type: pa.DataType, name: str, origin: str) -> pa.DataType:
    """Return the type in which pyarrow reads an undeclared column, from the inferred type; refuse a nested column."""
    if pa.types.is_nested(data_type):
        raise DataError(f"{origin}: column {name} is nested.", 'Declare it as a struct or list, or set extra="ignore".')
    return data_type if data_type in (pa.int64(), pa.float64(), pa.bool_()) else pa.string()


def _translate_error(error: str, origin: str, row: int) -> DataError:
    """Translate pyarrow's error, which counts lines within a block, into an error with the line in the file."""
    match = ROW_PATTERN.search(error)
    text = ROW_PATTERN.sub("", error).removeprefix("JSON parse error: ").strip().rstrip(".")
    line_text = f"line {row + int(match[1])}" if match else f"after line {row - 1}"
    if mismatch := COLUMN_PATTERN.search(text):
        text = f"column {mismatch[1]}: got a {mismatch[3]}, expected a {mismatch[2]}"
    if "unexpected field" in text:
        return DataError(
            f"{origin}: {line_text}: a column that the first lines do not have.", "Declare it in columns=."
        )
    return DataError(f"{origin}: {line_text}: {text[:300]}.", "It must be complete JSON, with one object on each line.")
