"""Test the MLflow runs of a SageMaker tuning job's trials, with a real MLflow. test_tuning.py has real trials."""

from pathlib import Path
from typing import Any

import pytest

from pipelines.system.mlflow_server import JOB_TAG
from pipelines.tuning.trial_runs import TrainedTrial, nest_runs

TRIALS = [
    TrainedTrial(
        name="runs-001", state="complete", objective=0.25, hyperparameters={"eta": 0.1}, rounds={1: 0.5, 2: 0.25}
    ),
    TrainedTrial(name="runs-002", state="stopped", objective=0.75, hyperparameters={"eta": 0.2}, rounds={1: 0.75}),
    TrainedTrial(name="runs-003", state="failed", hyperparameters={"eta": 9.0}, reason="the image does not exist"),
]


def write_report(folder: Path) -> None:
    """Write the report of the tuning."""
    (folder / "report.html").write_text("report")


def test_each_trial_has_a_nested_run_with_its_rounds(
    home: Any, mlflow_uri: str, monkeypatch: pytest.MonkeyPatch, fresh_settings: Any
) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_uri)
    fresh_settings()
    client = MlflowClient(mlflow_uri)
    experiment_id = client.create_experiment("trial runs")
    client.create_run(experiment_id, tags={JOB_TAG: "runs-001"})  # the others did not reach MLflow
    run_ids = {nest_runs("runs", TRIALS, {"strategy": "random"}, "runs-001", write_report) for _ in range(2)}
    (run_id,) = run_ids
    children = client.search_runs([experiment_id], f"tags.`mlflow.parentRunId` = '{run_id}'")
    states = {run.data.tags[JOB_TAG]: (run.data.tags["leeway.trial_state"], run.info.status) for run in children}
    assert states == {
        "runs-001": ("complete", "FINISHED"),
        "runs-002": ("stopped", "KILLED"),
        "runs-003": ("failed", "FAILED"),
    }
    reasons = {run.data.tags[JOB_TAG]: run.data.tags.get("leeway.trial_reason", "") for run in children}
    assert reasons == {
        "runs-001": "",
        "runs-002": "stopped by a limit or a person after round 1",
        "runs-003": "the image does not exist",
    }
    assert {run.data.params.get("eta") for run in children if run.data.tags[JOB_TAG] != "runs-001"} == {"0.2", "9.0"}
    for run, trial in ((run, trial) for run in children for trial in TRIALS if run.data.tags[JOB_TAG] == trial.name):
        rounds = client.get_metric_history(run.info.run_id, "objective_of_round") if trial.rounds else []
        assert {metric.step: metric.value for metric in rounds} == trial.rounds and len(rounds) == len(trial.rounds)


def test_tuning_whose_trials_have_no_run_has_none(
    home: Any, mlflow_uri: str, monkeypatch: pytest.MonkeyPatch, fresh_settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The experiment is not known then. This is the negative control."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_uri)
    fresh_settings()
    trials = [trial.model_copy(update={"name": f"other-{trial.name}"}) for trial in TRIALS]
    assert nest_runs("other", trials, {}, "other-runs-001", write_report) == ""
