"""Derive the reference of a model from its training rows: the bins in which later partitions are counted."""

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

from pipelines.dataset import Task
from pipelines.errors import DataError
from pipelines.monitoring.profiles.policy import BinPolicy
from pipelines.monitoring.profiles.texts import select_normalizer
from pipelines.system.data_files import explain_damage

SCORE = "score"
"""Column of the model's scores."""
SCORE_EDGES = tuple(n / 20 for n in range(21))
"""Edges of 20 bins of equal width from 0 to 1."""
MAX_OTHER_VALUES = 10_000
"""Largest number of values without a bin of their own that a reference lists. If a category has more of them, none is
listed, and no later value is treated as unseen."""
CONVERT_HINT = "Convert it in the dataset's features, or change its kind there."

Family = Literal["number", "text", "bool", "null", "other"]
"""Type family: a group of types, such as integers and floats of any width, that a model does not distinguish."""


class _FrozenModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class NumberBins(_FrozenModel):
    """Bins of a number: one below the first edge, one from each edge to the next, and one above the last edge.

    A bin includes its lower edge. The last bin between two edges also includes its upper edge.
    """

    name: str
    family: Family
    """Type family in training."""
    edges: tuple[float, ...]
    """Ascending. If the last bin has a single value, the last two edges are equal. Empty if training had no finite
    value."""
    center: float
    """The mean in training. Profiles sum differences from this mean, because such sums lose fewer digits than sums of
    the values."""


class CategoryBins(_FrozenModel):
    """Bins of a category: one for each frequent value, one for the other values of training, one for unseen values."""

    name: str
    family: Family
    """Type family in training."""
    values: tuple[str, ...]
    """Values with a bin of their own, the most frequent first."""
    rest: tuple[str, ...] | None
    """The other values in training, those without a bin of their own. None if there are more than
    `MAX_OTHER_VALUES`; then no value is treated as unseen."""


class LossModels(_FrozenModel):
    """Two xgboost models, as JSON, that estimate the errors of a row from its features and its score."""

    absolute: str
    """Estimates |score - label|."""
    squared: str
    """Estimates (score - label)^2."""


class ClassCurve(_FrozenModel):
    """The calibration of a class: a curve from the model's probability to the share of rows that have the class.

    It was fitted by isotonic regression.
    """

    name: str
    scores: tuple[float, ...]
    """Ascending probabilities, as the model returns them. Values between two of them are interpolated."""
    chances: tuple[float, ...]
    """The observed share for each of these probabilities: of the rows with this probability, how many have the class.
    The name of the field is a key of stored references."""
    edges: tuple[float, ...]
    """Edges of the bins in which the probabilities are counted, ascending."""


class Classes(_FrozenModel):
    """The classes of a multiclass model."""

    label: str
    """Column of the label: the class of a row."""
    curves: tuple[ClassCurve, ...]


