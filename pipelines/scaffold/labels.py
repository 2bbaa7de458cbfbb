"""Choose the label and the task of a new model, and the type in which the source of its dataset reads the label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dataset import Task
from pipelines.errors import DataError, SpecError
from pipelines.scaffold.columns import Column
from pipelines.scaffold.request import AskFunction, Request

LABEL_NAMES = (
    *("label", "target", "outcome", "churn", "churned", "returned", "fraud", "is_fraud", "converted", "late", "y"),
)
"""Names of columns that are probably the label."""
TRUE_TEXTS = ("true", "yes", "y", "t", "1", "1.0", "positive", "on")
FALSE_TEXTS = ("false", "no", "n", "f", "0", "0.0", "negative", "off")
"""Texts that mean true, and texts that mean false. Texts at the same position are a pair, such as "yes" and "no"."""
MAX_CLASSES = 20
"""Largest number of classes of a multiclass model."""
MIN_ROWS_OF_CLASS = 30
"""Smallest number of rows of a class. A rarer class could be missing in training or in the holdout."""


@dataclass(frozen=True)
class Label:
    """The column to predict."""

    name: str
    task: Task
    values: pa.Array
    """Values in the sample: booleans, texts or numbers; null where the label is not known."""
    type: pa.DataType
    """Type in which the source of the new dataset reads the label."""
    texts: tuple[str, str] | None = None
    """Texts that mean true and false, if the source of the new dataset needs them to read a binary label; else None."""

    def list_targets(self) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
        """Yield the label of each row as a number, and whether the row has a label.

        Of a multiclass label, yield one pair of arrays for each class: 1 for rows of the class, and 0 for others.
        """
        has_label = self.values.is_valid().to_numpy(zero_copy_only=False)
        if self.task != "multiclass":
            numbers = pc.fill_null(self.values.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
            yield numbers, has_label
            return
        for value in pc.unique(self.values.drop_null()):
            is_of_class = pc.fill_null(pc.equal(self.values, value), False).cast(pa.float64())
            yield is_of_class.to_numpy(zero_copy_only=False), has_label


def choose_label(request: Request, columns: Mapping[str, Column], excluded_names: set[str], ask: AskFunction) -> Label:
    """Choose the label and the task; ask for what cannot be inferred.

    Args:
        request: options of the command.
        columns: columns of the sample by name.
        excluded_names: columns that cannot be the label, because they have another purpose.
        ask: asks for the value of an option.

    Raises:
        DataError: the label has one value only, or does not fit the task. A retry cannot help.
        SpecError: an option is missing or wrong. A retry cannot help.
    """
    if request.task and request.task not in get_args(Task):
        raise SpecError(f"--task {request.task!r} is unknown.", f"Use one of: {', '.join(get_args(Task))}.")
    possible_names = [name for name in columns if name not in excluded_names]
    likely_names = [name for name in possible_names if name.lower() in LABEL_NAMES]
    name = request.label or (likely_names[0] if len(likely_names) == 1 else "")
    column = columns[name or ask("label", "the column to predict is not given.", possible_names)]
    if column.kind == "other":
        message = f"the label {column.name} has the type {column.type}, which no model predicts."
        raise DataError(message, "Give another --label.")
    if column.distinct_count < 2:
        value = column.values.drop_null()[0] if column.distinct_count else None
        problem = f"each row has the label {value}" if column.distinct_count else "no row has a label"
        raise DataError(f"{column.name}: {problem}: nothing can be learned from it.", "Give another --label.")
    if column.kind == "infinite":
        problem = f"the label {column.name} has {pc.sum(pc.is_inf(column.values))} infinite values."
        raise DataError(problem, "Remove these rows, or leave the label empty where it is not known.")
    if column.nan_count:
        problem = f"the label {column.name} is NaN in {column.nan_count} rows."
        raise DataError(problem, "Write null, not NaN, in the source where the label is not known.")
    task = request.task or _infer_task(column, ask)
    if task == "regression":
        return _make_regression_label(column)
    return _make_multiclass_label(column) if task == "multiclass" else _make_binary_label(column, request, ask)


def _infer_task(column: Column, ask: AskFunction) -> str:
    if column.distinct_count == 2:
        return "binary"
    if column.kind == "number" and (column.distinct_count > MAX_CLASSES or not column.is_integer):
        return "regression"
    if column.kind in ("category", "text", "id") and column.distinct_count <= MAX_CLASSES:
        return "multiclass"
    reason = f"the label {column.name} has {column.distinct_count} different values, so its task cannot be inferred."
    return ask("task", reason, ("multiclass", "regression"))


def _make_regression_label(column: Column) -> Label:
    if column.kind not in ("number", "id"):
        message = f"the label {column.name} is not a number, such as {column.values.drop_null()[0]}."
        raise DataError(message, "Give --task binary or multiclass, or another label.")
    return Label(column.name, "regression", column.values.cast(pa.float64()), pa.float64())


def _make_multiclass_label(column: Column) -> Label:
    texts = _to_text(column)
    counts = sorted(pc.value_counts(texts.drop_null()).to_pylist(), key=lambda count: count["counts"])
    if column.distinct_count > MAX_CLASSES:
        message = f"the label {column.name} has {column.distinct_count} classes: at most {MAX_CLASSES} can be learned."
        raise DataError(message, "Give --task regression or another label, or put rare classes together in the source.")
    if counts[0]["counts"] < MIN_ROWS_OF_CLASS:
        message = f"only {counts[0]['counts']} rows have the label {counts[0]['values']!r}, too few to learn it."
        raise DataError(message, "Put rare classes together in the source.")
    return Label(column.name, "multiclass", texts, pa.string())


def _make_binary_label(column: Column, request: Request, ask: AskFunction) -> Label:
    if column.distinct_count != 2:
        message = f"the label {column.name} has {column.distinct_count} different values, but a binary label has two."
        raise DataError(message, "Give --task multiclass or regression, or another label.")
    if pa.types.is_boolean(column.values.type):
        if request.positive.lower() not in ("", "true"):
            message = f"the label {column.name} has the type bool, and true is the positive value."
            raise SpecError(message, "Leave out --positive, or write the opposite in the source.")
        return Label(column.name, "binary", column.values, pa.bool_())
    texts = _to_text(column)
    values = sorted(str(value) for value in pc.unique(texts.drop_null()))
    positive = request.positive or _guess_positive(values)
    if not positive:
        reason = f"the label {column.name} has the values {' and '.join(values)}; it is not clear which means true."
        positive = ask("positive", reason, values)
    if positive not in values:
        raise SpecError(f"--positive {positive!r} is not a value of {column.name}.", f"Give {' or '.join(values)}.")
    negative = values[1 - values.index(positive)]
    is_positive = pc.equal(texts, positive)
    if (positive, negative) == ("1", "0"):  # the source converts these texts to booleans itself
        return Label(column.name, "binary", is_positive, pa.bool_())
    return Label(column.name, "binary", is_positive, pa.string(), (positive, negative))


def _guess_positive(values: list[str]) -> str:
    """Return the value that means true; empty if it cannot be inferred."""
    lower_values = [value.lower() for value in values]
    for true, false in zip(TRUE_TEXTS, FALSE_TEXTS, strict=True):
        if set(lower_values) == {true, false}:
            return values[lower_values.index(true)]
    return ""


def _to_text(column: Column) -> pa.Array:
    """Return the values as the source writes them: a whole number without a point."""
    if column.texts is not None:
        return pc.if_else(column.values.is_valid(), column.texts, pa.scalar(None, pa.string()))
    values = column.values
    if pa.types.is_floating(values.type) and column.is_integer:
        values = values.cast(pa.int64())
    return values if pa.types.is_string(values.type) else values.cast(pa.string())
