"""Record a tuning in MLflow: its own run, and a nested run for each trial. Without a server, only files record it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from optuna.trial import TrialState

from pipelines.errors import ServiceError, SpecError
from pipelines.settings import settings
from pipelines.system.log import log
from pipelines.system.mlflow_server import find_or_create_experiment, is_reachable, prepare_client

TUNING_TAG = "leeway.tuning"
"""Tag of the run of a tuning, and of the runs of its trials: the tuning's name."""
TRIAL_TAG = "leeway.trial"
"""Tag of the runs of a tuning: for the run of a trial, the number of the trial; for the run of the tuning, `PARENT`."""
PARENT = "parent"
"""Value of `TRIAL_TAG` for the run of a tuning."""
STATE_TAG = "leeway.trial_state"
"""Tag of the run of a trial: complete, pruned, failed, or (only in SageMaker) stopped. Before its end, a trial has no
such tag."""
PARENT_TAG = "mlflow.parentRunId"
"""MLflow's tag of a nested run: the id of its parent."""
STATUSES = {TrialState.COMPLETE: "FINISHED", TrialState.PRUNED: "KILLED", TrialState.FAIL: "FAILED"}
"""Maps each state of a trial in Optuna to the status of its run."""
STATE_NAMES = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}
"""Maps each state of a trial in Optuna to its name in Leeway."""
REPORT_FOLDER = "report"
"""Folder of the report among the artifacts of the run of a tuning."""
MAX_RUNS = 10_000
"""Largest number of trials of a tuning, and so of their runs."""
RUN_ID = re.compile(r"[0-9a-f]{32}")
"""Pattern of the id of a run."""
BATCH = 900
"""Number of metrics in one request; MLflow accepts 1,000."""


