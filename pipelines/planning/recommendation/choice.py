"""Choose one instance type for a training that is about to start, with the reason in one line."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from pipelines.costs.charges import format_usd
from pipelines.errors import DataError, SpecError
from pipelines.instances.catalogue import list_instances
from pipelines.planning.recommendation.inputs import PlanInputs, assemble_request
from pipelines.planning.recommendation.language_model import LanguageModelWorkload
from pipelines.planning.recommendation.limits import Limits, format_duration, parse_deadline
from pipelines.planning.recommendation.measured import measure
from pipelines.planning.recommendation.options import Option, Recommendation
from pipelines.planning.recommendation.past_jobs import Row
from pipelines.planning.recommendation.recommend import recommend, require_option
from pipelines.planning.recommendation.workloads import Basis, Workload

WORKLOAD_KEYS = {"params": "parameters", "tokens": "tokens", "method": "method", "precision": "precision"} | {
    name: name for name in ("sequence", "optimizer")
}
"""Key of a workload to the field of `LanguageModelWorkload`."""


class Training(Protocol):
    """A training that is about to start; `ChooseInstanceSpec` describes each field."""

    instance_types: list[str]
    region: str
    instance_count: int
    spot: bool
    deadline: str
    budget_usd: float | None
    model: str
    dag_id: str
    task_id: str
    workload: dict[str, Any]


@dataclass(frozen=True)
class Choice:
    """The chosen type; the fields are those of `ChooseInstanceResult`."""

    instance_type: str
    instance_types: tuple[str, ...]
    instance_choice: str
    predicted_s: float | None = None
    predicted_usd: float | None = None
    uncorrected_s: float | None = None
    uncorrected_usd: float | None = None
    prediction_basis: Basis | None = None

    def to_record(self) -> dict[str, Any]:
        """Return the fields with their values."""
        return asdict(self)


def choose(training: Training, rows: Sequence[Row], now: dt.datetime) -> Choice:
    """Choose the cheapest allowed type within the limits; the first allowed one if nothing is known of the training.

    Args:
        training: what is about to start.
        rows: all rows of the ledger, oldest first.
        now: current time.

    Raises:
        SpecError: a type, the workload or the deadline is wrong. A retry cannot help.
        DataError: no allowed type fits the limits; the error says what would. A retry cannot help.
        ServiceError: AWS does not answer. A retry can help.
    """
    limits = Limits(parse_deadline(training.deadline, now), training.budget_usd)
    instances = list_instances("training", training.instance_types)
    if not instances:
        raise SpecError(f"SageMaker trains on none of {', '.join(training.instance_types)}.")
    try:
        workload = _build_workload(training, rows)
    except DataError as error:
        return _choose_first(training, error.message)
    if training.instance_count not in workload.counts:
        past = " or ".join(map(str, workload.counts))
        return _choose_first(training, f"past jobs ran on {past} instance(s), not on {training.instance_count}")
    inputs = PlanInputs([training.region], allow=training.instance_types)
    recommendation = _select_market(recommend(assemble_request(workload, inputs, limits, rows)), training)
    return _build_choice(recommendation, require_option(recommendation), workload)


def _is_own(training: Training, row: Row) -> bool:
    if training.model:
        return bool(row["model"] == training.model)
    return bool((row["dag_id"], row["task_id"]) == (training.dag_id, training.task_id))


def _build_workload(training: Training, rows: Sequence[Row]) -> Workload:
    """Return what is planned: a language model of the given size, or what past jobs measured.

    Raises:
        SpecError: the workload has an unknown key, or a value of a wrong type. A retry cannot help.
        DataError: there is no usable past job. A retry cannot help.
    """
    if not training.workload:
        label = f"model {training.model}" if training.model else f"task {training.dag_id}.{training.task_id}"
        return measure([row for row in rows if _is_own(training, row)], label)
    unknown_keys = sorted(training.workload.keys() - WORKLOAD_KEYS.keys())
    if unknown_keys:
        raise SpecError(f"workload: unknown key {unknown_keys[0]}.", f"Known keys: {', '.join(WORKLOAD_KEYS)}.")
    missing_keys = [name for name in ("params", "tokens") if name not in training.workload]
    if missing_keys:
        raise SpecError(f"workload: {missing_keys[0]} is missing.", 'For example {"params": 7e9, "tokens": 1e9}.')
    values = {field: training.workload[name] for name, field in WORKLOAD_KEYS.items() if name in training.workload}
    for name in {"parameters", "tokens", "sequence"} & values.keys():
        try:
            values[name] = int(values[name]) if name == "sequence" else float(values[name])
        except (TypeError, ValueError):
            raise SpecError(f"workload: {name} {values[name]!r} is not a number.") from None
    return LanguageModelWorkload(
        **values, model=training.model or f"{training.dag_id}.{training.task_id}", counts=(training.instance_count,)
    )


def _choose_first(training: Training, reason: str) -> Choice:
    """Return the first allowed type, because nothing is known about the training."""
    names = [instance.name for pattern in training.instance_types for instance in list_instances("training", [pattern])]
    types = tuple(dict.fromkeys(names))
    return Choice(types[0], types, f"{types[0]}: the first of the allowed types, because {reason.rstrip('.')}")


def _select_market(recommendation: Recommendation, training: Training) -> Recommendation:
    """Keep the options of the market on which the training runs.

    If the saving by spot is not known for one of the types, all are compared by their costs on demand: a type with an
    unknown saving would else never be tried.
    """
    spot = {option.instance_type for option in recommendation.options if option.market == "spot"}
    on_demand = {option.instance_type for option in recommendation.options if option.market == "on demand"}
    market = "spot" if training.spot and on_demand <= spot else "on demand"
    options = tuple(option for option in recommendation.options if option.market == market)
    return replace(recommendation, options=options)


def _build_choice(recommendation: Recommendation, best: Option, workload: Workload) -> Choice:
    types = dict.fromkeys([best.instance_type, *(option.instance_type for option in recommendation.options)])
    reason = (
        f"{best.instance_type}: the cheapest of {len(types)} that fit, about {format_duration(best.finish_s)} and "
        f"{format_usd(best.cost_usd)} {best.market}, {recommendation.limits.describe()}; "
        f"{len(recommendation.exclusions)} left out; by {workload.describe()}"
    )
    return Choice(
        best.instance_type,
        tuple(types),
        reason,
        round(best.seconds, 3),
        round(best.cost_usd, 6),
        round(best.uncorrected_s, 3),
        round(best.uncorrected_usd, 6),
        best.basis,
    )
