"""Says whether a training may start: drift is held back where a guard says so. A "no" is a result. Idempotent.

Every run that asks is an event, and so is what held it back. Only drift is ever held back: what a person or the
calendar starts is recorded, so that it counts, and so is a backfill, which does not.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field

from pipelines.contract import Result, Spec
from pipelines.dataset import load_dataset
from pipelines.errors import SpecError
from pipelines.loop import Policy, Trigger
from pipelines.settings import settings
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.loop import Event, Request
    from pipelines.window import Window


def _names(given: object) -> object:
    if not isinstance(given, str) or given.startswith("["):
        return json.loads(given) if isinstance(given, str) else given
    return [name.strip() for name in given.split(",") if name.strip()]


class GuardSpec(Spec):
    """A training that is asked for."""

    dataset: str = "flights"
    """Dataset of the model."""
    model_name: str
    """Registered model."""
    as_of: dt.date
    """Moment of training (YYYY-MM-DD)."""
    trigger: Trigger = "manual"
    """Who asks: drift, the schedule, a person, or a backfill."""
    reason: str = ""
    """Why, in words."""
    worst: Annotated[list[str], BeforeValidator(_names)] = Field(default_factory=list)
    """Columns that drifted, the worst first; a list, as JSON or by commas."""
    run: str = ""
    """Run that asks, DAG/RUN; the one of LEEWAY_RUN, which the operators set, where it is not given."""
    policy: Policy = Policy()
    """What the guards hold to."""


class GuardResult(Result):
    """The answer."""

    model_name: str
    """Registered model."""
    as_of: dt.date
    """Moment of training."""
    trigger: Trigger
    """Who asked."""
    outcome: Literal["started", "held_back"]
    """Whether it may start."""
    guard: str
    """Guard that holds it back, the gravest where several do; empty where it may start."""
    reason: str
    """Why, by all guards that hold it back, in a line; empty where it may start."""
    until: dt.date | None
    """First moment at which the guards would let drift start one by themselves; null: something has to happen first."""
    alert: bool
    """Whether somebody should look at it: data did not pass validation, or trainings the gate; once for a cause."""
    window: dict[str, int | dt.date]
    """Window of the training, for the step `snapshot`: as_of, train_days, holdout_days, label_delay_days."""


def run(spec: GuardSpec) -> GuardResult:
    """The answer is among the model's loop events; the same run has the same answer until it ended.

    Raises:
        SpecError: no run asks, or params.yaml is not valid. A retry cannot help.
        DataError: the budget's instance type has no known price. A retry cannot help.
        ConflictError: others kept writing events. A retry can help.
    """
    from pipelines.loop import facts
    from pipelines.loop.journal import Journal
    from pipelines.loop.transitions import answer_request

    window = facts.training_window(spec.as_of)
    asked, journal = request(spec, asking(spec.run), window.window()), Journal.open()
    event = journal.change(spec.model_name, lambda history: answer_request(asked, history, spec.policy))
    told = event or journal.state(spec.model_name).last_answer(asked.run)
    assert told is not None  # it was told before, or this very moment
    return _result(told, window.model_dump(include={"as_of", "train_days", "holdout_days", "label_delay_days"}))


def asking(given: str) -> str:
    """The run that is given, or the one of a DAG that this process works for.

    Raises:
        SpecError: there is none.
    """
    if not (given or settings().run):
        raise SpecError("no run asks: LEEWAY_RUN is not set.", "Give --run, a name for this training.")
    return given or settings().run


def request(spec: GuardSpec, run: str, window: Window) -> Request:
    """What is asked, with what is so now. What only guards of drift ask is not looked up for others."""
    from pipelines.lake import Lake
    from pipelines.loop import Request, facts

    lake, chosen, drift = Lake.open(), load_dataset(spec.dataset), spec.trigger == "drift"
    days = facts.before(spec.as_of, spec.policy.quality_days if drift else 0)
    return Request(
        model=spec.model_name,
        run=run,
        as_of=spec.as_of,
        trigger=spec.trigger,
        now=dt.datetime.now(dt.UTC),
        reason=spec.reason,
        worst=tuple(spec.worst),
        data=facts.data_digest(lake, chosen, window),
        failed_validations=tuple(facts.broken(lake, chosen, days, spec.worst)),
        over_budget=facts.over_budget() if drift else "",
    )


def _result(told: Event, window: dict[str, int | dt.date]) -> GuardResult:
    held = told.kind == "held_back"
    say = log.warning if told.alert else log.info
    say("%s as of %s, by %s: %s%s", told.model, told.as_of, told.trigger, told.kind, f": {told.why}" if held else "")
    answer = {"outcome": "held_back" if held else "started", "guard": told.guard, "reason": told.why}
    about = {"model_name": told.model, "as_of": told.as_of, "trigger": told.trigger}
    return GuardResult.model_validate(about | answer | {"until": told.until, "alert": told.alert, "window": window})
