"""Rows of JSON lines, a block at a time."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import json

from pipelines.errors import DataError
from pipelines.ingestion.sources.layouts import Layout, as_text, demand
from pipelines.ingestion.sources.place import Text

BLOCK = 1024 * 1024
"""Bytes that are parsed at a time: the longest line."""
ROW = re.compile(r" in row (\d+)")
COLUMN = re.compile(r"Column\(/([^)]*)\) changed from (\w+) to (\w+)")


def batches(file: Any, place: str, layout: Layout) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches, each with the number of its first line. None of an empty file.

    Raises:
        DataError: a column is missing, a value has not its type, or the file is cut off.
    """
    # pyarrow 25 makes U+FFFD of what is no UTF-8, and says nothing.
    text = Text(file, place, layout.encoding, 2 * BLOCK)
    if not text.head.strip():
        return
    row = 1
    try:
        for batch in _reader(text, _kinds(text.head, place, layout), layout.extra):
            yield row, batch
            row += batch.num_rows
    except pa.ArrowInvalid as error:
        raise _told(str(error), place, row) from None


def _reader(source: Any, kinds: dict[str, pa.DataType], extra: str) -> Any:
    return json.open_json(
        source,
        read_options=json.ReadOptions(block_size=BLOCK, use_threads=False),
        parse_options=json.ParseOptions(
            explicit_schema=pa.schema(list(kinds.items())),
            unexpected_field_behavior={"guess": "infer", "take": "error", "ignore": "ignore"}[extra],
        ),
    )


def _kinds(head: bytes, place: str, layout: Layout) -> dict[str, pa.DataType]:
    """The types to read by: those declared, and beside them those of the first lines."""
    declared = {name: _read_as(kind) for name, kind in layout.columns.items()}
    whole = head[: head.rfind(b"\n") + 1] or head
    names = _reader(io.BytesIO(whole), {}, "guess").schema.names
    demand(place, list(declared), names)
    found = _reader(io.BytesIO(whole), declared, "guess").schema
    kinds = {name: _guessed(found.field(name).type, name, place) for name in layout.others(names)}
    return declared | kinds


def _read_as(kind: pa.DataType) -> pa.DataType:
    return pa.string() if as_text(kind) or pa.types.is_temporal(kind) else kind


def _guessed(kind: pa.DataType, name: str, place: str) -> pa.DataType:
    if pa.types.is_nested(kind):
        raise DataError(f"{place}: column {name} is nested.", 'Declare it as a struct or list, or say extra="ignore".')
    return kind if kind in (pa.int64(), pa.float64(), pa.bool_()) else pa.string()


def _told(error: str, place: str, row: int) -> DataError:
    """The complaint of pyarrow, with the number of the line in the file: it counts in a block."""
    found, text = ROW.search(error), ROW.sub("", error).removeprefix("JSON parse error: ").strip().rstrip(".")
    where = f"line {row + int(found[1])}" if found else f"after line {row - 1}"
    if changed := COLUMN.search(text):
        text = f"column {changed[1]}: a {changed[3]} where a {changed[2]} is wanted"
    if "unexpected field" in text:
        return DataError(f"{place}: {where}: a column that the first lines have not.", "Declare it in columns=.")
    return DataError(f"{place}: {where}: {text[:300]}.", "Is it JSON, an object a line, and whole?")
