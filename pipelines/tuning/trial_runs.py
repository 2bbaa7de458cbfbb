"""Create one MLflow run for a SageMaker tuning job, and make it the parent of the runs of the trials.

The trials create their runs themselves, since they are ordinary training jobs. They do not know the tuning that they
belong to. For a trial without a run, such as one that failed before its script started, a run is created.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from pipelines.parameters import Parameters
from pipelines.system.log import log
from pipelines.tuning.space import Value

State = Literal["complete", "pruned", "stopped", "failed"]
STATUSES: dict[State, str] = {"complete": "FINISHED", "pruned": "KILLED", "stopped": "KILLED", "failed": "FAILED"}
"""Maps each state of a trial to the status of its run."""


class TrainedTrial(Parameters):
    """A trial that has ended, of a SageMaker tuning job."""

    name: str
    """Name of its training job."""
    state: State
    """How it ended: pruned by early stopping or Hyperband, or stopped by a limit, such as the budget, or a person."""
    objective: float | None = None
    """Its objective, mean loss of the folds; null if it has none."""
    hyperparameters: dict[str, Value] = Field(default_factory=dict)
    """Its values of the searched hyperparameters."""
    cost_usd: float = 0.0
    """What it cost, USD."""
    seconds: float = 0.0
    """How long its training ran, seconds."""
    reason: str = ""
    """Why it failed."""
    rounds: dict[int, float] = Field(default_factory=dict)
    """Maps each number of rounds, from 1, to the objective after that many rounds; empty: not known."""

    @property
    def explanation(self) -> str:
        """The reason of a failure, or the round after which the trial was pruned or stopped; empty if not known."""
        if self.state in {"pruned", "stopped"} and self.rounds and not self.reason:
            limit = " by a limit or a person" if self.state == "stopped" else ""
            return f"{self.state}{limit} after round {max(self.rounds)}"
        return self.reason


def nest_runs(
    tuning: str,
    trials: Sequence[TrainedTrial],
    params: Mapping[str, Any],
    winner: str,
    write_report: Callable[[Path], None],
    earlier_trials: int = 0,
) -> str:
    """Create the run of a tuning, and make the runs of its trials its children. Idempotent.

    An error of MLflow is only logged: the trials are paid for, and their results must not be lost.

    Args:
        tuning: name of the tuning.
        trials: its trials.
        params: parameters of the run of the tuning.
        winner: name of the winner's training job.
        write_report: writes the report of the tuning to a folder; the run of the tuning gets it as an artifact.
        earlier_trials: number of trials of earlier tunings that this one learned from (warm start).

    Returns:
        Id of the run of the tuning; empty if MLflow does not answer, or no trial has a run.
    """
    from pipelines.tuning.trials.mlflow_runs import connect

    client = connect()
    if client is None:
        return ""
    try:
        run_id = _nest_runs(client, tuning, trials, params, winner)
        if run_id:
            _log_metrics(client, run_id, {"earlier_trials": earlier_trials} if earlier_trials else {})
            _log_report(client, run_id, write_report)
        return run_id
    except Exception as error:  # mlflow raises errors of any type
        log.warning("MLflow failed: the runs of the trials have no parent: %s", " ".join(str(error).split())[:200])
        return ""


def _nest_runs(client: Any, tuning: str, trials: Sequence[TrainedTrial], params: Mapping[str, Any], winner: str) -> str:
    from pipelines.tuning.trials.mlflow_runs import PARENT, TRIAL_TAG, TUNING_TAG

    runs = _find_runs(client, trials)
    if not runs:
        log.warning("no trial of %s has a run in MLflow: do the jobs reach MLFLOW_TRACKING_URI?", tuning)
        return ""
    experiment_id = next(iter(runs.values())).info.experiment_id
    query = f"tags.`{TUNING_TAG}` = '{tuning}' and tags.`{TRIAL_TAG}` = '{PARENT}'"
    parents = client.search_runs([experiment_id], query, max_results=1)
    tags = {TUNING_TAG: tuning, TRIAL_TAG: PARENT}
    parent = parents[0] if parents else client.create_run(experiment_id, run_name=tuning, tags=tags)
    run_id = str(parent.info.run_id)
    for number, trial in enumerate(trials):
        run = runs.get(trial.name) or _create_run(client, experiment_id, trial)
        _complete_run(client, run, trial, {TUNING_TAG: tuning, TRIAL_TAG: str(number)}, run_id)
    _complete_parent(client, run_id, trials, params, winner)
    return run_id


def _find_runs(client: Any, trials: Sequence[TrainedTrial]) -> dict[str, Any]:
    """Return the run of each trial, by the name of its training job. A trial without a run is left out."""
    from pipelines.system.mlflow_server import JOB_TAG

    experiment_ids = [experiment.experiment_id for experiment in client.search_experiments()]
    runs: dict[str, Any] = {}
    for trial in trials:
        # There is at most one such run.
        for run in client.search_runs(experiment_ids, f"tags.`{JOB_TAG}` = '{trial.name}'", max_results=1):
            runs[trial.name] = run
            experiment_ids = [run.info.experiment_id]  # all trials log to the experiment of their dataset
    return runs


def _create_run(client: Any, experiment_id: str, trial: TrainedTrial) -> Any:
    """Create the run of a trial that has none, with its searched hyperparameters. `_find_runs` finds it from now on."""
    from pipelines.system.mlflow_server import JOB_TAG

    run = client.create_run(experiment_id, run_name=trial.name, tags={JOB_TAG: trial.name})
    for name, value in trial.hyperparameters.items():
        client.log_param(run.info.run_id, name, value)
    return run


def _complete_run(client: Any, run: Any, trial: TrainedTrial, tags: Mapping[str, str], parent_id: str) -> None:
    """Record the result of a trial in its run, and the run of the tuning as its parent."""
    from pipelines.tuning.trials.mlflow_runs import PARENT_TAG, STATE_TAG, log_rounds

    run_id, explanation = run.info.run_id, trial.explanation[:5_000]
    reason = {"leeway.trial_reason": explanation} if explanation else {}
    results = {"cost_usd": trial.cost_usd} | ({} if trial.objective is None else {"objective": trial.objective})
    for name, text in {**tags, PARENT_TAG: parent_id, STATE_TAG: trial.state, **reason}.items():
        client.set_tag(run_id, name, text)
    _log_metrics(client, run_id, results)
    # With the time of the run's start, a repeated call has equal points, which MLflow does not add again.
    log_rounds(client, run_id, trial.rounds, run.info.start_time)
    client.set_terminated(run_id, STATUSES[trial.state], run.info.end_time)


def _complete_parent(
    client: Any, run_id: str, trials: Sequence[TrainedTrial], params: Mapping[str, Any], winner: str
) -> None:
    """Record the parameters and the results of a tuning in its run."""
    results = {"trials": float(len(trials)), "cost_usd": sum(trial.cost_usd for trial in trials)}
    results |= {str(state): float(sum(trial.state == state for trial in trials)) for state in STATUSES}
    objective = next(trial.objective for trial in trials if trial.name == winner)
    _log_metrics(client, run_id, results if objective is None else {**results, "objective": objective})
    for name, value in params.items():
        client.log_param(run_id, name, str(value)[:500])
    client.set_tag(run_id, "leeway.best_trial", winner)
    client.set_terminated(run_id)


def _log_report(client: Any, run_id: str, write_report: Callable[[Path], None]) -> None:
    """Write the report of a tuning, and log it as an artifact of its run."""
    from pipelines.tuning.trials.mlflow_runs import REPORT_FOLDER

    with tempfile.TemporaryDirectory() as folder:
        write_report(Path(folder))
        client.log_artifacts(run_id, folder, REPORT_FOLDER)


def _log_metrics(client: Any, run_id: str, values: Mapping[str, float]) -> None:
    from mlflow.entities import Metric

    now_ms = int(time.time() * 1_000)
    client.log_batch(run_id, [Metric(name, value, now_ms, 0) for name, value in values.items()])
