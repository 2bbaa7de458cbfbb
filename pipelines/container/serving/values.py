"""Format and parse the keys and values of lookups, in the same way for rows of the lake and of requests."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa


def iterate_identifiers(key_columns: Sequence[str], rows: pa.Table | pa.RecordBatch) -> Iterator[str]:
    """Yield the identifier of each row's record: its key as a JSON text; empty if a value of the key is missing.

    Args:
        key_columns: columns of the key in the rows.
        rows: rows with these columns.
    """
    columns = [rows[name].to_pylist() for name in key_columns]
    for key in zip(*columns, strict=True):
        is_missing = any(value is None for value in key)
        yield "" if is_missing else json.dumps(key, default=_format_time, ensure_ascii=False, separators=(",", ":"))


def format_values(values: Mapping[str, Any]) -> dict[str, str]:
    """Format features as texts, from which `parse_value` reads the same bits. Missing values are left out."""
    return {name: _format(value) for name, value in values.items() if not _is_missing(value)}


def parse_value(kind: str, text: str | None) -> float | str | None:
    """Parse a feature's value as `format_values` wrote it; None is a missing value.

    Args:
        kind: kind of the feature, number or category.
        text: the text, or None.
    """
    return text if text is None or kind != "number" else float(text)


def build_array(kind: str, values: Sequence[float | str | None]) -> pa.Array:
    """Return the values of a feature as a column of the type that it has in training.

    Args:
        kind: kind of the feature, number or category.
        values: the values; None is a missing value.
    """
    return pa.array(values, pa.float64() if kind == "number" else pa.string())


def _format(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)  # the shortest text that gives the same bits


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _format_time(value: Any) -> str:
    return str(value.isoformat())
