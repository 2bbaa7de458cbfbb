"""Choose the first allowed instance type that may start, for a training whose time cannot be predicted."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.costs.budgets import TOLERANCE_USD
from pipelines.costs.charges import format_usd
from pipelines.errors import DataError
from pipelines.instances.catalogue import Instance, list_instances
from pipelines.planning.recommendation.choice.training import Choice, Training
from pipelines.planning.recommendation.inputs import list_neuron_types
from pipelines.planning.recommendation.limits import Limits
from pipelines.planning.recommendation.past_jobs import Row
from pipelines.planning.recommendation.quotes import Quote, read_quotes


def choose_first(training: Training, limits: Limits, rows: Sequence[Row], reason: str) -> Choice:
    """Return the first allowed type that the operator may start, in the order of `training.instance_types`.

    Times are not known here, so the deadline is not checked. Types without a price, and types whose worst case is over
    a budget, are left out: the operator would refuse them. So are types with AWS's own accelerators that no pattern
    names.

    Args:
        training: the training that is about to start.
        limits: limits of the training.
        rows: all rows of the ledger.
        reason: why the time of the training cannot be predicted.

    Raises:
        DataError: none of the types may start; the error says why for the first one. A retry cannot help.
        ServiceError: AWS does not answer. A retry can help.
    """
    matches_by_pattern = [list_instances("training", [pattern]) for pattern in training.instance_types]
    instances = list(dict.fromkeys(instance for matches in matches_by_pattern for instance in matches))
    neuron_types = list_neuron_types(instances, training.instance_types)
    quotes = read_quotes(training.region, as_of=None, rows=rows)
    problems = {
        instance.name: _find_problem(instance, quotes.get(instance.name), neuron_types, training, limits)
        for instance in instances
    }
    types = tuple(name for name, problem in problems.items() if not problem)
    if not types:
        name, problem = next(iter(problems.items()))
        raise DataError(
            f"none of the allowed types may start: {name} {problem}.",
            "Allow other types, a larger budget_usd or month_usd, or a smaller max_run_s.",
        )
    problem_count = len(problems) - len(types)
    choice_text = f"{types[0]}: the first of the allowed types{' that may start' if problem_count else ''}"
    return Choice(types[0], types, f"{choice_text}, because {reason.rstrip('.')}")


def _find_problem(
    instance: Instance, quote: Quote | None, neuron_types: frozenset[str], training: Training, limits: Limits
) -> str:
    """Return why the operator may not start a job on a type; empty if it may."""
    if instance.device and instance.device.is_neuron and instance.name not in neuron_types:
        return f"has a {instance.accelerator}, which needs the AWS Neuron SDK: name the type if the training has it"
    if quote is None:
        return f"has no known price in {training.region}"
    worst_case_usd = limits.compute_worst_case_usd(quote.price.usd_h, training.instance_count)
    for name, budget_usd in limits.list_worst_case_budgets().items():
        if worst_case_usd > budget_usd + TOLERANCE_USD:
            text = f"max_run_s of {limits.max_run_s:g} at the price on demand"
            return f"costs {format_usd(worst_case_usd)} at worst ({text}), over {name}"
    return ""
