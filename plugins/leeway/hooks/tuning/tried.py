"""Find out which trials of tuning jobs count as tried, and which ones a limit or a person stopped.

SageMaker has the status Stopped for a trial that early stopping or Hyperband ended, because its values are poor, and
for one that ran when the tuning job was stopped, for example by its budget. The second says little about its values.
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
    """Return the names of the trials that the end of the tuning job stopped, or a person.

    If the search stops poor trials itself, only the times tell: after a request to stop, a tuning job starts no more
    trials. So a trial that ended after the start of the last one counts as stopped, unless all trials were started
    and the job completed. A poor trial of that time counts as stopped, too; then at most it is run again.

    Args:
        job: SageMaker's description of the tuning job.
        summaries: all its trials.
    """
    stopped = [summary for summary in summaries if summary["TrainingJobStatus"] == "Stopped"]
    config = job.get("HyperParameterTuningJobConfig", {})
    if config.get("Strategy") != "Hyperband" and config.get("TrainingJobEarlyStoppingType", "Off") != "Auto":
        return {summary["TrainingJobName"] for summary in stopped}
    limit = config.get("ResourceLimits", {}).get("MaxNumberOfTrainingJobs", 0)
    if job.get("HyperParameterTuningJobStatus") == "Completed" and len(summaries) >= limit:
        return set()
    last_start = max(summary["CreationTime"] for summary in summaries) if summaries else None
    return {
        summary["TrainingJobName"] for summary in stopped if summary.get("TrainingEndTime", last_start) >= last_start
    }


def count_finished_trials(job: Mapping[str, Any]) -> int:
    """Return how many trials of a tuning job with summaries have an objective, without those that a limit stopped."""
    stopped = find_stopped_trials(job, job[SUMMARIES])
    return sum(
        "FinalHyperParameterTuningJobObjectiveMetric" in summary and summary["TrainingJobName"] not in stopped
        for summary in job[SUMMARIES]
    )


def list_tried_points(job: Mapping[str, Any], names: Sequence[str]) -> set[tuple[str, ...]]:
    """Return the points of a grid that a tuning job with summaries has tried, as texts in the order of `names`.

    A failed trial counts as tried if its tuning job completed all the same. Else its point is tried again.
    """
    stopped = find_stopped_trials(job, job[SUMMARIES])
    statuses = {"Completed", "Stopped"}
    if job.get("HyperParameterTuningJobStatus") == "Completed":
        statuses.add("Failed")
    return {
        tuple(str(summary["TunedHyperParameters"].get(name, "")).strip('"') for name in names)
        for summary in job[SUMMARIES]
        if summary["TrainingJobStatus"] in statuses and summary["TrainingJobName"] not in stopped
    }
