"""Record how a training that the step `guard` allowed has ended: passed, not passed, or failed. Idempotent."""

from __future__ import annotations

from typing import Literal

from pipelines.contract import Result, Spec
from pipelines.loop.events import Outcome
from pipelines.steps.guard import resolve_run
from pipelines.system.log import log


class RecordOutcomeSpec(Spec):
    """A training that has ended."""

    model: str
    """Registered model."""
    version: str = ""
    """Version that the run's gate judged; empty if the run ended before its gate."""
    run: str = ""
    """Run that has ended, DAG/RUN; empty: LEEWAY_RUN, which the operators set."""


class RecordOutcomeResult(Result):
    """The recorded outcome."""

    model_name: str
    """Registered model."""
    version: str
    """Version that was judged; empty if none was."""
    outcome: Literal["passed", "not_passed", "failed", ""]
    """How the training ended; empty if the guard did not allow it."""
    changed: bool
    """Whether this call recorded the outcome."""


def run(spec: RecordOutcomeSpec) -> RecordOutcomeResult:
    """Add the end of the run's training to the model's loop events. A recorded outcome is not changed.

    Raises:
        SpecError: no run is named. A retry cannot help.
        ConflictError: other writers kept adding events. A retry can help.
    """
    from pipelines.loop.journal import Journal
    from pipelines.loop.transitions import build_end

    run_id, outcome, journal = resolve_run(spec.run), _find_outcome(spec), Journal.open()
    event = journal.append_event(
        spec.model, lambda history: build_end(spec.model, run_id, outcome, spec.version, history)
    )
    training = journal.read_state(spec.model).trainings.get(run_id)
    recorded_outcome = training.outcome if training else ""
    log.info("%s: training of run %s: %s", spec.model, run_id, recorded_outcome or "the guard did not allow it")
    return RecordOutcomeResult.model_validate(
        {
            "model_name": spec.model,
            "version": spec.version,
            "outcome": recorded_outcome,
            "changed": event is not None,
        }
    )


def _find_outcome(spec: RecordOutcomeSpec) -> Outcome:
    """Find the outcome in the last event of the version: the gate's verdict, or the decision of a person."""
    from pipelines.registry.lifecycle import Journal, Kind

    judgement = Journal.open().read_state(spec.model).judgements.get(spec.version)
    if judgement is None:
        return "failed"
    has_passed = judgement.kind is Kind.APPROVED or judgement.evidence.get("verdict") == "passed"
    return "passed" if has_passed else "not_passed"
