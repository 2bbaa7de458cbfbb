"""Estimate the errors of a regression for rows without labels, by direct loss estimation (DLE, as NannyML does).

Two small xgboost models are trained on the rows of the holdout. They predict the absolute and the squared error of a
row from its features and its score. The reference contains them as JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xgboost as xgb

from pipelines.monitoring.profiles.batches import Day, read_batches, sum_by_day
from pipelines.monitoring.profiles.category_bins import OTHER, build_bin_finder
from pipelines.monitoring.profiles.column_plans import ColumnPlan, plan_columns
from pipelines.monitoring.profiles.profile import Column
from pipelines.monitoring.profiles.reference import CategoryBins, LossModels, Reference, convert_to_utc

Array = np.ndarray[Any, Any]
ROUNDS = 60
"""Number of trees of a model."""
PARAMETERS = {
    "objective": "reg:squarederror",
    "tree_method": "hist",
    "max_depth": 3,
    "eta": 0.1,
    "min_child_weight": 50,
    "nthread": 1,
    "seed": 13,
}
"""xgboost's parameters. A leaf has at least 50 rows, so that it averages the noise of single errors. With one thread,
equal rows give equal bytes."""
MIN_ROWS = 200
"""Smallest number of holdout rows with which the models of the errors are trained."""


def fit_losses(reference: Reference, path: Path) -> LossModels | None:
    """Fit the models of the errors on a Parquet file with the features, the score and the label of the holdout.

    Returns:
        The models; None if the file has fewer than `MIN_ROWS` rows with score and label.
    """
    rows = pq.read_table(path)
    labels, scores = (
        np.asarray(rows[name].cast(pa.float64(), safe=False)) for name in (reference.label, reference.score.name)
    )
    errors = np.abs(scores - labels)
    is_known = np.isfinite(errors)
    if is_known.sum() < MIN_ROWS:
        return None
    inputs = _build_inputs(reference, rows)[is_known]
    targets = (errors[is_known], errors[is_known] ** 2)
    return LossModels(**dict(zip(("absolute", "squared"), (_fit(inputs, target) for target in targets), strict=True)))


def estimate_losses(
    reference: Reference, paths: Iterable[Path], plan: ColumnPlan, day_column: str = ""
) -> Iterator[tuple[Day, ColumnPlan, Column]]:
    """Add up the estimated errors of the rows with a finite score; by day, if `day_column` names the date.

    Args:
        reference: reference with models of the errors.
        paths: Parquet files of features and scores.
        plan: plan of the column to build.
        day_column: column with the date; empty: all rows together.
    """
    batches = read_batches(paths, reference.names, day_column)
    sums_by_day = sum_by_day(batches, lambda batch: _measure_losses(reference, batch), day_column)
    for day, (rows, count, *sums) in sums_by_day.items():
        missing_count = int(rows - count)
        yield day, plan, Column(plan.name, plan.kind, (int(count),), missing_count, sums=tuple(map(float, sums)))


def _measure_losses(reference: Reference, rows: pa.Table) -> Array:
    """Return six numbers for each row: the constant 1, whether it has a score, two estimated errors, and their squares.

    Shape (rows, 6).
    """
    models = reference.losses
    assert models is not None
    inputs = _build_inputs(reference, rows)
    has_score = np.isfinite(inputs[:, -1])
    matrix = _build_matrix(inputs)
    losses = np.stack([np.maximum(_load(text).predict(matrix), 0.0) for text in (models.absolute, models.squared)], 1)
    losses = np.where(has_score[:, np.newaxis], losses.astype(np.float64), 0.0)
    return np.column_stack([np.ones(len(losses)), has_score, losses, losses**2])


def _fit(inputs: Array, target: Array) -> str:
    """Train a model; return it as JSON."""
    parameters = {**PARAMETERS, "base_score": float(target.mean())}
    booster = xgb.train(parameters, _build_matrix(inputs, target), ROUNDS)
    return bytes(booster.save_raw("json")).decode()


@lru_cache(maxsize=4)
def _load(text: str) -> xgb.Booster:
    """Load a model from its JSON."""
    booster = xgb.Booster(model_file=bytearray(text.encode()))
    booster.set_param({"nthread": 1})
    return booster


def _build_matrix(inputs: Array, target: Array | None = None) -> Any:
    return xgb.DMatrix(inputs, label=target, nthread=1)


def _build_inputs(reference: Reference, rows: pa.Table) -> Array:
    """Build the inputs: the numbers, the bins of the categories, and the score; shape (rows, inputs).

    A column that is missing or has another type is NaN. An unseen value is NaN, too. But if the reference does not list
    all values of training, no value is known to be unseen, and a new one is in the bin of the other values.
    """
    plans = plan_columns(reference, rows.schema)
    columns = [_build_number(plan, rows) for plan in plans if plan.kind == "number"]
    pairs = zip(reference.categories, [plan for plan in plans if plan.kind == "category"], strict=True)
    columns += [_build_category(category, plan, rows) for category, plan in pairs]
    columns += [
        _build_number(plan, rows) for plan in plans if plan.kind == "score"
    ]  # the last input, as `_measure_losses` expects
    return np.column_stack(columns)


def _build_number(plan: ColumnPlan, rows: pa.Table) -> Array:
    if not plan.is_readable:
        return np.full(len(rows), np.nan)
    numbers = np.asarray(rows[plan.name].cast(pa.float64(), safe=False), dtype=np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _build_category(category: CategoryBins, plan: ColumnPlan, rows: pa.Table) -> Array:
    if not plan.is_readable:
        return np.full(len(rows), np.nan)
    texts = convert_to_utc(rows[plan.name]).cast(pa.string()).combine_chunks().dictionary_encode()
    codes = _encode(texts.dictionary.to_pylist(), category)
    indexes = np.asarray(texts.indices.fill_null(len(codes) - 1))
    return np.asarray(codes[indexes])


def _encode(values: Sequence[str | None], category: CategoryBins) -> Array:
    """Return the code of each value; append NaN, the code of a missing value."""
    find_bin = build_bin_finder(category)
    bins = np.array([*(find_bin(value) for value in values), -1], dtype=np.float64)
    bins[bins == OTHER] = len(category.values)
    bins[bins < 0] = np.nan
    return bins
