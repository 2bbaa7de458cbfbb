"""Decide which trial starts next, and which running trials must be stopped.

`sampling` is imported inside functions, because it imports Optuna, which takes a second.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from drydock.jobs.states import Status
from drydock.tuning.early_stopping import is_worse_than_median
from drydock.tuning.plan import TuningPlan, build_trial_name
from drydock.tuning.records import StopCause, TrialRecord, TuningRecord
from drydock.tuning.trial import Trial

if TYPE_CHECKING:
    from drydock.tuning.sampling import Observation


def has_next(plan: TuningPlan, trials: Sequence[Trial]) -> bool:
    """Return whether a trial must still be started."""
    return _find_retry(plan, trials) is not None or _count_proposals(trials) < plan.max_trials


def choose_next(record: TuningRecord, plan: TuningPlan, trials: Sequence[Trial]) -> TrialRecord:
    """Return the next trial: another attempt of a failed one, or a new one. Call it only if `has_next` is true.

    Args:
        record: What is stored of the tuning job.
        plan: The tuning job's request.
        trials: The trials so far.
    """
    name = build_trial_name(record.name, record.arn, record.created_at.isoformat(), len(trials) + 1)
    if (failed_trial := _find_retry(plan, trials)) is not None:
        return TrialRecord(name, failed_trial.record.values, failed_trial.record.attempt + 1)
    from drydock.tuning.sampling import propose

    observations = _build_observations(record, trials)
    return TrialRecord(name, propose(plan, record.seed, _count_proposals(trials), observations))


def find_stop_cause(
    record: TuningRecord, plan: TuningPlan, trials: Sequence[Trial], index: int, first_step: int
) -> StopCause | None:
    """Return why a running trial must be stopped; None if it continues.

    Args:
        record: What is stored of the tuning job.
        plan: The tuning job's request.
        trials: All trials.
        index: Index of the trial.
        first_step: Number, from 1, of the first value of the trial's objective that was not checked before.
    """
    series = trials[index].series
    if plan.stops_early:
        completed_series = [other.series for other in trials if other.status is Status.COMPLETED]
        return StopCause.PRUNED if is_worse_than_median(series, first_step, completed_series, plan.objective) else None
    if plan.strategy != "Hyperband":
        return None
    from drydock.tuning.sampling import is_stopped_by_hyperband

    observations, observation_index = _build_observations(record, trials), len(record.parent_trials) + index
    for step in range(first_step, len(series) + 1):
        if is_stopped_by_hyperband(plan, observation_index, observations, step):
            return StopCause.PRUNED
    # A trial that has only reached MaxResource continues: a script that does that much work ends by itself, and saves
    # its model.
    return StopCause.MAX_RESOURCE if len(series) > plan.resource_bounds[1] else None


def _find_retry(plan: TuningPlan, trials: Sequence[Trial]) -> Trial | None:
    """Return a trial whose last attempt failed with an internal error, and that may be repeated; None if none may."""
    last_attempts = {tuple(sorted(trial.record.values.items())): trial for trial in trials}
    for trial in last_attempts.values():
        if trial.has_internal_error and trial.record.attempt < plan.max_retries:
            return trial
    return None


def _count_proposals(trials: Sequence[Trial]) -> int:
    return sum(trial.record.attempt == 0 for trial in trials)


def _build_observations(record: TuningRecord, trials: Sequence[Trial]) -> "list[Observation]":
    from drydock.tuning.sampling import Observation

    parents = [Observation(item.values, "complete", item.objective) for item in record.parent_trials]
    return [*parents, *(_build_observation(trial) for trial in trials)]


def _build_observation(trial: Trial) -> "Observation":
    from drydock.tuning.sampling import Observation

    values, series = trial.record.values, list(trial.series)
    if not trial.has_ended:
        return Observation(values, "running", series=series)
    if trial.objective is None:
        return Observation(values, "failed", series=series)
    state = "complete" if trial.can_be_best else "pruned"
    return Observation(values, state, trial.objective, series)
