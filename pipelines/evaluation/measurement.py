"""Measure a model of any task on the holdout: its metrics, its tables, and the function that draws the figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipelines.dataset import Task
from pipelines.evaluation import figure, metrics, multiclass, regression
from pipelines.evaluation.gates.inputs import read_quantiles
from pipelines.evaluation.statistics.inputs import Array
from pipelines.evaluation.tables import Table
from pipelines.lake import DATE_COLUMN


@dataclass(frozen=True)
class Sample:
    """The rows of a holdout, with the scores of a model."""

    label: Array
    """Labels as numbers; for a multiclass model, the index of each row's class."""
    score: Array
    """Scores; for a multiclass model, shape (rows, classes)."""
    train_mean: float | Array
    """Mean label of the training rows; for a multiclass model, the share of each class."""
    rows: pd.DataFrame
    """The scored rows. In a regression, columns `score_QUANTILE` have the predicted quantiles, if there are any."""
    classes: Sequence[str]
    """Names of the classes of a multiclass model; empty for other models."""


@dataclass(frozen=True)
class Measurement:
    """The results of an evaluation."""

    metrics: dict[str, float]
    """Metrics by name."""
    tables: dict[str, Table]
    """Tables by name. `draw` also needs the table `importance`, which the caller adds."""
    draw: Callable[..., None]
    """Takes a path, the tables, the metrics and a title; draws the figure to the path."""


def measure(task: Task, sample: Sample) -> Measurement:
    """Measure the model.

    Raises:
        DataError: all labels are equal, or a label or a score is not a finite number. A retry cannot help.
    """
    functions = {"binary": _measure_binary, "multiclass": _measure_multiclass, "regression": _measure_regression}
    return functions[task](sample)


def _measure_binary(sample: Sample) -> Measurement:
    label, score, base_rate = sample.label, sample.score, sample.train_mean
    assert isinstance(base_rate, float)
    values = metrics.compute_metrics(label, score, base_rate)  # first: it raises an error if all labels are equal
    tables = {
        "pr_curve": metrics.compute_precision_recall(label, score),
        "calibration": metrics.compute_calibration(label, score),
    }
    return Measurement(values, tables, figure.draw_evaluation)


def _measure_multiclass(sample: Sample) -> Measurement:
    label, score, classes = sample.label, sample.score, sample.classes
    class_shares: Any = sample.train_mean
    values = multiclass.compute_multiclass_metrics(label, score, class_shares, classes)
    tables = {
        "confusion": multiclass.tabulate_confusion(label, score, classes),
        "calibration": multiclass.tabulate_top_class(label, score),
    }
    return Measurement(values, tables, multiclass.draw_multiclass)


def _measure_regression(sample: Sample) -> Measurement:
    label, score, mean = sample.label, sample.score, sample.train_mean
    assert isinstance(mean, float)
    quantiles = read_quantiles(sample.rows)
    values = regression.compute_regression_metrics(label, score, mean, quantiles)
    tables = {"residuals": regression.tabulate_residuals(label, score)}
    if quantiles:
        tables["quantiles"] = regression.tabulate_quantiles(label, quantiles)
    if DATE_COLUMN in sample.rows:
        tables["weeks"] = regression.tabulate_weeks(label, score, sample.rows[DATE_COLUMN])
    return Measurement(values, tables, regression.draw_regression)
