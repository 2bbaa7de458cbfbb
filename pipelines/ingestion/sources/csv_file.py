"""Rows of a CSV, a block at a time."""

from __future__ import annotations

import csv as words
import io
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import csv

from pipelines.errors import DataError
from pipelines.ingestion.sources.layouts import Layout, as_text, demand
from pipelines.ingestion.sources.place import Text

BLOCK = 1024 * 1024
"""Bytes that are converted at a time: the longest row."""
DELIMITERS = ",;\t|"
VALUE = re.compile(r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (.+?): invalid value '(.*)'", re.S)
ENCODING = re.compile(r"In CSV column #(\d+): (?:Row #(\d+): )?.*invalid UTF8 data", re.S)


def batches(file: Any, place: str, layout: Layout) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches, each with the number of its first row; the header is row 1. The first may be empty.

    Raises:
        DataError: a column is missing, a value has not its type, or the file is cut off.
    """
    text = Text(file, place, layout.encoding, 2 * BLOCK, trusted=True)
    names = _header(text.head, place, layout)
    kinds = {name: pa.string() if as_text(kind) else kind for name, kind in layout.columns.items()}
    try:
        kinds |= _found(text.head, place, layout, names, kinds)
        row = 2
        for batch in _reader(text, layout, kinds):
            yield row, batch
            row += batch.num_rows
        if row == 2:
            yield row, pa.RecordBatch.from_pylist([], schema=pa.schema(list(kinds.items())))
    except pa.ArrowInvalid as error:
        raise _told(str(error), place, names) from None
    _demand_whole(text.tail, place, layout)


def _reader(source: Any, layout: Layout, kinds: dict[str, pa.DataType], only: bool = True) -> Any:
    return csv.open_csv(
        source,
        # One thread: only then pyarrow 25 knows which row an error is in.
        read_options=csv.ReadOptions(block_size=BLOCK, use_threads=False),
        parse_options=csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=kinds,
            include_columns=list(kinds) if only else None,
            null_values=list(layout.nulls),
            strings_can_be_null=True,
        ),
    )


def _header(head: bytes, place: str, layout: Layout) -> list[str]:
    if not head.strip():
        raise DataError(f"{place} is empty: it has not even a header.")
    line = head.decode("utf-8", "replace").lstrip("\r\n").splitlines()[0]
    names = next(words.reader([line], delimiter=layout.delimiter))
    other = next((one for one in DELIMITERS if len(names) == 1 and one != layout.delimiter and one in line), "")
    hint = f"One column was found: {line[:80]!r}. Is the delimiter {other!r}?" if other else ""
    demand(place, list(layout.columns), names, hint)
    return names


def _found(
    head: bytes, place: str, layout: Layout, names: list[str], kinds: dict[str, pa.DataType]
) -> dict[str, pa.DataType]:
    """The types of the columns that were not declared, of the values in the first block."""
    others = layout.others(names)
    if not others:
        return {}
    schema = _reader(io.BytesIO(head), layout, kinds, only=False).schema
    found = {name: schema.field(name).type for name in others}
    wrong = [name for name, kind in found.items() if pa.types.is_binary(kind)]
    if wrong:
        raise DataError(f"{place} is not {layout.encoding}: column {wrong[0]}.", "Say encoding=: latin-1, perhaps.")
    # Times and timestamps only where they are declared: a guess would be another type another day.
    sure = (pa.int64(), pa.float64(), pa.bool_(), pa.date32())
    return {name: kind if kind in sure else pa.string() for name, kind in found.items()}


def _told(error: str, place: str, names: list[str]) -> DataError:
    """The complaint of pyarrow, with the name of the column."""
    if found := VALUE.search(error):
        column, row, kind, value = names[int(found[1])], found[2] or "?", found[3], found[4]
        hint = "" if kind != "null" else "Declare the column in columns=."
        return DataError(f"{place}: row {row}, column {column}: {value[:80]!r} is no {kind}.", hint)
    if found := ENCODING.search(error):
        where = f"row {found[2] or '?'}, column {names[int(found[1])]}"
        return DataError(f"{place} is not the encoding that was said: {where}.", "Say encoding=: latin-1, perhaps.")
    if "straddling" in error:
        return DataError(f"{place}: a row is longer than {BLOCK} bytes.", "Is there a quote that never closes?")
    return DataError(f"{place}: {error.removeprefix('CSV parse error: ').strip()[:300]}.", "Is it only half there?")


def _demand_whole(tail: bytes, place: str, layout: Layout) -> None:
    """Refuses a file that ends within a quoted value, which pyarrow 25 takes for its end."""
    last = tail.decode("utf-8", "replace").rpartition("\n")[2]
    if re.search(rf'(?:^|{re.escape(layout.delimiter)})"(?:[^"]|"")*$', last):
        raise DataError(f"{place} ends in the middle of a value: {last[-60:]!r}.", "Is it only half there?")
