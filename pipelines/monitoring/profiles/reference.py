"""The reference: the bins over which a model's partitions are counted, made from the rows it was trained on."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict

from pipelines.errors import DataError
from pipelines.monitoring.profiles.policy import Policy
from pipelines.monitoring.profiles.texts import plain

SCORE = "score"
"""Column of the model's scores."""
SCORE_EDGES = tuple(n / 20 for n in range(21))
MAX_REST = 10_000
"""Values without a bin of their own that are remembered, to tell what training never saw."""

Family = Literal["number", "text", "bool", "null", "other"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Number(_Part):
    """Bins of a number: below the first edge, [edge, next edge) each, above the last edge, which its bin includes."""

    name: str
    family: Family
    """Of the type in training."""
    edges: tuple[float, ...]
    """Ascending; the last two are equal where a bin is of one value. None where training had no finite value."""
    center: float
    """About which sums are taken: the mean in training."""


class Category(_Part):
    """Bins of a category: one a value, one for the other values of training, one for what it never saw."""

    name: str
    family: Family
    """Of the type in training."""
    values: tuple[str, ...]
    """Most frequent first."""
    rest: tuple[str, ...] | None
    """Other values in training; None where they were more than `MAX_REST`: then nothing counts as unseen."""


class Reference(_Part):
    """What is counted of a partition."""

    label: str
    numbers: tuple[Number, ...]
    categories: tuple[Category, ...]

    @cached_property
    def digest(self) -> str:
        """SHA-256: counts of equal references can be added."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    @property
    def names(self) -> set[str]:
        """Columns that are counted."""
        return {*(one.name for one in self.numbers), *(one.name for one in self.categories), SCORE, self.label}

    @property
    def score(self) -> Number:
        """Bins of the score: 20 equal ones of [0, 1]."""
        return Number(name=SCORE, family="number", edges=SCORE_EDGES, center=0.5)


def fit(path: Path, kinds: Mapping[str, str], label: str, policy: Policy) -> Reference:
    """The reference of training features, read a column at a time. Equal rows give an equal reference.

    Args:
        path: Parquet file of the features that a model was fitted on.
        kinds: feature to its kind, 'number' or 'category'.
        label: column of the label.
        policy: how fine the bins are.

    Raises:
        DataError: a feature is not in the file, or is no number.
    """
    told = pq.read_schema(path)
    missing = [name for name in kinds if name not in told.names]
    if missing:
        raise DataError(f"{path} lacks the features {', '.join(missing)}.", "Run `preprocess`.")
    columns = [_fit_one(path, name, kind, policy) for name, kind in kinds.items()]
    return Reference(
        label=label,
        numbers=tuple(one for one in columns if isinstance(one, Number)),
        categories=tuple(one for one in columns if isinstance(one, Category)),
    )


def family(kind: pa.DataType) -> Family:
    """What a type is a kind of: a wider integer, or a float for one, is no other type to a model."""
    if pa.types.is_dictionary(kind):
        return family(kind.value_type)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    return "bool" if pa.types.is_boolean(kind) else "null" if pa.types.is_null(kind) else "other"


def countable(kind: pa.DataType) -> bool:
    """Whether its values can be numbers or categories: lists are neither, nor are durations and bytes texts to all."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return not (pa.types.is_nested(kind) or pa.types.is_duration(kind) or _is_bytes(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    checks = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(one(kind) for one in checks)


def _fit_one(path: Path, name: str, kind: str, policy: Policy) -> Number | Category:
    values = pq.read_table(path, columns=[name])[name]
    of = family(values.type)
    if not countable(values.type):
        raise DataError(f"{path}: the feature {name} is {values.type}, not a {kind}.")
    if kind == "category":
        return _category(name, of, values, policy.values)
    if of not in {"number", "bool", "null"}:
        raise DataError(f"{path}: the feature {name} is {values.type}, not a number.")
    # Not safe: of whole numbers beyond 2^53 the last digits are lost, as they are where the model sees them.
    numbers = np.asarray(values.cast(pa.float64(), safe=False).drop_null())
    finite = numbers[np.isfinite(numbers)]
    with np.errstate(over="ignore", invalid="ignore"):
        center = float(finite.mean()) if finite.size else 0.0
    # Of numbers near the largest the sum is infinite; any center will do, it is there for the last digits of moments.
    return Number(name=name, family=of, edges=edges_of(finite, policy.bins), center=center if isfinite(center) else 0.0)


def _category(name: str, of: Family, values: pa.ChunkedArray, most: int) -> Category:
    texts, frequency = plain(of), Counter[str]()
    for one in _in_utc(values).cast(pa.string()).drop_null().value_counts().to_pylist():
        if (value := texts(one["values"])) is not None:
            frequency[value] += one["counts"]
    ordered = sorted(frequency, key=lambda value: (-frequency[value], value))
    known, rest = ordered[:most], sorted(ordered[most:])
    return Category(name=name, family=of, values=tuple(known), rest=tuple(rest) if len(rest) <= MAX_REST else None)


def _in_utc(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Moments as the engines write them, whose sessions are in UTC: Arrow writes them in their own time zone."""
    zoned = pa.types.is_timestamp(values.type) and values.type.tz
    return values.cast(pa.timestamp(values.type.unit, "UTC")) if zoned else values


def edges_of(values: np.ndarray[Any, Any], bins: int) -> tuple[float, ...]:
    """Edges of near equal shares, each an observed value; a value with a large share has a bin of its own.

    Args:
        values: finite, in any order.
        bins: wanted; large shares may make them up to twice as many.
    """
    ordered = np.sort(values)
    distinct = ordered[np.concatenate([[True], ordered[1:] > ordered[:-1]])] if ordered.size else ordered
    if not distinct.size:
        return ()
    if distinct.size <= bins:
        return _floats([*distinct, distinct[-1]])
    # Quantiles by the inverted distribution function: observed values, no interpolation.
    shares = ordered[[max(-(-ordered.size * at // bins) - 1, 0) for at in range(bins + 1)]]
    at, times = np.unique(shares, return_counts=True)
    large = at[(times > 1) & (at < distinct[-1])]
    after = distinct[np.searchsorted(distinct, large, side="right")]
    top = [distinct[-1]] if times[-1] > 1 else []
    return _floats([*np.union1d(at, after), *top])


def _floats(values: Sequence[Any]) -> tuple[float, ...]:
    # -0.0 and 0.0 are one number and would be two texts.
    return tuple(float(one) + 0.0 for one in values)
