"""Define the data that the gate judges: the rows of the holdout, with the scores of candidate and champion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from pipelines.dataset import Task
from pipelines.errors import DataError
from pipelines.evaluation.statistics.weighted import Metric, list_metrics

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Holdout:
    """The rows of a holdout. All arrays and the frame have the same rows in the same order."""

    label: Array
    """Shape (rows,): 0 or 1; in a regression, a number; for a multiclass model, the index of the row's class."""
    candidate_score: Array
    """The candidate's probability of 1, or its predicted number; shape (rows,). For a multiclass model, its
    probability of each class; shape (rows, classes)."""
    champion_score: Array | None
    """The champion's scores, in the shape of `candidate_score`; None if there is no champion to compare with. A
    champion with a later as_of is not compared, because it may have been trained on these rows."""
    features: pd.DataFrame
    """Columns of the rows: the features and others, such as the key and `date`."""
    base_rate: float | Array
    """Mean label of the training rows (for binary labels, the share of label 1). For a multiclass model, the share of
    each class; shape (classes,). A model without features predicts this for every row."""
    last_week_rate: float | Array
    """The base rate of the last seven days of the training rows."""
    task: Task = "binary"
    """What the models predict."""
    own_metrics: Mapping[str, Metric] = field(default_factory=dict)
    """Metrics of the dataset, by name, in addition to those of the task."""
    classes: Sequence[str] = ()
    """Names of the classes of a multiclass model, in the order of their indices; empty for other models."""
    candidate_quantiles: Mapping[str, Array] = field(default_factory=dict)
    """The candidate's quantiles by their names, each of shape (rows,); empty if it predicts none."""
    champion_quantiles: Mapping[str, Array] = field(default_factory=dict)
    """The champion's quantiles, by their names."""

    def __post_init__(self) -> None:
        """Check that the rows can be judged.

        Raises:
            DataError: all labels are equal, a label or a score is not finite, or scores are not of these rows and
                classes. A retry cannot help.
        """
        if len(np.unique(self.label)) < 2:
            raise DataError(f"the {len(self.label)} rows of the holdout have only one label, and cannot be judged.")
        if not np.isfinite(self.label).all():
            raise DataError("a label of the holdout is NaN or infinite.", "Run `preprocess` again.")
        shape = (len(self.label), len(self.classes)) if self.classes else self.label.shape
        for model, score in (("candidate", self.candidate_score), ("champion", self.champion_score)):
            if score is None:
                continue
            if score.shape != shape:
                raise DataError(f"the {model} has scores of the shape {score.shape}, but the holdout needs {shape}.")
            if not np.isfinite(score).all():
                invalid_rows = int((~np.isfinite(score)).reshape(len(score), -1).any(axis=1).sum())
                raise DataError(f"the {model}'s score is not a finite number for {invalid_rows} rows.")

    @property
    def metrics(self) -> dict[str, Metric]:
        """All metrics of the models: those of the task, and the dataset's own."""
        return {**list_metrics(self.task, self.classes, tuple(self.candidate_quantiles)), **self.own_metrics}

    def select_candidate_output(self, metric: Metric) -> Array:
        """Return the output of the candidate that the metric measures: its scores, or its quantiles in columns."""
        return _select(self.candidate_score, self.candidate_quantiles, metric, "candidate")

    def select_champion_output(self, metric: Metric) -> Array | None:
        """Return the output of the champion that the metric measures; None if there is no champion.

        Raises:
            DataError: the champion has no such quantile. A retry cannot help.
        """
        if self.champion_score is None:
            return None
        return _select(self.champion_score, self.champion_quantiles, metric, "champion")

    def count_days(self) -> int:
        """Return the number of different values of the column `date`; 0 if there is no such column."""
        return int(self.features["date"].nunique()) if "date" in self.features else 0

    def get_column(self, name: str) -> pd.Series[Any]:
        """Return a column of the rows.

        Raises:
            DataError: there is no such column. A retry cannot help.
        """
        if name not in self.features:
            columns = ", ".join(map(str, self.features))
            raise DataError(f"the holdout has no column {name}.", f"It has {columns[:300]}.")
        return self.features[name]


def _select(score: Array, quantiles: Mapping[str, Array], metric: Metric, model: str) -> Array:
    """Return the scores, or the quantiles that the metric measures as columns; shape (rows, quantiles)."""
    if not metric.quantiles:
        return score
    if missing_names := [name for name in metric.quantiles if name not in quantiles]:
        message = f"the {model} predicts no quantile {missing_names[0]}, which a metric of the gate's policy needs."
        raise DataError(message, "Use another metric in the policy until the champion predicts it.")
    return np.column_stack([quantiles[name] for name in metric.quantiles])
