"""Provide requests of tuning jobs, and trials with given results."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from drydock.jobs.record import ParentTuning
from drydock.jobs.states import Phase, Status
from drydock.tuning.records import StopCause, TrialRecord
from drydock.tuning.trial import Trial

RATE = {"Name": "rate", "MinValue": "0.001", "MaxValue": "1"}


@pytest.fixture
def make_tuning_request() -> Callable[..., dict[str, Any]]:
    """Return the function that gives a valid CreateHyperParameterTuningJob request with some parts changed.

    The arguments are members of HyperParameterTuningJobConfig; `limits`, `definition` and `request` are merged into the
    other parts.
    """

    def make(
        limits: dict[str, Any] | None = None,
        definition: dict[str, Any] | None = None,
        request: dict[str, Any] | None = None,
        **config: Any,
    ) -> dict[str, Any]:
        metrics = [{"Name": "loss", "Regex": "loss=(.*);"}]
        algorithm = {"TrainingImage": "image", "TrainingInputMode": "File", "MetricDefinitions": metrics}
        full_config = {
            "Strategy": "Bayesian",
            "HyperParameterTuningJobObjective": {"Type": "Minimize", "MetricName": "loss"},
            "ResourceLimits": {"MaxNumberOfTrainingJobs": 10, "MaxParallelTrainingJobs": 2, **(limits or {})},
            "ParameterRanges": {"ContinuousParameterRanges": [RATE]},
            **config,
        }
        return {
            "HyperParameterTuningJobName": "tuning",
            "HyperParameterTuningJobConfig": full_config,
            "TrainingJobDefinition": {
                "AlgorithmSpecification": algorithm,
                "RoleArn": "arn:aws:iam::123456789012:role/drydock",
                "OutputDataConfig": {"S3OutputPath": "s3://b/output"},
                "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
                "StoppingCondition": {"MaxRuntimeInSeconds": 600},
                "StaticHyperParameters": {"epochs": "9"},
                **(definition or {}),
            },
            **(request or {}),
        }

    return make


@pytest.fixture
def make_trial(make_job: Callable[..., Any]) -> Callable[..., Trial]:
    """Return the function that makes a trial, with the values that it has logged and the status of its job."""
    started_at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

    def make(
        *values: float | None,
        status: Status = Status.COMPLETED,
        cause: StopCause | None = None,
        reason: str | None = None,
        end_s: float = 1.0,
    ) -> Trial:
        job = make_job()
        job.record.tuning = ParentTuning("arn", "loss")
        job.record.objective_values = list(values)
        job.record.transitions[0].start = started_at
        if status.is_final:
            job.end(status, Phase(status), reason, ended_at=started_at + dt.timedelta(seconds=end_s))
        return Trial(TrialRecord("trial", {"rate": "0.5"}, stop_cause=cause), job)

    return make
