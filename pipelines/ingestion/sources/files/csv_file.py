"""Read a CSV file in blocks."""

from __future__ import annotations

import csv as python_csv
import io
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from pipelines.errors import DataError
from pipelines.ingestion.sources.files.text_stream import Utf8Stream
from pipelines.ingestion.sources.layouts import Layout, check_columns, is_read_as_text

BLOCK_BYTES = 1024 * 1024
"""Number of bytes that are read and converted at a time. A longer row may be refused."""
DELIMITERS = ",;\t|"
"""Delimiters that an error message may suggest."""
VALUE_ERROR = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (.+?): invalid value '(.*)'", re.S
)
ENCODING_ERROR = re.compile(r"In CSV column #(\d+): (?:Row #(\d+): )?.*invalid UTF8 data", re.S)
"""Messages of pyarrow 25 for a value of another type, and for a value in another encoding."""
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
"""A number with a decimal comma."""


def read_batches(file: Any, origin: str, layout: Layout) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield batches, each with the number of its first row; the header is row 1. The first batch may be empty.

    Raises:
        DataError: a column is missing, a value does not have its type, or the file is empty or truncated. A retry
            cannot help.
        SpecError: there is no such encoding. A retry cannot help.
    """
    stream = Utf8Stream(file, origin, layout.encoding, 2 * BLOCK_BYTES, caller_checks_utf8=True)
    names = _read_header(stream.head, origin, layout)
    types = {
        name: pa.string() if is_read_as_text(data_type) else data_type for name, data_type in layout.columns.items()
    }
    try:
        types |= _infer_types(stream.head, origin, layout, names, types)
        row_number = 2
        for batch in _open_reader(stream, layout, types):
            yield row_number, _replace_nulls(batch, layout) if layout.columns_without_null_texts else batch
            row_number += batch.num_rows
        if row_number == 2:  # there is no row after the header
            yield row_number, pa.RecordBatch.from_pylist([], schema=pa.schema(list(types.items())))
    except pa.ArrowInvalid as error:
        raise _translate_error(str(error), origin, names) from None
    _check_complete(stream, origin, layout)


def _open_reader(source: Any, layout: Layout, types: dict[str, pa.DataType], only_typed_columns: bool = True) -> Any:
    """Open pyarrow's reader of batches. With `only_typed_columns`, it reads only the columns in `types`."""
    return csv.open_csv(
        source,
        # pyarrow 25 gives the row number of an error only if it reads in one thread.
        read_options=csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
        parse_options=csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=types,
            include_columns=list(types) if only_typed_columns else None,
            null_values=list(layout.nulls),
            decimal_point=layout.decimal_point,
            strings_can_be_null=not layout.columns_without_null_texts,
        ),
    )


def _replace_nulls(batch: pa.RecordBatch, layout: Layout) -> pa.RecordBatch:
    """Replace the texts that mean a missing value by null. pyarrow 25 has one list of such texts for all columns."""
    for position, column in enumerate(batch.schema):
        if pa.types.is_string(column.type):
            texts = pa.array([""] if column.name in layout.columns_without_null_texts else layout.nulls, pa.string())
            values = batch.column(position)
            is_missing = pc.is_in(values, value_set=texts)
            batch = batch.set_column(position, column, pc.if_else(is_missing, pa.scalar(None, pa.string()), values))
    return batch


def _read_header(head: bytes, origin: str, layout: Layout) -> list[str]:
    if not head.strip():
        raise DataError(f"{origin} is empty: it has no header.")
    line = re.split(r"[\r\n]", head.decode("utf-8", "replace").lstrip("\r\n"), maxsplit=1)[0]
    names = next(python_csv.reader([line], delimiter=layout.delimiter))
    delimiters = [
        delimiter for delimiter in DELIMITERS if len(names) == 1 and delimiter != layout.delimiter and delimiter in line
    ]
    hint = (
        f"One column was found: {line[:80]!r}. If the delimiter is {delimiters[0]!r}, set delimiter=."
        if delimiters
        else ""
    )
    check_columns(origin, list(layout.columns), names, hint)
    return names


def _infer_types(
    head: bytes, origin: str, layout: Layout, names: list[str], declared_types: dict[str, pa.DataType]
) -> dict[str, pa.DataType]:
    """Return the types of the undeclared columns, inferred from the start of the file."""
    undeclared_names = layout.list_undeclared_columns(names)
    if not undeclared_names:
        return {}
    schema = _open_reader(io.BytesIO(head), layout, declared_types, only_typed_columns=False).schema
    types = {name: schema.field(name).type for name in undeclared_names}
    binary_columns = [name for name, data_type in types.items() if pa.types.is_binary(data_type)]
    if binary_columns:
        hint = "Set encoding=, perhaps to latin-1."
        raise DataError(f"column {binary_columns[0]} of {origin} is not in the encoding {layout.encoding}.", hint)
    # Times and timestamps are read as text: another type could be inferred from the file of another day.
    stable_types = (pa.int64(), pa.float64(), pa.bool_(), pa.date32())
    return {name: data_type if data_type in stable_types else pa.string() for name, data_type in types.items()}


def _translate_error(error: str, origin: str, names: list[str]) -> DataError:
    """Translate pyarrow's error, which gives the number of the column, into an error with the name of the column."""
    if match := VALUE_ERROR.search(error):
        column, row, data_type, value = names[int(match[1])], match[2] or "?", match[3], match[4]
        hint = "Declare the column in columns=." if data_type == "null" else ""
        if DECIMAL_COMMA.fullmatch(value) and data_type.startswith(("double", "float", "decimal")):
            hint = 'If it is a decimal comma, set decimal_point=",".'
        return DataError(f"{origin}: row {row}, column {column}: {value[:80]!r} is not of type {data_type}.", hint)
    if match := ENCODING_ERROR.search(error):
        location = f"row {match[2] or '?'}, column {names[int(match[1])]}"
        return DataError(f"{origin} is not in the declared encoding: {location}.", "Set encoding=, perhaps to latin-1.")
    if "straddling" in error:
        return DataError(
            f"{origin}: a row is longer than {BLOCK_BYTES} bytes.", "Check whether a closing quote is missing."
        )
    return DataError(
        f"{origin}: {error.removeprefix('CSV parse error: ').strip()[:300]}.", "Check whether the file is truncated."
    )


def _check_complete(stream: Utf8Stream, origin: str, layout: Layout) -> None:
    """Refuse a file that ends, or may end, in the middle of a value. pyarrow 25 raises no error for such a file."""
    tail = stream.tail.decode("utf-8", "replace")
    open_quote = rf'(?:^|[\r\n{re.escape(layout.delimiter)}])"(?:[^"]|"")*$'
    # The closing quote of a value that ends with the delimiter, such as "x,", looks like an opening quote. The last
    # quote is an opening quote only if the number of quotes is odd.
    if stream.quote_count % 2 and re.search(open_quote, tail):
        raise DataError(
            f"{origin} ends in the middle of a value: {tail[-60:]!r}.", "Check whether the file is truncated."
        )
    if layout.final_newline and not tail.endswith(("\n", "\r")):
        last_line = re.split(r"[\r\n]", tail)[-1]
        hint = "If its last line is complete, add a newline or set final_newline=False; else the file is truncated."
        raise DataError(f"{origin} does not end with a newline: {last_line[-60:]!r}.", hint)
