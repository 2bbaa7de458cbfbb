"""Test the errors of tuning jobs that did not complete: what they say, and whether a retry can help."""

import datetime as dt
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from leeway.hooks.tuning.failures import make_error_without_winner, make_tuning_error
from leeway.hooks.tuning.trials import Trial, find_best

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def make_trial(status: str, value: float | None = None, reason: str = "", name: str = "t-001") -> Trial:
    """Return a trial."""
    metric = {} if value is None else {"FinalHyperParameterTuningJobObjectiveMetric": {"Value": value}}
    job = {"TrainingJobName": name, "TrainingJobStatus": status, "FailureReason": reason}
    return Trial("t", {"TrainingJobName": name, **metric}, job)


UNDEFINED = "the last objective in the log of trial t-001 is nan"


def make_error(
    status: str, *trials: Trial, cause: str = "ended", undefined_objective: str = "", **event: Any
) -> AirflowException | None:
    """Return the error of a tuning job with this status."""
    job = {
        "HyperParameterTuningJobName": "t",
        "HyperParameterTuningJobStatus": status,
        "CreationTime": NOW,
        "HyperParameterTuningEndTime": NOW,
        "FailureReason": "SageMaker's reason",
    }
    wait_event: Any = {"cause": cause, "job_name": "t", "message": "why", "attached_at": None, **event}
    return make_tuning_error(job, wait_event, trials, undefined_objective)


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (make_error("Stopped", cause="budget"), AirflowFailException, "was stopped: why. The results"),
        (make_error("Stopped", cause="deadline"), AirflowException, "was stopped: why. The results"),
        (make_error("InProgress", cause="no_answer"), AirflowException, "is not known: why"),
        (make_error("Stopped"), AirflowException, "was stopped by somebody"),
        (
            make_error("Failed", make_trial("Completed"), make_trial("Failed", None, "AlgorithmError: eta\nis x")),
            AirflowFailException,
            "trial t-001: AlgorithmError: eta is x",
        ),
        (
            make_error("Failed", make_trial("Failed", None, "InternalServerError: later")),
            AirflowException,
            "InternalServerError: later",
        ),
        (make_error("Failed", make_trial("Completed")), AirflowFailException, "must log tuning-objective:NUMBER"),
        (
            make_error("Failed", make_trial("Completed"), undefined_objective=UNDEFINED),
            AirflowFailException,
            f"tuning job t failed: {UNDEFINED}: it must be a finite number.",
        ),
        (
            make_error_without_winner({"HyperParameterTuningJobName": "t"}, [make_trial("Completed")], UNDEFINED),
            AirflowFailException,
            "with an objective. The last objective in the log of trial t-001 is nan: it must be a finite number.",
        ),
        (
            make_error("Failed", make_trial("Failed", None, "AlgorithmError: eta"), undefined_objective=UNDEFINED),
            AirflowFailException,
            "trial t-001: AlgorithmError: eta",
        ),
    ],
)
def test_error_says_why_and_whether_a_retry_helps(error: Exception, kind: type, text: str) -> None:
    assert type(error) is kind and text in str(error) and "\n" not in str(error)


def test_stop_by_a_clear_is_no_error() -> None:
    assert make_error("Stopped", attached_at=(NOW + dt.timedelta(seconds=1)).isoformat()) is None
    assert make_error("Stopped", was_stopping=True) is None


def test_best_trial_is_a_complete_one() -> None:
    trials = [
        make_trial("Stopped", 0.1, name="a"),
        make_trial("Completed", 0.3, name="c"),
        make_trial("Completed", 0.3, name="b"),
        make_trial("Completed", name="d"),
    ]
    best = find_best(trials)
    assert best and best.name == "b"
    assert find_best(trials[:1]) is None
    error = make_error_without_winner({"HyperParameterTuningJobName": "t"}, trials[:1])
    assert "none of its 1 trials ran to its end with an objective" in str(error)
