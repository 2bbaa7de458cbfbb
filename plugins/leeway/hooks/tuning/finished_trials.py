"""Find out which trials of tuning jobs are not run again, and which ones a limit or a person stopped.

A trial has SageMaker's status Stopped if early stopping or Hyperband ended it, because its objective was poor, or if it
was still running when the tuning job was stopped, for example by its budget. A stop of the second kind says little
about the trial's hyperparameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Summary = Mapping[str, Any]
"""Entry of a trial in ListTrainingJobsForHyperParameterTuningJob."""
SUMMARIES = "TrialSummaries"
"""Key that `add_summaries` adds to the description of a tuning job: the summaries of its trials."""


def add_summaries(job: Mapping[str, Any], summaries: Iterable[Summary]) -> dict[str, Any]:
    """Return the description of a tuning job with the summaries of its trials."""
    return {**job, SUMMARIES: list(summaries)}


def find_stopped_trials(job: Mapping[str, Any], summaries: Sequence[Summary]) -> set[str]:
    """Return the names of the trials that a person stopped, or that were stopped because the tuning job ended.

    If the search itself stops poor trials, only the times show the difference: after a request to stop, a tuning job
    starts no more trials. So a stopped trial that ended after the start of the last trial is returned, unless all
    trials were started and the job completed. A poor trial that ended at that time is returned, too; at most, it is
    run again.

    Args:
        job: SageMaker's description of the tuning job.
        summaries: the summaries of all its trials.
    """
    stopped_summaries = [summary for summary in summaries if summary["TrainingJobStatus"] == "Stopped"]
    config = job.get("HyperParameterTuningJobConfig", {})
    if config.get("Strategy") != "Hyperband" and config.get("TrainingJobEarlyStoppingType", "Off") != "Auto":
        return {summary["TrainingJobName"] for summary in stopped_summaries}
    limit = config.get("ResourceLimits", {}).get("MaxNumberOfTrainingJobs", 0)
    if job.get("HyperParameterTuningJobStatus") == "Completed" and len(summaries) >= limit:
        return set()
    last_start = max(summary["CreationTime"] for summary in summaries) if summaries else None
    return {
        summary["TrainingJobName"]
        for summary in stopped_summaries
        if summary.get("TrainingEndTime", last_start) >= last_start
    }


def count_finished_trials(job: Mapping[str, Any]) -> int:
    """Count the trials that have an objective, except those that `find_stopped_trials` returns.

    Args:
        job: description of a tuning job, from `add_summaries`.
    """
    stopped_names = find_stopped_trials(job, job[SUMMARIES])
    return sum(
        "FinalHyperParameterTuningJobObjectiveMetric" in summary and summary["TrainingJobName"] not in stopped_names
        for summary in job[SUMMARIES]
    )


def list_tried_points(job: Mapping[str, Any], names: Sequence[str]) -> set[tuple[str, ...]]:
    """Return the points of a grid that a tuning job with summaries has tried, as texts in the order of `names`.

    The point of a failed trial is returned only if its tuning job completed in spite of the failure. Otherwise, the
    point is tried again.
    """
    stopped_names = find_stopped_trials(job, job[SUMMARIES])
    statuses = {"Completed", "Stopped"}
    if job.get("HyperParameterTuningJobStatus") == "Completed":
        statuses.add("Failed")
    return {
        tuple(str(summary["TunedHyperParameters"].get(name, "")).strip('"') for name in names)
        for summary in job[SUMMARIES]
        if summary["TrainingJobStatus"] in statuses and summary["TrainingJobName"] not in stopped_names
    }
