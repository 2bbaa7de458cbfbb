"""Name the columns of scores.

The module is part of the training job's source bundle and of the MLflow model, and imports only the standard library.
"""

from __future__ import annotations

from collections.abc import Sequence

SCORE = "score"
"""Column of the score. In tables of predictions of a multiclass model, the probability of the predicted class."""
SCORES = "scores"
"""Column with a map of class to probability; for a regression, of quantile to number."""
SCORE_PREFIX = "score_"
"""Prefix of the score columns of an evaluation. It has one for each class, or for each quantile of a regression."""
MEDIAN = "0.5"
"""Name of the quantile that is the score of a regression with quantiles."""
PREDICTED = "predicted"
"""Column of the class that a multiclass model predicts."""
IS_RIGHT = "is_right"
"""Column that says whether the predicted class is the label; null if the label is not known."""

PREDICTION_COLUMNS = frozenset(
    (
        *("label", "model_name", "model_version", "scored_at"),
        *("endpoint", "variant", "event_id", "inference_id", "requested_at", "latency_ms"),
    )
)
"""Columns that the tables of predictions, outcomes and requests have in addition to the key and the scores. A key may
not use these names."""


def is_score_column(name: str, *, is_binary: bool) -> bool:
    """Return whether the files and tables of scores use this name, so that no key, feature or label may have it.

    Args:
        name: name of a column, in lower case.
        is_binary: whether the task is binary. Other models may return a column of scores for each class or quantile.
    """
    return name == SCORE or (not is_binary and (name in {PREDICTED, SCORES, IS_RIGHT} or name.startswith(SCORE_PREFIX)))


def name_score_columns(classes: Sequence[str]) -> list[str]:
    """Return the names of the columns of scores in an evaluation: one for each class or quantile; else only `score`."""
    return [f"{SCORE_PREFIX}{name}" for name in classes] or [SCORE]
