"""Choose xgboost's objective, metrics and parameters for the task of a model."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from pipelines.defaults.arguments import InvalidInput
from pipelines.defaults.model import Schema

OBJECTIVES = {"binary": "binary:logistic", "multiclass": "multi:softprob", "regression": "reg:squarederror"}
"""Maps each task to xgboost's objective."""
METRICS: dict[str, tuple[str, ...]] = {
    "binary": ("logloss", "auc"),
    "multiclass": ("mlogloss", "merror"),
    "regression": ("rmse", "mae"),
}
"""Maps each task to the metrics of each round. The first metric decides early stopping; lower is better."""
XGBOOST_HYPERPARAMETERS = ("max_depth", "eta", "min_child_weight", "reg_lambda", "seed", "nthread")
"""Hyperparameters that are passed to xgboost."""


def choose_objective(args: argparse.Namespace, description: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return xgboost's objective and the metrics of each round for the task in the description of the input data.

    Raises:
        InvalidInput: quantiles are given, and the task is not regression. A retry cannot help.
    """
    task = description.get("task", "binary")
    if not args.quantiles:
        return OBJECTIVES[task], METRICS[task]
    if task != "regression":
        raise InvalidInput(f"hyperparameter quantiles: models of the task {task} have no quantiles. Leave it out.")
    return "reg:quantileerror", ("quantile",)


def list_parameters(
    args: argparse.Namespace, objective: str, metrics: Sequence[str], schema: Schema
) -> list[tuple[str, Any]]:
    """Return xgboost's training parameters as pairs of name and value; `eval_metric` occurs once for each metric."""
    parameters = [(name, getattr(args, name)) for name in XGBOOST_HYPERPARAMETERS]
    parameters += [("objective", objective), ("tree_method", "hist")]
    parameters += [("num_class", len(schema.classes))] if schema.classes else []
    parameters += [("quantile_alpha", args.quantiles)] if args.quantiles else []
    return [*parameters, *(("eval_metric", metric) for metric in metrics)]
