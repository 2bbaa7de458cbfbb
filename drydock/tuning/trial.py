"""A trial of a tuning job, with the present state of its training job."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from drydock.jobs.states import Status
from drydock.jobs.training.job import TrainingJob
from drydock.tuning.plan import TuningPlan
from drydock.tuning.records import StopCause, TrialRecord

INTERNAL_ERROR = "InternalServerError"
"""The beginning of the FailureReason of a training job that failed by an error of the server, not of its script."""


class ObjectiveStatus(StrEnum):
    """Whether the objective of a trial is known: yes, not yet (the trial has not ended), or never."""

    SUCCEEDED = "Succeeded"
    PENDING = "Pending"
    FAILED = "Failed"


@dataclass(frozen=True)
class Trial:
    """A trial and its training job.

    Attributes:
        record: What the tuning job stores of the trial.
        job: The training job; None if it does not exist yet.
    """

    record: TrialRecord
    job: TrainingJob | None

    @property
    def has_ended(self) -> bool:
        """Whether the training job has ended."""
        return self.job is not None and self.job.status.is_final

    @property
    def status(self) -> Status:
        """Status of the training job; InProgress if it does not exist yet."""
        return self.job.status if self.job else Status.IN_PROGRESS

    @property
    def series(self) -> Sequence[float | None]:
        """The values of the objective that the training job has logged so far; None for one that is not finite."""
        return self.job.record.objective_values if self.job else []

    @property
    def has_finite_value(self) -> bool:
        """Whether the newest value of the objective is a finite number, also of a trial that runs or failed."""
        return bool(self.series) and self.series[-1] is not None

    @property
    def objective(self) -> float | None:
        """The last value of the objective.

        None if the training job has not ended, has failed or has logged no value, or if the value is not finite.
        """
        if not self.has_ended or self.status is Status.FAILED or not self.series:
            return None
        return self.series[-1]

    @property
    def objective_status(self) -> ObjectiveStatus:
        """Whether the objective is known."""
        if not self.has_ended:
            return ObjectiveStatus.PENDING
        return ObjectiveStatus.FAILED if self.objective is None else ObjectiveStatus.SUCCEEDED

    @property
    def can_be_best(self) -> bool:
        """Whether the trial has an objective and a whole model: it is Completed, or reached Hyperband's MaxResource."""
        is_whole = self.status is Status.COMPLETED or self.record.stop_cause is StopCause.MAX_RESOURCE
        return is_whole and self.objective is not None

    @property
    def has_internal_error(self) -> bool:
        """Whether the training job failed by an error of the server, so that another attempt can succeed."""
        reason = self.job.record.reason if self.job and self.status is Status.FAILED else None
        return (reason or "").startswith(INTERNAL_ERROR)

    def summarize(self, plan: TuningPlan, tuning_job_name: str) -> dict[str, Any]:
        """Return the entry in ListTrainingJobsForHyperParameterTuningJob. The training job must exist."""
        assert self.job is not None, f"{self.record.name} does not exist"
        summary: dict[str, Any] = {
            "TrainingJobDefinitionName": plan.definition_name,
            "TrainingJobName": self.job.name,
            "TrainingJobArn": self.job.arn,
            "TuningJobName": tuning_job_name,
            "CreationTime": self.job.created_at,
            "TrainingStartTime": self.job.started_at,
            "TrainingEndTime": self.job.started_at and self.job.ended_at,
            "TrainingJobStatus": str(self.job.status),
            "TunedHyperParameters": dict(self.record.values),
            "FailureReason": self.job.record.reason,
            "ObjectiveStatus": str(self.objective_status),
        }
        if self.objective is not None:
            summary["FinalHyperParameterTuningJobObjectiveMetric"] = {
                "Type": "Minimize" if plan.objective.is_minimized else "Maximize",
                "MetricName": plan.objective.metric,
                "Value": self.objective,
            }
        return {key: value for key, value in summary.items() if value is not None}


class TrialItem:
    """A trial in a page of ListTrainingJobsForHyperParameterTuningJob.

    Args:
        trial: The trial, whose training job exists.
        summary: Its entry in the response.
    """

    def __init__(self, trial: Trial, summary: dict[str, Any]) -> None:
        assert trial.job is not None, f"{trial.record.name} does not exist"
        self.name, self.status = trial.job.name, str(trial.status)
        self.created_at, self.modified_at = trial.job.created_at, trial.job.modified_at
        self.objective, self._summary = trial.objective, summary

    def summarize(self) -> dict[str, Any]:
        """Return the entry in the response."""
        return self._summary
