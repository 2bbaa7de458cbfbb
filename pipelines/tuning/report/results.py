"""Collect the results of a tuning, and write them as files: the table of the trials, and the winner."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import stdev
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from pipelines.system.files import replace_file, write_json
from pipelines.tuning.plan import PlanSpec
from pipelines.tuning.record import TuningRecord
from pipelines.tuning.request import Request
from pipelines.tuning.trials.journal import count_earlier_trials, list_trials
from pipelines.tuning.trials.mlflow_runs import STATE_NAMES
from pipelines.tuning.trials.process import LOG_FILE, ObjectiveLog
from pipelines.tuning.trials.progress import raise_missing_objective
from pipelines.tuning.warm_start import BEST_FILE, PARAMETER_PREFIX, TRIALS_FILE

STOPPED = "stopped"
"""State of a trial that a limit, such as the budget of a SageMaker tuning, or a person stopped. On this machine, no
trial gets it: a trial that runs longer than `max_trial_s` fails."""
DEFAULT_METRIC = "loss"
"""Name of the objective of a script that does not name it in folds.json."""


@dataclass(frozen=True)
class TrialResult:
    """The result of one trial."""

    number: int
    """Number of the trial in the tuning, from 0."""
    state: str
    """complete, pruned, stopped or failed."""
    objective: float | None
    """Mean loss of the folds at the best round; None if the trial was not completed."""
    rounds: dict[int, float]
    """Maps each number of rounds to the objective after them."""
    seconds: float
    """How long the trial ran, seconds."""
    parameters: dict[str, Any]
    """Values of the searched hyperparameters."""
    folds: list[dict[str, Any]]
    """Days, rows and loss of each fold; empty if the script does not write them."""
    metric: str
    """Name of the objective."""
    reason: str
    """Why the trial failed, or after which round it was pruned or stopped; may be empty."""
    cost_usd: float = 0.0
    """Cost of the trial, USD; 0 on this machine."""

    @property
    def best_round(self) -> int | None:
        """Number of rounds after which the objective was lowest; None if no objective was logged."""
        return min(self.rounds, key=lambda number: self.rounds[number], default=None)

    @property
    def loss(self) -> float | None:
        """The objective; of a trial that was not completed, the lowest after a round; None if none was logged."""
        return min(self.rounds.values(), default=None) if self.objective is None else self.objective

    @property
    def fold_losses(self) -> list[float]:
        """Loss on each fold."""
        return [float(fold["loss"]) for fold in self.folds]


@dataclass(frozen=True)
class TuningResult:
    """The trials of a tuning that has ended."""

    name: str
    plan: PlanSpec
    trials: Sequence[TrialResult]
    winner: TrialResult
    """The completed trial with the lowest objective."""
    earlier_trials: int = 0
    """Number of trials of earlier tunings; see `TuningRecord`."""

    @property
    def objective(self) -> float:
        """Objective of the winner."""
        assert self.winner.objective is not None, "only a completed trial wins"
        return self.winner.objective

    @property
    def counts(self) -> dict[str, int]:
        """Number of trials (`trials`), and of those of each state: complete, pruned, stopped and failed."""
        counts = Counter(trial.state for trial in self.trials)
        return {"trials": len(self.trials), **{name: counts[name] for name in (*STATE_NAMES.values(), STOPPED)}}

    @property
    def record(self) -> TuningRecord:
        """The record of this tuning, for a training with the winner's values."""
        return TuningRecord(
            name=self.name,
            trials=len(self.trials),
            earlier_trials=self.earlier_trials,
            stopped=self.counts[STOPPED],
            strategy=self.plan.strategy,
            metric=self.winner.metric,
            objective=self.objective,
            fold_losses=self.winner.fold_losses,
            hyperparameters=self.winner.parameters,
        )


def collect_results(request: Request, study: optuna.Study) -> TuningResult:
    """Collect the results of all trials.

    Raises:
        TrainingError: no trial has an objective. A retry cannot help.
    """
    trials = [_read_trial(request, number, trial) for number, trial in enumerate(list_trials(study))]
    completed_trials = [trial for trial in trials if trial.objective is not None]
    if not completed_trials:
        raise_missing_objective(study)
    winner = min(completed_trials, key=lambda trial: (trial.objective, trial.number))
    return TuningResult(request.name, request.plan, trials, winner, count_earlier_trials(study))


def _read_trial(request: Request, number: int, trial: FrozenTrial) -> TrialResult:
    objective_log = ObjectiveLog(request.folder / "trials" / f"{number:04d}" / LOG_FILE)
    objective_log.read()
    pruned_at = trial.user_attrs.get("pruned_at")
    # A pruned trial may log some more rounds before its process ends.
    rounds = {count: value for count, value in objective_log.rounds.items() if not pruned_at or count <= pruned_at}
    folds_content = trial.user_attrs.get("folds", {})  # the content of folds.json
    return TrialResult(
        number=number,
        state=STATE_NAMES[trial.state],
        objective=trial.value if trial.state == TrialState.COMPLETE else None,
        rounds=rounds,
        seconds=trial.user_attrs.get("seconds", 0.0),
        parameters=dict(trial.params),
        folds=folds_content.get("folds", []),
        metric=folds_content.get("metric", DEFAULT_METRIC),
        reason=trial.user_attrs.get("reason", ""),
    )


def write_results(folder: Path, result: TuningResult) -> None:
    """Write trials.csv and best.json to a folder."""
    _write_table(folder / TRIALS_FILE, result.trials)
    write_json(folder / BEST_FILE, build_best(result))


def build_best(result: TuningResult) -> dict[str, Any]:
    """Return the content of best.json: the winner, and how it was found."""
    winner, losses = result.winner, result.winner.fold_losses
    return {
        **result.record.model_dump(),
        "trial": winner.number,
        "counts": result.counts,
        "best_round": winner.best_round,
        "num_round": "not fixed: the refit stops early on its validation rows",
        "folds": winner.folds,
        "folds_stdev": stdev(losses) if len(losses) > 1 else None,
        "seconds": round(sum(trial.seconds for trial in result.trials), 3),
        "cost_usd": round(sum(trial.cost_usd for trial in result.trials), 6),
    }


def _write_table(path: Path, trials: Sequence[TrialResult]) -> None:
    names = list(dict.fromkeys(name for trial in trials for name in trial.parameters))
    columns = ["number", "state", "objective", "rounds", "best_round", "seconds", "reason"]
    with replace_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*columns, *(f"{PARAMETER_PREFIX}{name}" for name in names)])
        for trial in trials:
            objective = "" if trial.objective is None else repr(trial.objective)
            row = [trial.number, trial.state, objective, max(trial.rounds, default=0), trial.best_round or ""]
            parameters = [trial.parameters.get(name, "") for name in names]
            writer.writerow([*row, trial.seconds, trial.reason, *parameters])
