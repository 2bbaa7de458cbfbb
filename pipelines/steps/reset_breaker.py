"""Reset the breaker of a model, so that it counts only the trainings after the reset. Idempotent in a DAG run.

The breaker is a guard: it pauses retrainings after several in a row did not pass the gate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.errors import DataError
from pipelines.settings import settings
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.loop.events import Event, History


class ResetBreakerSpec(Spec):
    """The model, and why its breaker is reset."""

    model: str
    """Registered model."""
    why: str = Field(min_length=1, pattern=r"\S")
    """The reason; it is recorded."""


class ResetBreakerResult(Result):
    """The recorded reset."""

    model_name: str
    """Registered model."""
    changed: bool
    """Whether this call reset the breaker; false if its DAG run did so before."""
    who: str
    """Person or process that reset it."""
    why: str
    """The recorded reason."""


def run(spec: ResetBreakerSpec) -> ResetBreakerResult:
    """Add the reset to the model's loop events. The guard `breaker` counts only trainings after it.

    Raises:
        DataError: the loop has no event of the model, so there is nothing to reset. A retry cannot help.
        ConflictError: other writers kept adding events. A retry can help.
    """
    from pipelines.loop.journal import Journal
    from pipelines.loop.transitions import build_reset

    journal = Journal.open()
    if not journal.read_state(spec.model).events:
        raise DataError(
            f"the loop has no event of {spec.model!r}.",
            "Check the name; the first task of a training DAG, `guard`, records the first event.",
        )
    event = journal.append_event(
        spec.model,
        lambda history: (
            None if _find_reset_of_run(history) else build_reset(spec.model, spec.why, history, settings().run)
        ),
    )
    reset = event or _find_reset_of_run(journal.read_state(spec.model))
    if reset is None:
        raise AssertionError("a reset was neither added nor found")
    log.info("%s: the breaker is reset by %s: %s", spec.model, reset.who, reset.why)
    return ResetBreakerResult(model_name=spec.model, changed=event is not None, who=reset.who, why=reset.why)


def _find_reset_of_run(history: History) -> Event | None:
    """Return the reset that this DAG run has recorded already; None outside of Airflow, or if there is none."""
    from pipelines.loop.events import Kind

    run_id = settings().run
    resets = (event for event in history.events if run_id and event.kind is Kind.RESET and event.run == run_id)
    return next(resets, None)
