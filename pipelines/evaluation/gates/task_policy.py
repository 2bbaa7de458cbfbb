"""Complete a policy with the defaults of the task, and refuse a policy that does not fit the task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.dataset import Task
from pipelines.errors import SpecError
from pipelines.evaluation.gates.policy import Bound, Comparison, Policy, Stability
from pipelines.evaluation.statistics.weighted import Metric, is_class_or_quantile_metric

DEFAULTS: Mapping[Task, Mapping[str, Any]] = {
    "binary": {},
    "multiclass": {
        "bounds": {"macro_auc": Bound(at_least=0.55, at_most=0.98)},
        "champion": [Comparison(metric="macro_auc", margin=0.01, relevant_gain=0.005)],
    },
    "regression": {
        # r2 has no unit, so these bounds fit any label.
        "bounds": {"r2": Bound(at_least=0.0, at_most=0.95)},
        "baseline": ["rmse"],
        "champion": [Comparison(metric="r2", margin=0.005, relevant_gain=0.005)],
        # An error varies from week to week much more than an AUC does.
        "stability": Stability(max_drop=0.5),
    },
}
"""Maps each task to the fields of the policy that differ from the defaults of `Policy`."""


def complete_policy(
    policy: Policy, task: Task, metrics: Mapping[str, Metric], *, are_classes_known: bool = True
) -> Policy:
    """Return the policy, with the defaults of the task in the fields that are not given.

    Args:
        policy: policy to complete.
        task: what the models predict.
        metrics: all metrics of the models, by name.
        are_classes_known: whether `metrics` has those of each class and quantile. If not, any such name is allowed.

    Raises:
        SpecError: the policy names a metric that the models lack, compares models by a metric for which neither higher
            nor lower is better, has a metric of a class or of quantiles in `baseline`, or has a threshold although the
            task has none. A retry cannot help.
    """
    defaults = {name: value for name, value in DEFAULTS[task].items() if name not in policy.model_fields_set}
    completed_policy = policy.model_copy(update=defaults)
    compared_names = [*completed_policy.baseline, *(comparison.metric for comparison in completed_policy.champion)]
    unknown_names = [name for name in (*completed_policy.bounds, *compared_names) if name not in metrics]
    if not are_classes_known:
        unknown_names = [name for name in unknown_names if not is_class_or_quantile_metric(name, task)]
    if unknown_names:
        message = (
            f"the gate's policy names the metric {unknown_names[0]!r}, which models of the task {task} do not have."
        )
        raise SpecError(message, f"They have {', '.join(metrics)}.")
    if refused_names := [name for name in completed_policy.baseline if is_class_or_quantile_metric(name, task)]:
        message = (
            f"the gate's policy has {refused_names[0]} in `baseline`: no metric of a class or quantile may be there."
        )
        raise SpecError(message, "Name another metric in `baseline`.")
    for name in compared_names:
        if name in metrics and metrics[name].greater_is_better is None:
            message = f"the gate's policy compares models by {name}, for which neither higher nor lower is better."
            raise SpecError(message, "Give it a bound instead.")
    if completed_policy.threshold is not None and task != "binary":
        message = f"the gate's policy has a threshold, but models of the task {task} have none."
        raise SpecError(message, "Set `threshold` to null.")
    return completed_policy
