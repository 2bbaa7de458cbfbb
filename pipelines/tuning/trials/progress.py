"""Describe the progress of a tuning on one line, and the error of a tuning without any result."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import optuna
from optuna.trial import TrialState

from pipelines.errors import TrainingError
from pipelines.tuning.plan import PlanSpec
from pipelines.tuning.trials.journal import count_warm_trials, find_best, list_trials

SCRIPT_HINT = (
    "A script that is tuned accepts --folds and --fold_days, and logs tuning-objective:NUMBER after each round and at "
    "its end: see docs/tutorial/tune-flights.md."
)
MINUTES_FROM_S = 120
"""Seconds from which a duration is shown in minutes."""


def describe_progress(study: optuna.Study, plan: PlanSpec, trial: optuna.Trial, result: str) -> str:
    """Describe a trial that has ended: number, values, result, the best so far, and the time that is left."""
    # In Optuna, this tuning's trials have the numbers after those of the warm start.
    offset, best_trial = count_warm_trials(study), find_best(study)
    best_text = f"best {best_trial.value:.5f} of trial {best_trial.number - offset}" if best_trial else "no result yet"
    seconds = [
        finished_trial.user_attrs.get("seconds", 0.0)
        for finished_trial in list_trials(study)
        if finished_trial.state.is_finished()
    ]
    trials_left = max(0, plan.count_trials() - len(seconds))
    left_s = math.ceil(trials_left / plan.parallel) * sum(seconds) / len(seconds)
    left_text = f"{left_s:.0f} s" if left_s < MINUTES_FROM_S else f"{left_s / 60:.0f} min"
    values = format_values(trial.params)
    return f"trial {trial.number - offset}: {values}: {result}; {best_text}; {trials_left} left, about {left_text}"


def format_values(values: dict[str, Any]) -> str:
    """Format the values of a trial: NAME VALUE, separated by commas."""
    return ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items()
    )


def raise_missing_objective(study: optuna.Study) -> NoReturn:
    """Raise the error of a tuning in which no trial has an objective.

    Raises:
        TrainingError: always. A retry cannot help.
    """
    trials = list_trials(study)
    number, failed_trial = next(
        ((number, trial) for number, trial in enumerate(trials) if trial.state == TrialState.FAIL), (0, None)
    )
    reason = failed_trial.user_attrs.get("reason", "") if failed_trial else "it was not completed"
    message = f"none of {len(trials)} trials has an objective. Trial {number}: {reason.rstrip('.')}."
    raise TrainingError(message, SCRIPT_HINT)
