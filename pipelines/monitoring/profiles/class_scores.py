"""Count the rows of each class, and estimate without labels how many of them the model predicts correctly.

This is confidence-based performance estimation (CBPE) for several classes, as in NannyML. The probability of each class
is calibrated by isotonic regression on the holdout, this class against all others. The calibrated probabilities of a
row are divided by their sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sklearn.isotonic import IsotonicRegression

from pipelines.monitoring.profiles.batches import Day, read_batches, sum_by_day
from pipelines.monitoring.profiles.column_plans import CLASS_COUNTS, ColumnPlan
from pipelines.monitoring.profiles.profile import Column
from pipelines.monitoring.profiles.reference import ClassCurve, Classes, Reference, compute_edges
from pipelines.score_columns import SCORES

Array = np.ndarray[Any, Any]
CLASS_SCORE_BINS = 20
"""Number of bins of a class's probability. Each has about the same number of the holdout's rows."""
DIGITS = 9
"""Significant digits of the stored curves."""


def fit_classes(path: Path, label: str) -> Classes:
    """Fit the calibration of each class on a Parquet file with the probabilities and the labels of the holdout.

    Args:
        path: file with the column `scores` and the column of the label, without nulls.
        label: column of the label.
    """
    rows = pq.read_table(path, columns=[SCORES, label])
    names = sorted(set(rows[SCORES].combine_chunks().keys.to_pylist()))
    scores, labels = _read_scores(rows, names), rows[label].cast(pa.string())
    curves = [
        _fit_curve(name, class_scores, np.asarray(pc.equal(labels, name)))
        for name, class_scores in zip(names, scores.T, strict=True)
    ]
    return Classes(label=label, curves=tuple(curves))


def count_classes(
    reference: Reference, paths: Iterable[Path], plans: Sequence[ColumnPlan], day_column: str = ""
) -> Iterator[tuple[Day, ColumnPlan, Column]]:
    """Count the rows that are predicted or labelled as each class, and sum the calibrated probabilities of all rows.

    Args:
        reference: reference with the curves of the classes.
        paths: Parquet files with the column `scores`, and the label if it is known.
        plans: the columns to build, one for each class.
        day_column: column with the date; empty: all rows together.
    """
    classes = reference.classes
    assert classes is not None
    batches = read_batches(paths, {SCORES, classes.label}, day_column)
    sums_by_day = sum_by_day(batches, lambda batch: _measure_rows(classes, batch), day_column)
    # The numbers of a class: first `plan.bins` counts, which are CLASS_COUNTS (3), and one for each bin of the
    # probability. Then its sums: CLASS_SUMS (4), and one for each of these bins. So there is one sum more than counts.
    ends = np.cumsum([2 * plan.bins + 1 for plan in plans])
    for day, (rows, *numbers) in sums_by_day.items():
        for plan, values in zip(plans, np.split(numbers, ends[:-1]), strict=True):
            counts = tuple(int(value) for value in values[: plan.bins])
            missing_count = int(rows) - sum(counts[CLASS_COUNTS:])
            yield (
                day,
                plan,
                Column(plan.name, plan.kind, counts, missing_count, sums=tuple(map(float, values[plan.bins :]))),
            )


def calibrate(classes: Classes, scores: Array) -> Array:
    """Return the calibrated probability of each class, shape (rows, classes). Those of a row add up to 1."""
    curves = classes.curves
    probabilities = np.column_stack(
        [np.interp(scores[:, position], curve.scores, curve.chances) for position, curve in enumerate(curves)]
    )
    totals = probabilities.sum(axis=1, keepdims=True)
    return np.asarray(
        np.divide(probabilities, totals, out=np.full_like(probabilities, 1 / len(curves)), where=totals > 0)
    )


def _measure_rows(classes: Classes, rows: pa.Table) -> Array:
    """Return what each row adds to the number of rows and to each class's counts and sums; shape (rows, numbers)."""
    scores = _read_scores(rows, [curve.name for curve in classes.curves])
    is_scored = np.asarray(np.isfinite(scores).all(axis=1))
    scores = np.where(is_scored[:, np.newaxis], scores, 0.0)
    probabilities = np.where(is_scored[:, np.newaxis], calibrate(classes, scores), 0.0)
    predicted_positions = np.where(is_scored, scores.argmax(axis=1), -1)
    numbers: list[Array] = [np.ones(len(rows))]
    for position, curve in enumerate(classes.curves):
        is_label, is_predicted = (
            _find_rows(rows, classes.label, curve.name) & is_scored,
            predicted_positions == position,
        )
        bins = np.searchsorted(np.asarray(curve.edges), scores[:, position], side="right")
        is_in_bin = np.eye(len(curve.edges) + 1)[bins] * is_scored[:, np.newaxis]
        probability = probabilities[:, position]
        numbers += [is_predicted, is_label, is_label & is_predicted, *is_in_bin.T]
        numbers += [probability, probability * is_predicted, probability**2, probability**2 * is_predicted]
        numbers += [*(is_in_bin * probability[:, np.newaxis]).T]
    return np.column_stack(numbers).astype(np.float64)


def _find_rows(rows: pa.Table, column: str, value: str) -> Array:
    """Return whether the column has the value in each row; false if there is no such column."""
    if column not in rows.column_names:
        return np.zeros(len(rows), dtype=bool)
    return np.asarray(pc.equal(rows[column].cast(pa.string()), value).fill_null(False))


def _fit_curve(name: str, scores: Array, is_class: Array) -> ClassCurve:
    model = IsotonicRegression(out_of_bounds="clip").fit(scores, is_class.astype(np.float64))
    sorted_scores, chances = (
        tuple(float(f"{number:.{DIGITS}g}") for number in values)
        for values in (model.X_thresholds_, model.y_thresholds_)
    )
    return ClassCurve(name=name, scores=sorted_scores, chances=chances, edges=compute_edges(scores, CLASS_SCORE_BINS))


def _read_scores(rows: pa.Table, names: Sequence[str]) -> Array:
    """Return the probability of each class, NaN if it is missing; shape (rows, classes)."""
    maps = rows[SCORES].combine_chunks()
    columns = [pc.map_lookup(maps, pa.scalar(name, maps.type.key_type), "first") for name in names]
    return np.column_stack([np.asarray(column.fill_null(np.nan), dtype=np.float64) for column in columns])
