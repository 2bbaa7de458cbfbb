"""Write keys and values of lookups as texts, and read them: the same for the lake's rows and for those of requests."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipelines.dataset import Dataset
from pipelines.features.building import KEY_PREFIX
from pipelines.lookups import Lookup


def iterate_identifiers(lookup: Lookup, rows: pa.Table | pa.RecordBatch) -> Iterator[str]:
    """Yield the identifier of each row's record: its key as a JSON text; empty if a column of the key is missing.

    Args:
        lookup: lookup whose records are named.
        rows: rows with the columns of the key, with the prefix `KEY_PREFIX`.
    """
    columns = [rows[f"{KEY_PREFIX}{name}"].to_pylist() for name in lookup.key]
    for key in zip(*columns, strict=True):
        is_missing = any(value is None for value in key)
        yield "" if is_missing else json.dumps(key, default=_format_time, ensure_ascii=False, separators=(",", ":"))


def format_values(values: Mapping[str, Any]) -> dict[str, str]:
    """Format features as texts, from which `parse_value` reads the same bits. Missing ones are left out."""
    return {name: _format(value) for name, value in values.items() if not _is_missing(value)}


def parse_value(dataset: Dataset, feature: str, text: str | None) -> float | str | None:
    """Parse a value that `format_values` wrote; None is a missing value."""
    if text is None or dataset.features[feature] != "number":
        return text
    return float(text)


def build_array(dataset: Dataset, feature: str, values: Sequence[float | str | None]) -> pa.Array:
    """Return the values of a feature as the column that training has."""
    return pa.array(values, pa.float64() if dataset.features[feature] == "number" else pa.string())


def _format(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)  # the shortest text that gives the same bits


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _format_time(value: Any) -> str:
    return str(value.isoformat())