class TuningRuns:
    """The runs of a tuning in MLflow. An error of the server never stops the tuning.

    A tuning that resumes continues its runs: they are found by their tags.

    Args:
        name: name of the tuning.
        experiment: name of the MLflow experiment.
        params: parameters of the run of the tuning; the same whenever a tuning of this name resumes.
        limits: values that may differ when a tuning resumes, such as the number of trials. They become tags, because
            MLflow refuses another value of a parameter.
    """

    def __init__(
        self, name: str, experiment: str, params: Mapping[str, Any], limits: Mapping[str, Any] | None = None
    ) -> None:
        self.name, self._client = name, connect()
        self._trial_runs: dict[int, str] = {}
        self.run_id = ""
        """Id of the run of the tuning; empty if MLflow does not answer."""
        self._call(lambda: self._open(experiment, params, limits or {}))

    def start_trial(self, number: int, params: Mapping[str, Any]) -> None:
        """Create the run of a trial, unless it exists, and record its hyperparameters."""
        self._call(lambda: self._open_trial(number, params))

    def finish_trial(
        self,
        number: int,
        state: TrialState | None,
        reason: str,
        rounds: Mapping[int, float],
        objective: float | None,
        seconds: float,
    ) -> None:
        """Record the objective of each round, the result and the time of a trial, and end its run.

        Do nothing if the trial has no decision yet (`state` is None), or no run.
        """
        if state is not None and number in self._trial_runs:
            results = {"seconds": seconds, "cost_usd": 0.0}  # on this machine, trials cost nothing
            results |= {} if objective is None else {"objective": objective}
            self._call(lambda: self._finish_trial(self._trial_runs[number], state, reason, rounds, results))

    @property
    def is_connected(self) -> bool:
        """Whether the runs are recorded: False without a server, and after an error of the server."""
        return self._client is not None

    def find_missing_trials(self, count: int) -> list[int]:
        """Return which of the trials 0 to `count - 1` have no result in MLflow; [] if it does not answer."""
        recorded_numbers: list[int] = []
        self._call(lambda: recorded_numbers.extend(self._list_recorded_trials()))
        return sorted(set(range(count)) - set(recorded_numbers)) if self.is_connected else []

    def log_report(self, folder: Path) -> None:
        """Log the report, with its pictures, as an artifact of the run of the tuning."""
        self._call(lambda: self._client.log_artifacts(self.run_id, str(folder), REPORT_FOLDER))

    def finish(self, results: Mapping[str, float], tags: Mapping[str, str]) -> None:
        """Record the result of the tuning, and end its run."""
        self._call(lambda: self._finish(results, tags))

    def _open(self, experiment: str, params: Mapping[str, Any], limits: Mapping[str, Any]) -> None:
        self._experiment_id = find_or_create_experiment(self._client, experiment)
        tags = {TUNING_TAG: self.name, TRIAL_TAG: PARENT}
        self.run_id = self._find_or_create(self.name, tags, f"tags.`{TRIAL_TAG}` = '{PARENT}'")
        for name, value in params.items():
            self._client.log_param(self.run_id, name, str(value)[:500])
        for name, value in limits.items():
            self._client.set_tag(self.run_id, f"leeway.{name}", str(value))

    def _list_recorded_trials(self) -> list[int]:
        query = f"tags.`{TUNING_TAG}` = '{self.name}' and tags.`{PARENT_TAG}` = '{self.run_id}'"
        runs = self._client.search_runs([self._experiment_id], query, max_results=MAX_RUNS)
        return [int(run.data.tags[TRIAL_TAG]) for run in runs if STATE_TAG in run.data.tags]

    def _open_trial(self, number: int, params: Mapping[str, Any]) -> None:
        tags = {TUNING_TAG: self.name, TRIAL_TAG: str(number), PARENT_TAG: self.run_id}
        run_id = self._find_or_create(f"trial {number}", tags, f"tags.`{TRIAL_TAG}` = '{number}'")
        self._trial_runs[number] = run_id
        for name, value in params.items():
            self._client.log_param(run_id, name, value)

    def _find_or_create(self, run_name: str, tags: Mapping[str, str], condition: str) -> str:
        """Return the id of the tuning's run that meets a condition, with status RUNNING; create it if none does."""
        query = f"tags.`{TUNING_TAG}` = '{self.name}' and {condition}"
        runs = self._client.search_runs([self._experiment_id], query, max_results=1)
        if runs:
            self._client.update_run(runs[0].info.run_id, status="RUNNING")
            return str(runs[0].info.run_id)
        return str(self._client.create_run(self._experiment_id, run_name=run_name, tags=dict(tags)).info.run_id)

    def _finish_trial(
        self, run_id: str, state: TrialState, reason: str, rounds: Mapping[int, float], results: Mapping[str, float]
    ) -> None:
        from mlflow.entities import Metric

        now_ms = int(time.time() * 1_000)
        log_rounds(self._client, run_id, rounds, now_ms)
        self._client.log_batch(run_id, [Metric(name, value, now_ms, 0) for name, value in results.items()])
        self._client.set_tag(run_id, STATE_TAG, STATE_NAMES[state])
        if reason:
            self._client.set_tag(run_id, "leeway.trial_reason", reason[:5_000])
        self._client.set_terminated(run_id, STATUSES[state])

    def _finish(self, results: Mapping[str, float], tags: Mapping[str, str]) -> None:
        for name, value in results.items():
            self._client.log_metric(self.run_id, name, value)
        for name, text in tags.items():
            self._client.set_tag(self.run_id, name, text)
        self._client.set_terminated(self.run_id)

    def _call(self, request: Callable[[], Any]) -> None:
        """Make a request to MLflow, unless an earlier one has failed. Log an error once, and raise none."""
        if self._client is None:
            return
        try:
            request()
        except Exception as error:  # mlflow raises errors of any type; the files have the same content
            self._client = None  # each further request would delay the trials until its time-out
            reason = " ".join(str(error).split())[:200]
            log.warning("MLflow failed (%s): from now on the tuning is recorded in files only", reason)


def log_rounds(client: Any, run_id: str, rounds: Mapping[int, float], time_ms: int) -> None:
    """Record the objective of each round of a trial in its run.

    Args:
        client: client of MLflow.
        run_id: id of the trial's run.
        rounds: maps each number of rounds, from 1, to the objective after them.
        time_ms: time of the metrics, milliseconds since 1970. MLflow stores the same value of the same round and time
            only once.
    """
    from mlflow.entities import Metric

    metrics = [Metric("objective_of_round", value, time_ms, step) for step, value in rounds.items()]
    for start in range(0, len(metrics), BATCH):
        client.log_batch(run_id, metrics[start : start + BATCH])


def connect() -> Any:
    """Return a client of MLflow; None if no server is set, or if it does not answer."""
    uri = settings().mlflow_tracking_uri
    if not uri:
        return None
    if not is_reachable(uri):
        log.warning("MLflow at %s does not answer: the tuning is recorded in files only", uri)
        return None
    prepare_client()
    from mlflow import MlflowClient

    return MlflowClient(uri)


def require_client() -> Any:
    """Return a client of MLflow, for a request without which the work cannot continue.

    Raises:
        SpecError: MLFLOW_TRACKING_URI is not set. A retry cannot help.
        ServiceError: MLflow does not answer within seconds. A retry can help.
    """
    uri = settings().mlflow_tracking_uri
    if not uri:
        raise SpecError("a run of MLflow cannot be read, because MLFLOW_TRACKING_URI is not set.", "Set it.")
    if not is_reachable(uri):
        raise ServiceError(f"MLflow at {uri} does not answer.")
    prepare_client()
    from mlflow import MlflowClient

    return MlflowClient(uri)
