"""Records what became of a training that `guard` let start: it passed the gate, did not, or failed. Idempotent."""

from __future__ import annotations

from typing import Literal

from pipelines.contract import Result, Spec
from pipelines.loop.events import Outcome
from pipelines.steps.guard import asking
from pipelines.system.log import log


class SettleSpec(Spec):
    """A training that has ended."""

    model_name: str
    """Registered model."""
    version: str = ""
    """Version that the run's gate judged; empty where it did not come so far."""
    run: str = ""
    """Run that has ended, DAG/RUN; the one of LEEWAY_RUN, which the operators set, where it is not given."""


class SettleResult(Result):
    """What is on record."""

    model_name: str
    """Registered model."""
    version: str
    """Version that was judged; empty where none was."""
    outcome: Literal["passed", "not_passed", "failed", ""]
    """What became of it; empty where the run was never let start."""
    changed: bool
    """Whether this call recorded it."""


def run(spec: SettleSpec) -> SettleResult:
    """The end of the run's training is among the model's loop events. The first word on it stands.

    Raises:
        SpecError: it is not said which run. A retry cannot help.
        ConflictError: others kept writing events. A retry can help.
    """
    from pipelines.loop.journal import Journal
    from pipelines.loop.transitions import end_training

    ours, outcome, journal = asking(spec.run), _outcome(spec), Journal.open()
    event = journal.change(
        spec.model_name, lambda history: end_training(spec.model_name, ours, outcome, spec.version, history)
    )
    training = journal.state(spec.model_name).trainings.get(ours)
    told = training.outcome if training else ""
    log.info("%s: the training of %s: %s", spec.model_name, ours, told or "was never let start")
    return SettleResult.model_validate(
        {"model_name": spec.model_name, "version": spec.version, "outcome": told, "changed": event is not None}
    )


def _outcome(spec: SettleSpec) -> Outcome:
    """By the last word on the version: its verdict, or what a person decided on it."""
    from pipelines.registry.lifecycle import Journal, Kind

    last = Journal.open().state(spec.model_name).standing.get(spec.version)
    if last is None:
        return "failed"
    passed = last.kind is Kind.APPROVED or last.evidence.get("verdict") == "passed"
    return "passed" if passed else "not_passed"
