"""Build the responses of the API about a tuning job: its description, and its entries in lists."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from drydock.jobs.states import Status
from drydock.tuning.completion import count_trials_without_improvement, find_best
from drydock.tuning.job import TuningJob
from drydock.tuning.records import ParentTrial
from drydock.tuning.trial import ObjectiveStatus, Trial, TrialItem


def describe_tuning_job(job: TuningJob) -> dict[str, Any]:
    """Return the response of DescribeHyperParameterTuningJob."""
    record, plan, trials = job.record, job.plan, job.list_trials()
    best_trial = find_best(trials, plan)
    best_summary = best_trial.summarize(plan, job.name) if best_trial else None
    response = {
        **record.request,
        "HyperParameterTuningJobArn": record.arn,
        **_describe_state(job, trials),
        "BestTrainingJob": best_summary,
        "OverallBestTrainingJob": _find_overall_best_trial(job, best_trial, best_summary),
        "FailureReason": record.reason,
        "TuningJobCompletionDetails": {
            "NumberOfTrainingJobsObjectiveNotImproving": count_trials_without_improvement(trials, plan)
        },
        "ConsumedResources": {"RuntimeInSeconds": math.ceil(job.measure_running_s())},
    }
    return {key: value for key, value in response.items() if value is not None}


class TuningJobItem:
    """A tuning job in a page of ListHyperParameterTuningJobs.

    Args:
        job: The tuning job.
    """

    def __init__(self, job: TuningJob) -> None:
        self._job, self.name, self.status = job, job.name, str(job.status)
        self.created_at, self.modified_at = job.created_at, job.modified_at

    def summarize(self) -> dict[str, Any]:
        """Return the entry in the response."""
        job = self._job
        summary = {
            "HyperParameterTuningJobName": job.name,
            "HyperParameterTuningJobArn": job.record.arn,
            "Strategy": job.plan.strategy,
            "ResourceLimits": job.plan.config["ResourceLimits"],
            **_describe_state(job, job.list_trials()),
        }
        return {key: value for key, value in summary.items() if value is not None}


def list_trial_items(job: TuningJob) -> list[TrialItem]:
    """Return the trials whose training jobs exist, for ListTrainingJobsForHyperParameterTuningJob."""
    return [TrialItem(trial, trial.summarize(job.plan, job.name)) for trial in job.list_trials() if trial.job]


def list_parent_trials(job: TuningJob) -> list[ParentTrial]:
    """Return the trials of a tuning job that can be the best one, for a warm start of another job."""
    return [
        ParentTrial(
            trial.summarize(job.plan, job.name), {**job.plan.static_values, **trial.record.values}, trial.objective
        )
        for trial in job.list_trials()
        if trial.objective is not None and trial.can_be_best
    ]


def _describe_state(job: TuningJob, trials: Sequence[Trial]) -> dict[str, Any]:
    record = job.record
    return {
        "HyperParameterTuningJobStatus": str(record.status),
        "CreationTime": record.created_at,
        "HyperParameterTuningEndTime": record.ended_at,
        "LastModifiedTime": record.modified_at,
        "TrainingJobStatusCounters": _count_statuses(trials),
        "ObjectiveStatusCounters": {
            str(status): sum(trial.objective_status is status for trial in trials) for status in ObjectiveStatus
        },
    }


def _count_statuses(trials: Sequence[Trial]) -> dict[str, int]:
    names = {Status.COMPLETED: "Completed", Status.STOPPED: "Stopped"}
    counts = Counter({"Completed": 0, "InProgress": 0, "RetryableError": 0, "NonRetryableError": 0, "Stopped": 0})
    for trial in trials:
        if trial.status is Status.FAILED:
            counts["RetryableError" if trial.has_internal_error else "NonRetryableError"] += 1
        else:
            counts[names.get(trial.status, "InProgress")] += 1
    return dict(counts)


def _find_overall_best_trial(
    job: TuningJob, best_trial: Trial | None, best_summary: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Return the summary of the best trial of the tuning job and its parents.

    None if the parents may have different data, or if no trial can be the best one.
    """
    warm_start = job.record.request.get("WarmStartConfig", {})
    if warm_start.get("WarmStartType") != "IdenticalDataAndAlgorithm":
        return None
    objective, summary = (best_trial.objective if best_trial else None), best_summary
    for parent in job.record.parent_trials:
        if objective is None or job.plan.objective.is_better(parent.objective, objective):
            objective, summary = parent.objective, parent.summary
    return summary
