"""Turn the end of a tuning job into the task's error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from leeway.hooks.sagemaker.description import get_job_name, get_job_status
from leeway.hooks.sagemaker.failures import PERMANENT_PREFIXES, is_stopped_by_clear
from leeway.hooks.sagemaker.wait import WaitEvent
from leeway.hooks.tuning.trials import Trial
from pipelines.tuning.sagemaker_job import METRIC_NAME

RESUME_TEXT = "The results of its finished trials are kept: the next tuning job of this task continues from them"

UNDEFINED_HINT = "it must be a finite number. Correct the training script or the space"


def make_tuning_error(
    job: Mapping[str, Any], event: WaitEvent, trials: Sequence[Trial], undefined_objective: str = ""
) -> AirflowException | None:
    """Return the error for a tuning job that did not complete.

    Return None if the job was stopped by the clear that began this try, or before this try found the job. Then this try
    starts the next tuning job.

    Args:
        job: SageMaker's description of the tuning job.
        event: how the wait for the job ended.
        trials: trials of the job.
        undefined_objective: which trial's last objective is not a finite number, as `find_undefined_objective` returns
            it.
    """
    name = f"tuning job {get_job_name(job)}"
    if event["cause"] == "budget":
        return AirflowFailException(f"{name} was stopped: {event['message']}. {RESUME_TEXT}, after a clear.")
    if event["cause"] == "deadline":
        return AirflowException(f"{name} was stopped: {event['message']}. {RESUME_TEXT}.")
    if event["cause"] != "ended":
        return AirflowException(f"the state of {name} is not known: {event['message']}")
    if get_job_status(job) == "Failed":
        return _make_error_of_failed_job(job, name, trials, undefined_objective)
    if event.get("was_stopping") or is_stopped_by_clear(job, event["attached_at"]):
        return None
    return AirflowException(f"{name} was stopped by somebody. {RESUME_TEXT}.")


def make_error_without_winner(
    job: Mapping[str, Any], trials: Sequence[Trial], undefined_objective: str = ""
) -> AirflowException:
    """Return the error for a tuning job that completed, but has no complete trial with an objective."""
    text = f"tuning job {get_job_name(job)} has no winner: none of its {len(trials)} trials ran to its end with an"
    return AirflowFailException(f"{text} objective.{_explain_undefined_objective(undefined_objective)}")


def _explain_undefined_objective(text: str) -> str:
    """Return the sentence about an objective that is not a finite number; empty if there is none."""
    return f" {text[0].upper()}{text[1:]}: {UNDEFINED_HINT}." if text else ""


def _make_error_of_failed_job(
    job: Mapping[str, Any], name: str, trials: Sequence[Trial], undefined_objective: str
) -> AirflowException:
    """Return the error with the reason of the first failed trial.

    A retry can help unless the script, its input or the request is wrong.
    """
    failed_trial = next((trial for trial in trials if get_job_status(trial.job) == "Failed"), None)
    reason = " ".join(str(job.get("FailureReason", "no reason is given")).split())
    if failed_trial is None and undefined_objective:
        return AirflowFailException(f"{name} failed: {undefined_objective}: {UNDEFINED_HINT}. SageMaker says: {reason}")
    if failed_trial is None:
        return AirflowFailException(
            f"{name} failed: no line of a trial's log has the objective. The training script must log "
            f"{METRIC_NAME}:NUMBER, as metric_regex finds it. SageMaker says: {reason}"
        )
    trial_reason = " ".join(str(failed_trial.job.get("FailureReason", "")).split())
    error_class = AirflowFailException if trial_reason.startswith(PERMANENT_PREFIXES) else AirflowException
    return error_class(f"{name} failed: trial {failed_trial.name}: {trial_reason or reason}")
