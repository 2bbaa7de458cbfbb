"""What the end of a job means: what a retry mends, what it does not, and what the same try goes on from."""

import datetime as dt
import re

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from leeway.hooks.sagemaker.description import compute_longest_s, compute_running_cost_usd, compute_running_s
from leeway.hooks.sagemaker.machines import Machine
from leeway.hooks.sagemaker.wait import MARGIN_S, JobWait
from leeway.hooks.training.failures import make_job_error

NOW = dt.datetime(2026, 11, 21, 3, 0, tzinfo=dt.UTC)
NEXT = Machine("ml.m5.xlarge", 1, 30, True, 60, 60)


def at(seconds):
    return NOW + dt.timedelta(seconds=seconds)


def job(status="Stopped", secondary="Stopped", reason="", stopping=None, **more):
    spans = [("Starting", 0, 100), ("Training", 100, 160), ("Interrupted", 160, 400), ("Training", 400, None)]
    transitions = [{"Status": s, "StartTime": at(a), **({"EndTime": at(b)} if b else {})} for s, a, b in spans]
    if stopping is not None:
        transitions.append({"Status": "Stopping", "StartTime": at(stopping), "EndTime": at(stopping)})
    return {
        "TrainingJobName": "job-1", "TrainingJobStatus": status, "SecondaryStatus": secondary, "FailureReason": reason,
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 2}, "EnableManagedSpotTraining": True,
        "StoppingCondition": {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 90},
        "SecondaryStatusTransitions": transitions, "CreationTime": NOW, "LastModifiedTime": at(600), **more,
    }  # fmt: skip


def event(cause="ended", attached_at=None):
    return {"cause": cause, "job_name": "job-1", "message": "the message", "attached_at": attached_at}


@pytest.mark.parametrize(
    ("told", "ending", "kind", "words"),
    [
        (job("Failed", "Failed", "AlgorithmError: exit 1"), event(), AirflowFailException, "failed: AlgorithmError"),
        (job("Failed", "Failed", "ClientError: no data"), event(), AirflowFailException, "failed: ClientError"),
        (job("Failed", "Failed", "InternalServerError: oh"), event(), AirflowException, "InternalServerError"),
        (job("Failed", "Failed", ""), event(), AirflowException, "failed: "),
        (job(secondary="MaxRuntimeExceeded"), event(), AirflowFailException, r"max_run_s \(60 s\)"),
        (job(stopping=500), event(), AirflowException, "stopped by somebody"),
        (job(), event("budget"), AirflowFailException, "was stopped: the message"),
        (job(), event("deadline"), AirflowException, "was stopped: the message"),
        (job("InProgress"), event("silent"), AirflowException, "cannot be watched: the message"),
    ],
)
def test_end_without_success_is_an_error_of_its_own_kind(told, ending, kind, words):
    error = make_job_error(told, ending, NEXT)
    assert type(error) is kind
    assert re.search(words, str(error))
    assert "\n" not in str(error)


def test_no_capacity_is_followed_where_the_policy_names_a_machine():
    for told in (job(secondary="MaxWaitTimeExceeded"), job("Failed", "Failed", "CapacityError: none")):
        assert make_job_error(told, event(), NEXT) is None
        error = make_job_error(told, event(), None)
        assert type(error) is AirflowFailException
        assert "max_wait_s" in str(error)
        assert "on_no_capacity='on_demand'" in str(error)


def test_stop_by_the_clear_that_began_this_try_is_followed_and_a_later_one_is_not():
    attached = at(450).isoformat()
    assert make_job_error(job(stopping=455), event(attached_at=attached), NEXT) is None
    assert make_job_error(job(stopping=449), event(attached_at=attached), NEXT) is None
    assert make_job_error(job(stopping=520), event(attached_at=attached), NEXT) is not None
    assert make_job_error(job(stopping=455), event(), NEXT) is not None


def test_waits_for_capacity_cost_nothing():
    assert compute_running_s(job(), at(460)) == 120
    assert compute_running_cost_usd(job(), 3.0, at(460)) == pytest.approx(120 / 3600 * 2 * 3.0)


def test_service_bounds_the_wait_of_spot_and_the_task_that_on_demand():
    assert compute_longest_s(job(), 7_000) == 90
    assert compute_longest_s(job(StoppingCondition={"MaxRuntimeInSeconds": 60}), 7_000) == 7_060


def watch(**more):
    return JobWait(**{"job_name": "job-1", "check_interval_s": 1, "longest_s": 900, "price_usd_h": 3.0, **more})


def test_budget_counts_the_attempts_before_and_is_exceeded_only_beyond_it():
    cost = 120 / 3600 * 2 * 3.0
    assert watch(budget_usd=cost + 1e-9).find_exceeded_limit(job(), at(460)) is None
    assert watch(budget_usd=cost - 1e-9).find_exceeded_limit(job(), at(460))[0] == "budget"
    assert watch(budget_usd=cost + 0.5, spent_usd=0.6).find_exceeded_limit(job(), at(460))[0] == "budget"
    assert watch().find_exceeded_limit(job(), at(460)) is None


def test_deadline_is_of_the_job_not_of_the_watch():
    assert watch().find_exceeded_limit(job(), at(900 + MARGIN_S)) is None
    assert watch().find_exceeded_limit(job(), at(900 + MARGIN_S + 1))[0] == "deadline"
