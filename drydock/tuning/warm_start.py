"""Check the parent tuning jobs of a warm start: their status, objective and hyperparameters."""

from collections.abc import Mapping, Sequence
from typing import Any

from drydock.jobs.rules import refuse
from drydock.tuning.job import TuningJob
from drydock.tuning.plan import TuningPlan
from drydock.tuning.ranges import Range


def check_parents(request: Mapping[str, Any], parents: Sequence[TuningJob]) -> None:
    """Check that a tuning job can start with the results of its parents.

    Args:
        request: A CreateHyperParameterTuningJob request that has passed `rules.check_request`.
        parents: The tuning jobs that its WarmStartConfig names.

    Raises:
        AWSValidationException: A parent has not ended, is named twice, or has another objective, or hyperparameters
            with other names or types. A retry can help only in the first case.
    """
    plan = TuningPlan(request)
    if len({parent.name for parent in parents}) < len(parents):
        refuse("WarmStartConfig names a parent more than once.")
    for parent in parents:
        if not parent.status.is_final:
            refuse(
                f"The parent tuning job {parent.name} is in status {parent.status}. All parents must be Completed, "
                "Stopped or Failed."
            )
        if parent.plan.objective != plan.objective:
            refuse(f"The objective metric must be the same as that of the parent tuning job {parent.name}.")
        _check_hyperparameters(plan, parent.plan)


def _check_hyperparameters(plan: TuningPlan, parent: TuningPlan) -> None:
    if _list_names(plan) != _list_names(parent):
        refuse(
            "The set of tunable plus static HyperParameter names is not the same across current and parent tuning "
            "jobs. Please ensure this set is constant when warm starting. Note that previously static HyperParameters "
            "can be tuned in warm start jobs and vice versa."
        )
    kinds, parent_kinds = _list_kinds(plan.ranges), _list_kinds(parent.ranges)
    for name in sorted(kinds.keys() & parent_kinds.keys()):
        if kinds[name] is not parent_kinds[name]:
            refuse(f"The type of the hyperparameter {name} must be the same in the parent tuning jobs.")


def _list_names(plan: TuningPlan) -> set[str]:
    return {item.name for item in plan.ranges} | plan.static_values.keys()


def _list_kinds(ranges: Sequence[Range]) -> dict[str, type]:
    return {item.name: type(item) for item in ranges}
