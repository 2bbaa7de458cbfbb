"""Decide whether a training may start. A training that a person or a backfill starts is never held back. Idempotent.

Every decision is recorded as a loop event. The guards also count the trainings that a person or the schedule starts,
but not those of a backfill. "Held back" is a result, not an error.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field

from pipelines.contract import Result, Spec
from pipelines.dataset import Dataset, load_dataset
from pipelines.errors import SpecError
from pipelines.loop import Policy, Trigger
from pipelines.settings import settings
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.loop import Event, Request


def _parse_names(value: object) -> object:
    """Parse a list that is given as JSON, or as names separated by commas."""
    if not isinstance(value, str):
        return value
    if value.startswith("["):
        return json.loads(value)
    return [name.strip() for name in value.split(",") if name.strip()]


class GuardSpec(Spec):
    """A request for a training."""

    dataset: str
    """Dataset of the model."""
    model: str
    """Registered model."""
    as_of: dt.date
    """Moment of training (YYYY-MM-DD)."""
    trigger: Trigger = "manual"
    """What requests the training: drift, the schedule, a person, or a backfill."""
    reason: str = ""
    """Why the training is requested, in words."""
    drifted_columns: Annotated[list[str], BeforeValidator(_parse_names)] = Field(default_factory=list)
    """Columns that drifted, the worst first: a JSON list, or names separated by commas."""
    run: str = ""
    """Run that makes the request, DAG/RUN; empty: LEEWAY_RUN, which the operators set."""
    policy: Policy = Policy()
    """The limits that the guards apply."""


class GuardResult(Result):
    """The decision about a request for a training."""

    model_name: str
    """Registered model."""
    as_of: dt.date
    """Moment of training."""
    trigger: Trigger
    """What requested the training: drift, the schedule, a person, or a backfill."""
    outcome: Literal["started", "held_back"]
    """Whether the training may start."""
    guard: str
    """Guard that holds the training back; if several do, the most serious one. Empty if the training may start."""
    reason: str
    """The reasons of all guards that hold the training back, in one line; empty if it may start."""
    until: dt.date | None
    """First as_of at which the guards would allow the request; null if waiting is not enough, or if it may start."""
    alert: bool
    """Whether to alert a person, because data failed validation or trainings failed the gate. If the same guard holds
    trainings back on consecutive days, `alert` is true only on the first day."""
    window: dict[str, int | dt.date]
    """Window of the training, for the step `snapshot`: as_of, train_days, holdout_days, label_delay_days."""


def run(spec: GuardSpec) -> GuardResult:
    """Decide whether the requested training starts, and record the decision in the model's loop events.

    A run gets the same decision each time, until its training has ended.

    Raises:
        SpecError: no run is named; or the parameters of the model are not valid, name another dataset, or have a
            policy of the gate that does not fit the dataset. A retry cannot help.
        DataError: the price of the budget's instance type is not known. A retry cannot help.
        ConflictError: other writers kept adding events. A retry can help.
    """
    from pipelines.loop.facts import load_training_window
    from pipelines.loop.journal import Journal
    from pipelines.loop.transitions import build_decision

    window_spec = load_training_window(spec.model, spec.dataset, spec.as_of)
    _check_gate_policy(spec.model, load_dataset(spec.dataset))
    request = _build_request(spec, resolve_run(spec.run))
    journal = Journal.open()
    event = journal.append_event(spec.model, lambda history: build_decision(request, history, spec.policy))
    decision = event or journal.read_state(spec.model).find_last_decision(request.run)
    assert decision is not None  # if no event was appended, an earlier call for this run appended one
    _log_decision(decision)
    window = window_spec.model_dump(include={"as_of", "train_days", "holdout_days", "label_delay_days"})
    return _build_result(decision, window)


def _check_gate_policy(model: str, dataset: Dataset) -> None:
    """Raise a SpecError, before the training, if the gate would refuse its policy for this dataset."""
    from pipelines import params
    from pipelines.evaluation.gates.early_check import check_gate_section

    check_gate_section(params.load_section(settings().project, "gate", model), dataset)


def resolve_run(run: str) -> str:
    """Return `run`; if it is empty, the DAG run that this process works for.

    Raises:
        SpecError: `run` is empty, and there is no DAG run. A retry cannot help.
    """
    if not (run or settings().run):
        raise SpecError("no run is named: LEEWAY_RUN is not set.", "Give --run, a name for this training.")
    return run or settings().run


def _build_request(spec: GuardSpec, run: str) -> Request:
    """Build the request with the facts that the guards need."""
    from pipelines.lake import Lake
    from pipelines.loop import Request
    from pipelines.loop.ask_guards import add_facts

    request = Request(
        model=spec.model,
        run=run,
        as_of=spec.as_of,
        trigger=spec.trigger,
        now=dt.datetime.now(dt.UTC),
        reason=spec.reason,
        drifted_columns=tuple(spec.drifted_columns),
    )
    return add_facts(request, load_dataset(spec.dataset), spec.policy, Lake.open())


def _log_decision(decision: Event) -> None:
    why = f": {decision.why}" if decision.kind == "held_back" else ""
    log_line = log.warning if decision.alert else log.info
    log_line("%s as of %s, requested by %s: %s%s", decision.model, decision.as_of, decision.trigger, decision.kind, why)


def _build_result(decision: Event, window: dict[str, int | dt.date]) -> GuardResult:
    return GuardResult.model_validate(
        {
            "model_name": decision.model,
            "as_of": decision.as_of,
            "trigger": decision.trigger,
            "outcome": "held_back" if decision.kind == "held_back" else "started",
            "guard": decision.guard,
            "reason": decision.why,
            "until": decision.until,
            "alert": decision.alert,
            "window": window,
        }
    )
