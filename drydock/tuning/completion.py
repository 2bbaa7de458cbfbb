"""Decide when a tuning job ends, and how."""

from collections.abc import Sequence

from drydock.jobs.states import Status
from drydock.tuning.plan import TuningPlan
from drydock.tuning.records import Ending
from drydock.tuning.trial import Trial

MAX_FAILURES = 5
"""A tuning job fails if this many training jobs have ended and none has succeeded, as on SageMaker.

Here, a training job counts as a success if the newest value of its objective is a finite number, even if it failed.
SageMaker does not document what it does with a NaN, only that ObjectiveStatus is Failed if the objective "was not
evaluated"."""
MIN_IMPROVEMENT = 0.01
"""A trial counts as an improvement if it is better than the improvement before it by more than this share: SageMaker's
1%. The first trial with an objective always counts as one."""
NO_SUCCESS_ADVICE = "Please take a look at the training job failures to get more details."
NO_OBJECTIVE_ADVICE = (
    "Please ensure that the custom algorithm is emitting the objective metric as defined by the regular expression "
    "provided."
)


def find_best(trials: Sequence[Trial], plan: TuningPlan) -> Trial | None:
    """Return the trial with the best objective, the first if there are several; None if no trial `can_be_best`."""
    best_trial: Trial | None = None
    for trial in trials:
        if trial.can_be_best and (
            best_trial is None or plan.objective.is_better(_get_objective(trial), _get_objective(best_trial))
        ):
            best_trial = trial
    return best_trial


def find_ending(trials: Sequence[Trial], plan: TuningPlan, running_s: float) -> Ending | None:
    """Return how the tuning job ends; None if it continues.

    It ends if it meets a completion criterion or reaches MaxRuntimeInSeconds, or if `MAX_FAILURES` trials have ended
    and no trial has a finite number as the newest value of its objective.

    Args:
        trials: The trials so far.
        plan: The tuning job's request.
        running_s: Seconds since the creation of the tuning job.
    """
    ended_trials = [trial for trial in trials if trial.has_ended]
    if running_s >= plan.max_runtime_s or _is_target_met(ended_trials, plan):
        return Ending(Status.COMPLETED)
    limit = plan.criteria.get("BestObjectiveNotImproving", {}).get("MaxNumberOfTrainingJobsNotImproving")
    if limit is not None and count_trials_without_improvement(ended_trials, plan) >= limit:
        return Ending(Status.COMPLETED)
    if len(ended_trials) < MAX_FAILURES or any(trial.has_finite_value for trial in trials):
        return None
    return _describe_failure(ended_trials)


def choose_final_ending(trials: Sequence[Trial], planned_ending: Ending | None) -> Ending:
    """Return how a tuning job ends whose training jobs have all ended.

    A planned ending as Stopped or Failed is returned unchanged. Otherwise, the job is Failed if it has trials and none
    of them has an objective, and Completed in all other cases.

    Args:
        trials: All trials.
        planned_ending: The ending that was decided before, by `find_ending`, a request to stop or an error; None if all
            planned trials have run.
    """
    if planned_ending and planned_ending.status is not Status.COMPLETED:
        return planned_ending
    if any(trial.objective is not None for trial in trials):
        return Ending(Status.COMPLETED)
    return _describe_failure(trials) if trials else Ending(Status.COMPLETED)


def count_trials_without_improvement(trials: Sequence[Trial], plan: TuningPlan) -> int:
    """Return how many trials with an objective have ended since the last improvement (`MIN_IMPROVEMENT`)."""
    trials_with_objective = [
        trial for trial in trials if trial.objective is not None and trial.job and trial.job.ended_at
    ]
    count, last_improvement = 0, None
    for trial in sorted(trials_with_objective, key=lambda item: item.job.ended_at):  # type: ignore[union-attr, arg-type, return-value]
        value = _get_objective(trial)
        margin = MIN_IMPROVEMENT * abs(last_improvement) if last_improvement is not None else 0.0
        if last_improvement is None or plan.objective.is_better(
            value, last_improvement - margin if plan.objective.is_minimized else last_improvement + margin
        ):
            count, last_improvement = 0, value
        else:
            count += 1
    return count


def _is_target_met(trials: Sequence[Trial], plan: TuningPlan) -> bool:
    target = plan.criteria.get("TargetObjectiveMetricValue")
    if target is None:
        return False
    best_trial = find_best(trials, plan)
    return best_trial is not None and not plan.objective.is_better(target, _get_objective(best_trial))


def _describe_failure(trials: Sequence[Trial]) -> Ending:
    """Return the ending of a tuning job without any objective, with SageMaker's FailureReason."""
    count = len(trials)
    if all(trial.status is Status.FAILED for trial in trials):
        start = (
            f"No training job succeeded after {count} attempts."
            if count >= MAX_FAILURES
            else "All training jobs failed."
        )
        return Ending(Status.FAILED, f"{start} {NO_SUCCESS_ADVICE}")
    return Ending(
        Status.FAILED, f"No objective metrics found after running {count} training jobs. {NO_OBJECTIVE_ADVICE}"
    )


def _get_objective(trial: Trial) -> float:
    assert trial.objective is not None, f"{trial.record.name} has no objective"
    return trial.objective
