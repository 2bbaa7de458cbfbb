"""Log each change of a trial's state to the task's log, and return SageMaker's descriptions of the trials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leeway.hooks.sagemaker.description import is_live
from leeway.hooks.step.hook import Logger

ENDED_STATES = ("Completed", "Failed", "Stopped")
REASON_CHARS = 300
"""Largest number of characters of the reason of a failed trial that a line shows."""


class TrialLog:
    """Log each state of each trial of a tuning job once. The logs of the trials themselves are not copied.

    Args:
        tuning_job: name of the tuning job.
        log: log of the task.
    """

    def __init__(self, tuning_job: str, log: Logger) -> None:
        self.tuning_job, self.log = tuning_job, log
        self._states: dict[str, str] = {}
        """State that was logged last, by trial."""
        self._descriptions: dict[str, dict[str, Any]] = {}
        """Descriptions of the trials that have ended."""

    async def describe_trials(self, sagemaker: Any) -> list[dict[str, Any]]:
        """Log each state that changed, and return SageMaker's description of each trial's training job.

        Args:
            sagemaker: an aiobotocore client of SageMaker.
        """
        operation = sagemaker.get_paginator("list_training_jobs_for_hyper_parameter_tuning_job")
        pages = operation.paginate(HyperParameterTuningJobName=self.tuning_job, SortBy="Name", SortOrder="Ascending")
        descriptions = []
        async for page in pages:
            for summary in page["TrainingJobSummaries"]:
                self._log_state(summary)
                descriptions.append(await self._describe(sagemaker, str(summary["TrainingJobName"])))
        return descriptions

    async def _describe(self, sagemaker: Any, name: str) -> dict[str, Any]:
        if name not in self._descriptions:
            description = dict(await sagemaker.describe_training_job(TrainingJobName=name))
            if is_live(description):
                return description
            self._descriptions[name] = description
        return self._descriptions[name]

    def _log_state(self, summary: Mapping[str, Any]) -> None:
        name, state = summary["TrainingJobName"], summary["TrainingJobStatus"]
        if self._states.get(name) != state:
            self._states[name] = state
            self.log.info("%s", format_trial(summary))


def format_trial(summary: Mapping[str, Any]) -> str:
    """Format a trial in one line: its state, its hyperparameters, and its objective or the reason of its failure."""
    status, metric = summary["TrainingJobStatus"], summary.get("FinalHyperParameterTuningJobObjectiveMetric")
    values = ", ".join(f"{name} {value}" for name, value in sorted(summary.get("TunedHyperParameters", {}).items()))
    objective = f": {metric['Value']:.5f}" if metric and status in ENDED_STATES else ""
    reason = " ".join(str(summary.get("FailureReason", "")).split())[:REASON_CHARS]
    return f"trial {summary['TrainingJobName']} ({values}) {status}{objective}{reason and ': '}{reason}"
