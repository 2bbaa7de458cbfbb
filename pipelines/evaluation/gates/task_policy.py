"""Complete a policy with the defaults of a task other than binary, and refuse what does not fit the task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.dataset import Task
from pipelines.errors import SpecError
from pipelines.evaluation.gates.holdout import Holdout
from pipelines.evaluation.gates.policy import Bound, Comparison, Policy, Stability

DEFAULTS: Mapping[Task, Mapping[str, Any]] = {
    "binary": {},
    "regression": {
        # r2 has no unit, so these bounds fit any label.
        "bounds": {"r2": Bound(at_least=0.0, at_most=0.95)},
        "baseline": ["rmse"],
        "champion": [Comparison(metric="r2", margin=0.005, relevant_gain=0.005)],
        # An error depends on the weather of a week much more than an AUC does.
        "stability": Stability(max_drop=0.5),
    },
}
"""Task to the fields of the policy that differ from the defaults of `Policy`."""


def complete_policy(policy: Policy, holdout: Holdout) -> Policy:
    """Return the policy, with the defaults of the holdout's task in the fields that are not given.

    Raises:
        SpecError: the policy names a metric that models of this task do not have, a comparison by a metric without
            direction, or a threshold for a regression. A retry cannot help.
    """
    defaults = DEFAULTS[holdout.task]
    complete = policy.model_copy(
        update={name: value for name, value in defaults.items() if name not in policy.model_fields_set}
    )
    for name in complete.bounds:
        holdout.find_metric(name)
    for name in (*complete.baseline, *(comparison.metric for comparison in complete.champion)):
        if holdout.find_metric(name).greater_is_better is None:
            raise SpecError(f"the gate's policy compares models by {name}, which has no direction.", "Give it a bound.")
    if complete.threshold is not None and holdout.task != "binary":
        message = f"the gate's policy has a threshold, but models of the task {holdout.task} have none."
        raise SpecError(message, "Set `threshold` to null.")
    return complete
