"""Choose one instance type for a training that is about to start, with the reason in one line."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pipelines.costs.charges import format_usd
from pipelines.errors import DataError, SpecError
from pipelines.instances.catalogue import list_instances
from pipelines.planning.recommendation.choice.first_type import choose_first
from pipelines.planning.recommendation.choice.training import Choice, Training
from pipelines.planning.recommendation.inputs import PlanInputs, build_request_for_workload
from pipelines.planning.recommendation.language_model import LanguageModelWorkload
from pipelines.planning.recommendation.limits import Limits, format_duration, parse_deadline
from pipelines.planning.recommendation.measured import build_measured_workload
from pipelines.planning.recommendation.options import Market, Option, Recommendation
from pipelines.planning.recommendation.past_jobs import Row, is_trial
from pipelines.planning.recommendation.recommend import recommend, require_option
from pipelines.planning.recommendation.workloads import Workload

WORKLOAD_KEYS = {"params": "parameters", "tokens": "tokens", "method": "method", "precision": "precision"} | {
    name: name for name in ("sequence", "optimizer")
}
"""Maps each key of a workload to the field of `LanguageModelWorkload`."""
NUMBERS = ("params", "tokens", "sequence")
"""Keys of a workload whose values must be numbers."""


def choose(training: Training, rows: Sequence[Row], now: dt.datetime, month_left_usd: float | None = None) -> Choice:
    """Choose the cheapest allowed type within the limits; if the time cannot be predicted, the first that may start.

    The time cannot be predicted if there is neither a usable past job nor `training.workload`, or if the newest past
    job ran on another number of instances.

    Args:
        training: the training that is about to start.
        rows: all rows of the ledger, oldest first.
        now: current time.
        month_left_usd: what is left of the project's monthly budget, USD; None: no budget.

    Raises:
        SpecError: a type, the workload or the deadline is wrong. A retry cannot help.
        DataError: no allowed type fits the limits; the error says what would. A retry cannot help.
        ServiceError: AWS does not answer. A retry can help.
    """
    limits = Limits(
        deadline_s=parse_deadline(training.deadline, now),
        budget_usd=training.budget_usd,
        max_run_s=training.max_run_s,
        max_wait_s=training.max_wait_s if training.spot else None,
        month_left_usd=month_left_usd,
    )
    instances = list_instances("training", training.instance_types)
    if not instances:
        raise SpecError(f"SageMaker trains on none of {', '.join(training.instance_types)}.")
    try:
        workload = _build_workload(training, rows)
    except DataError as error:
        return choose_first(training, limits, rows, error.message)
    if training.instance_count not in workload.counts:
        past_counts = " or ".join(map(str, workload.counts))
        reason = f"past jobs ran on {past_counts} instance(s), not on {training.instance_count}"
        return choose_first(training, limits, rows, reason)
    inputs = PlanInputs(regions=[training.region], allow=training.instance_types)
    request = build_request_for_workload(workload, inputs, limits, rows)
    market: Market = "spot" if training.spot else "on demand"
    return _build_choice(recommend(replace(request, market=market)), workload)


def _is_past_job(training: Training, row: Row) -> bool:
    """Return whether a row of the ledger is a past job of the training: of its model, else of its Airflow task."""
    if training.model:
        return bool(row["model"] == training.model and not is_trial(row))
    return bool((row["dag_id"], row["task_id"]) == (training.dag_id, training.task_id))


def _build_workload(training: Training, rows: Sequence[Row]) -> Workload:
    """Return the workload: a language model of the given size, or a training as past jobs measured it.

    Raises:
        SpecError: the workload has an unknown key, or a value of a wrong type. A retry cannot help.
        DataError: there is no usable past job. A retry cannot help.
    """
    if not training.workload:
        label = f"model {training.model}" if training.model else f"task {training.dag_id}.{training.task_id}"
        return build_measured_workload(
            [row for row in rows if _is_past_job(training, row)], label, training.input_bytes
        )
    unknown_keys = sorted(training.workload.keys() - WORKLOAD_KEYS.keys())
    if unknown_keys:
        raise SpecError(f"workload: unknown key {unknown_keys[0]}.", f"Known keys: {', '.join(WORKLOAD_KEYS)}.")
    missing_keys = [name for name in ("params", "tokens") if name not in training.workload]
    if missing_keys:
        raise SpecError(f"workload: {missing_keys[0]} is missing.", 'For example {"params": 7e9, "tokens": 1e9}.')
    values: dict[str, Any] = {
        WORKLOAD_KEYS[name]: _parse_number(name, value) if name in NUMBERS else value
        for name, value in training.workload.items()
    }
    return LanguageModelWorkload(
        **values, model=training.model or f"{training.dag_id}.{training.task_id}", counts=(training.instance_count,)
    )


def _parse_number(name: str, value: Any) -> float:
    """Return a number of a workload. A text with a number is accepted, too, because templates render to texts.

    Raises:
        SpecError: the value is not a finite number, or that of `sequence` is not whole. A retry cannot help.
    """
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise SpecError(f"workload: {name} {value!r} is not a number.", "Write it as 7e9 or 7000000000.")
    if name != "sequence":
        return number
    if number != int(number):
        raise SpecError(f"workload: sequence {value!r} is not a whole number.", "It is a number of tokens.")
    return int(number)


def _build_choice(recommendation: Recommendation, workload: Workload) -> Choice:
    """Build the choice of the cheapest option.

    If the saving by spot is not known for one of the types, all are compared by their costs on demand: otherwise, a
    type with an unknown saving would never be tried.
    """
    option_by_type = {option.instance_type: option for option in recommendation.options}
    if not all(option.is_cost_known for option in recommendation.options):
        options = (replace(option, cost_usd=option.on_demand_usd) for option in recommendation.options)
        recommendation = replace(recommendation, options=tuple(sorted(options, key=lambda option: option.cost_usd)))
    best = option_by_type[require_option(recommendation).instance_type]
    types = tuple(dict.fromkeys([best.instance_type, *(option.instance_type for option in recommendation.options)]))
    return Choice(
        best.instance_type,
        types,
        f"{best.instance_type}: the cheapest of {len(types)} that fit, about {format_duration(best.finish_s)} and "
        f"{_describe_cost(best)}, {recommendation.limits.describe()}; "
        f"{len(recommendation.exclusions)} left out; predicted from {workload.describe()}",
        predicted_s=round(best.seconds, 3),
        predicted_usd=round(best.cost_usd, 6) if best.is_cost_known else None,
        uncorrected_s=round(best.uncorrected_s, 3),
        uncorrected_usd=round(best.uncorrected_usd, 6) if best.is_cost_known else None,
        prediction_basis=best.basis,
    )


def _describe_cost(option: Option) -> str:
    if option.is_cost_known:
        return f"{format_usd(option.cost_usd)} {option.market}"
    return f"at most {format_usd(option.cost_usd)} {option.market} (the saving is not known)"
