"""Read the trials of tuning jobs, and find the best one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leeway.hooks.sagemaker.aws_errors import call_with_retries
from leeway.hooks.sagemaker.description import get_job_name, get_job_status
from leeway.hooks.step.hook import Logger
from leeway.hooks.tuning.finished_trials import find_stopped_trials
from pipelines.tuning.sagemaker_job import parse_values
from pipelines.tuning.space import Range, Value

STATES = {"Completed": "complete", "Stopped": "pruned", "Failed": "failed"}
"""Maps each status of a trial's training job to the trial's state in the record, unless it `is_stopped`."""


@dataclass(frozen=True)
class Trial:
    """A trial: its tuning job's name, its entry in the list of this job, and the description of its training job."""

    tuning_job: str
    summary: Mapping[str, Any]
    job: Mapping[str, Any]
    is_stopped: bool = False
    """Whether a limit or a person stopped it, and not early stopping or Hyperband."""

    @property
    def state(self) -> str:
        """How it ended: complete, pruned, stopped or failed."""
        return "stopped" if self.is_stopped else STATES[get_job_status(self.job)]

    @property
    def name(self) -> str:
        """Name of the training job."""
        return get_job_name(self.job)

    @property
    def has_ended(self) -> bool:
        """Whether the training job has ended."""
        return get_job_status(self.job) in STATES

    @property
    def objective(self) -> float | None:
        """The objective; None if the trial has none."""
        metric = self.summary.get("FinalHyperParameterTuningJobObjectiveMetric")
        return None if metric is None else float(metric["Value"])

    @property
    def is_complete(self) -> bool:
        """Whether the trial ran to its end, and has an objective."""
        return get_job_status(self.job) == "Completed" and self.objective is not None

    def build_record(
        self, space: Mapping[str, Range | list[Value]], cost_usd: float, rounds: Mapping[int, float]
    ) -> dict[str, Any]:
        """Return the trial for the step `record_tuning`; `rounds` has the objective of each round."""
        return {
            "name": self.name,
            "state": self.state,
            "objective": self.objective,
            "hyperparameters": parse_values(space, self.summary.get("TunedHyperParameters", {})),
            "cost_usd": cost_usd,
            "seconds": float(self.job.get("TrainingTimeInSeconds", 0)),
            "reason": str(self.job.get("FailureReason", "")),
            "rounds": dict(rounds),
        }


def list_trials(client: Any, tuning_jobs: Sequence[Mapping[str, Any]], log: Logger) -> list[Trial]:
    """Return the trials of tuning jobs: job by job, and those of a job in the order of their names.

    Args:
        client: boto3 client of SageMaker.
        tuning_jobs: descriptions of the tuning jobs, oldest first.
        log: log of the task.
    """
    return [trial for tuning_job in tuning_jobs for trial in _list_trials_of_job(client, tuning_job, log)]


def list_summaries(client: Any, tuning_job: str, log: Logger) -> list[Mapping[str, Any]]:
    """Return the entries of a tuning job's trials in SageMaker's list, in the order of their names."""
    return call_with_retries(lambda: list(_list_summaries(client, tuning_job)), log)


def _list_trials_of_job(client: Any, tuning_job: Mapping[str, Any], log: Logger) -> Iterator[Trial]:
    tuning_name = get_job_name(tuning_job)
    summaries = list_summaries(client, tuning_name, log)
    stopped_names = find_stopped_trials(tuning_job, summaries)
    for summary in summaries:
        name = summary["TrainingJobName"]
        job = call_with_retries(lambda name=name: client.describe_training_job(TrainingJobName=name), log)  # type: ignore[misc]
        yield Trial(tuning_name, summary, job, name in stopped_names)


def find_best(trials: Sequence[Trial]) -> Trial | None:
    """Return the complete trial with the lowest objective, of equal ones the first by name; None if none is complete.

    A trial that was pruned or stopped never wins, because its last objective may not be from its best round.
    """
    complete_trials = [trial for trial in trials if trial.is_complete]
    return min(complete_trials, key=lambda trial: (trial.objective, trial.name), default=None)


def _list_summaries(client: Any, tuning_job: str) -> Iterator[Mapping[str, Any]]:
    pages = client.get_paginator("list_training_jobs_for_hyper_parameter_tuning_job").paginate(
        HyperParameterTuningJobName=tuning_job, SortBy="Name", SortOrder="Ascending"
    )
    for page in pages:
        yield from page["TrainingJobSummaries"]