class Reference(_FrozenModel):
    """The columns of a partition that are counted, and their bins."""

    label: str
    """Column of the label; for a multiclass model `is_right`, whether the predicted class is the label."""
    numbers: tuple[NumberBins, ...]
    """Bins of the numeric features."""
    categories: tuple[CategoryBins, ...]
    """Bins of the features that are categories, and of the class that a multiclass model predicts."""
    target: NumberBins | None = None
    """Bins of the label and of the score in a regression; None for other models."""
    losses: LossModels | None = None
    """Models of the errors of a regression; None for other models, and if the holdout had too few rows."""
    classes: Classes | None = None
    """Classes of a multiclass model; None for other models."""

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the reference. Profiles whose references have equal digests can be added."""
        # Unset fields are left out, so references that were stored before these fields existed keep their digests.
        unset_fields = {name for name in ("target", "losses", "classes") if getattr(self, name) is None}
        return hashlib.sha256(self.model_dump_json(exclude=unset_fields).encode()).hexdigest()

    @property
    def names(self) -> set[str]:
        """All counted columns: features, score and label."""
        return {
            *(number.name for number in self.numbers),
            *(category.name for category in self.categories),
            SCORE,
            self.label,
        }

    @property
    def score(self) -> NumberBins:
        """Bins of the score."""
        if self.target:
            return self.target.model_copy(update={"name": SCORE})
        return NumberBins(name=SCORE, family="number", edges=SCORE_EDGES, center=0.5)


def fit_reference(
    path: Path, kinds: Mapping[str, str], label: str, policy: BinPolicy, task: Task = "binary"
) -> Reference:
    """Derive the reference from training features, reading one column at a time. Equal rows give an equal reference.

    `losses` and `classes` are not set: `fit_losses` and `fit_classes` derive them from the holdout.

    Args:
        path: Parquet file of the features that the model was trained on.
        kinds: maps each feature to its kind, 'number' or 'category'.
        label: column of the label: see `Reference.label`.
        policy: how many bins there are.
        task: what the model predicts. In a regression, label and score have the same bins, derived from the labels.

    Raises:
        DataError: the file does not exist or is damaged, lacks a feature, or has a feature with a type that its kind
            does not allow. A retry cannot help.
    """
    with explain_damage(path, "Run `preprocess` again; it writes this file."):
        schema = pq.read_schema(path)
    missing_columns = [name for name in kinds if name not in schema.names]
    if missing_columns:
        raise DataError(f"{path} lacks the features {', '.join(missing_columns)}.", "Run `preprocess`.")
    columns = [_fit_column(path, name, kind, policy) for name, kind in kinds.items()]
    target = _fit_column(path, label, "number", policy) if task == "regression" else None
    return Reference(
        target=target if isinstance(target, NumberBins) else None,
        label=label,
        numbers=tuple(column for column in columns if isinstance(column, NumberBins)),
        categories=tuple(column for column in columns if isinstance(column, CategoryBins)),
    )


def get_family(data_type: pa.DataType) -> Family:
    """Return the family of a type. Integers and floats of any width are one family: a model treats them alike."""
    if pa.types.is_dictionary(data_type):
        return get_family(data_type.value_type)
    if pa.types.is_integer(data_type) or pa.types.is_floating(data_type) or pa.types.is_decimal(data_type):
        return "number"
    if pa.types.is_string(data_type) or pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type):
        return "text"
    return "bool" if pa.types.is_boolean(data_type) else "null" if pa.types.is_null(data_type) else "other"


def is_countable(data_type: pa.DataType) -> bool:
    """Return whether values of a type can be counted as numbers or categories.

    Nested values cannot be counted. Durations and bytes cannot be categories, because DuckDB and Spark write them as
    different texts.
    """
    data_type = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    return not (pa.types.is_nested(data_type) or pa.types.is_duration(data_type) or _is_bytes(data_type))


def _is_bytes(data_type: pa.DataType) -> bool:
    types = pa.types
    checks = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(check(data_type) for check in checks)


def _fit_column(path: Path, name: str, kind: str, policy: BinPolicy) -> NumberBins | CategoryBins:
    with explain_damage(path, "Run `preprocess` again; it writes this file."):
        values = pq.read_table(path, columns=[name])[name]
    family = get_family(values.type)
    if not is_countable(values.type):
        raise DataError(f"{path}: the feature {name} is {values.type}, not a {kind}.", CONVERT_HINT)
    if kind == "category":
        return _fit_category(name, family, values, policy.values)
    if family not in {"number", "bool", "null"}:
        raise DataError(f"{path}: the feature {name} is {values.type}, not a number.", CONVERT_HINT)
    # safe=False: integers beyond 2^53 lose their last digits, as they do in the model.
    numbers = np.asarray(values.cast(pa.float64(), safe=False).drop_null())
    finite_numbers = numbers[np.isfinite(numbers)]
    with np.errstate(over="ignore", invalid="ignore"):
        center = float(finite_numbers.mean()) if finite_numbers.size else 0.0
    # The sum of very large numbers is infinite. Any finite center is correct: it only affects the last digits.
    edges = compute_edges(finite_numbers, policy.bins)
    return NumberBins(name=name, family=family, edges=edges, center=center if isfinite(center) else 0.0)


def _fit_category(name: str, family: Family, values: pa.ChunkedArray, max_values: int) -> CategoryBins:
    normalize, frequency = select_normalizer(family), Counter[str]()
    for row in convert_to_utc(values).cast(pa.string()).drop_null().value_counts().to_pylist():
        if (value := normalize(row["values"])) is not None:
            frequency[value] += row["counts"]
    sorted_values = sorted(frequency, key=lambda value: (-frequency[value], value))
    other_values = tuple(sorted(sorted_values[max_values:]))
    return CategoryBins(
        name=name,
        family=family,
        values=tuple(sorted_values[:max_values]),
        rest=other_values if len(other_values) <= MAX_OTHER_VALUES else None,
    )


def convert_to_utc(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert timestamps with a time zone to UTC; return other values unchanged.

    DuckDB and Spark write such timestamps in UTC, but Arrow writes them in their own time zone.
    """
    has_zone = pa.types.is_timestamp(values.type) and values.type.tz
    return values.cast(pa.timestamp(values.type.unit, "UTC")) if has_zone else values


def compute_edges(values: np.ndarray[Any, Any], bins: int) -> tuple[float, ...]:
    """Compute edges of bins with nearly equal shares of the values.

    Each edge is an observed value; without values, there are no edges. A value with a large share has a bin of its own.

    Args:
        values: finite numbers, in any order.
        bins: target number of bins. If some values have large shares, there may be up to twice as many.
    """
    sorted_values = np.sort(values)
    distinct_values = (
        sorted_values[np.concatenate([[True], sorted_values[1:] > sorted_values[:-1]])]
        if sorted_values.size
        else sorted_values
    )
    if not distinct_values.size:
        return ()
    if distinct_values.size <= bins:
        return _convert_to_floats([*distinct_values, distinct_values[-1]])
    # Quantiles by the inverse of the distribution function, without interpolation: all are observed values.
    quantiles = sorted_values[[max(-(-sorted_values.size * n // bins) - 1, 0) for n in range(bins + 1)]]
    edges, repetitions = np.unique(quantiles, return_counts=True)
    repeated_edges = edges[(repetitions > 1) & (edges < distinct_values[-1])]
    next_values = distinct_values[np.searchsorted(distinct_values, repeated_edges, side="right")]
    upper_edge = [distinct_values[-1]] if repetitions[-1] > 1 else []
    return _convert_to_floats([*np.union1d(edges, next_values), *upper_edge])


def _convert_to_floats(values: Sequence[Any]) -> tuple[float, ...]:
    # Adding 0.0 turns -0.0 into 0.0: they are equal, but would be written differently, and so change the digest.
    return tuple(float(value) + 0.0 for value in values)
