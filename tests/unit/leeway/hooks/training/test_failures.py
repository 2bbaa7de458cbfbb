"""Test what the end of a training job means: whether a retry helps, and when the same try starts the next job."""

import datetime as dt
import re

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from leeway.hooks.sagemaker.description import compute_max_duration_s, compute_running_cost_usd, compute_running_s
from leeway.hooks.sagemaker.machines import Machine
from leeway.hooks.sagemaker.wait import MARGIN_S, JobWait
from leeway.hooks.training.failures import make_training_error

NOW = dt.datetime(2026, 11, 21, 3, 0, tzinfo=dt.UTC)
NEXT = Machine("ml.m5.xlarge", 1, 30, True, 60, 60)


def time_after(seconds):
    return NOW + dt.timedelta(seconds=seconds)


def describe_job(status="Stopped", secondary="Stopped", reason="", stopping=None, **fields):
    spans = [("Starting", 0, 100), ("Training", 100, 160), ("Interrupted", 160, 400), ("Training", 400, None)]
    transitions = [
        {"Status": name, "StartTime": time_after(start), **({"EndTime": time_after(end)} if end else {})}
        for name, start, end in spans
    ]
    if stopping is not None:
        transitions.append({"Status": "Stopping", "StartTime": time_after(stopping), "EndTime": time_after(stopping)})
    return {
        "TrainingJobName": "job-1", "TrainingJobStatus": status, "SecondaryStatus": secondary, "FailureReason": reason,
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 2}, "EnableManagedSpotTraining": True,
        "StoppingCondition": {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 90},
        "SecondaryStatusTransitions": transitions, "CreationTime": NOW, "LastModifiedTime": time_after(600), **fields,
    }  # fmt: skip


def make_event(cause="ended", attached_at=None):
    return {"cause": cause, "job_name": "job-1", "message": "the message", "attached_at": attached_at}


@pytest.mark.parametrize(
    ("job", "event", "error_type", "message"),
    [
        (
            describe_job("Failed", "Failed", "AlgorithmError: exit 1"),
            make_event(),
            AirflowFailException,
            "failed: AlgorithmError",
        ),
        (
            describe_job("Failed", "Failed", "ClientError: no data"),
            make_event(),
            AirflowFailException,
            "failed: ClientError",
        ),
        (
            describe_job("Failed", "Failed", "InternalServerError: oh"),
            make_event(),
            AirflowException,
            "InternalServerError",
        ),
        (describe_job("Failed", "Failed", ""), make_event(), AirflowException, "failed: "),
        (describe_job(secondary="MaxRuntimeExceeded"), make_event(), AirflowFailException, r"max_run_s \(60 s\)"),
        (describe_job(stopping=500), make_event(), AirflowException, "stopped by somebody"),
        (describe_job(), make_event("budget"), AirflowFailException, "was stopped: the message"),
        (describe_job(), make_event("deadline"), AirflowException, "was stopped: the message"),
        (describe_job("InProgress"), make_event("no_answer"), AirflowException, "is not known: the message"),
    ],
)
def test_job_without_success_raises_the_right_type_of_error(job, event, error_type, message):
    error = make_training_error(job, event, NEXT)
    assert type(error) is error_type
    assert re.search(message, str(error))
    assert "\n" not in str(error)


def test_lack_of_capacity_leads_to_the_next_machine_of_the_policy():
    for job in (describe_job(secondary="MaxWaitTimeExceeded"), describe_job("Failed", "Failed", "CapacityError: none")):
        assert make_training_error(job, make_event(), NEXT) is None
        error = make_training_error(job, make_event(), None)
        assert type(error) is AirflowFailException
        assert "max_wait_s" in str(error)
        assert "on_no_capacity='on_demand'" in str(error)


def test_lack_of_capacity_on_demand_advises_no_longer_wait_and_no_on_demand():
    fields = {"StoppingCondition": {"MaxRuntimeInSeconds": 60}, "EnableManagedSpotTraining": False}
    error = str(
        make_training_error(describe_job("Failed", "Failed", "CapacityError: none", **fields), make_event(), None)
    )
    assert "(ml.m5.large on demand): SageMaker has no capacity" in error
    assert "max_wait_s" not in error and "on_demand'" not in error


def test_job_stopped_before_this_try_is_replaced_and_one_stopped_later_is_not():
    attached_at = time_after(450).isoformat()
    assert make_training_error(describe_job(stopping=455), make_event(attached_at=attached_at), NEXT) is None
    assert make_training_error(describe_job(stopping=449), make_event(attached_at=attached_at), NEXT) is None
    assert make_training_error(describe_job(stopping=520), make_event(attached_at=attached_at), NEXT) is not None
    assert make_training_error(describe_job(stopping=455), make_event(), NEXT) is not None


def test_waiting_for_capacity_costs_nothing():
    assert compute_running_s(describe_job(), time_after(460)) == 120
    assert compute_running_cost_usd(describe_job(), 3.0, time_after(460)) == pytest.approx(120 / 3600 * 2 * 3.0)


def test_wait_is_bounded_by_the_service_for_spot_and_by_the_task_for_on_demand():
    assert compute_max_duration_s(describe_job(), 7_000) == 90
    assert compute_max_duration_s(describe_job(StoppingCondition={"MaxRuntimeInSeconds": 60}), 7_000) == 7_060


def make_wait(**fields):
    return JobWait(**{"job_name": "job-1", "check_interval_s": 1, "max_duration_s": 900, "price_usd_h": 3.0, **fields})


def test_budget_includes_earlier_attempts_and_is_exceeded_only_above_it():
    cost = 120 / 3600 * 2 * 3.0
    assert make_wait(budget_usd=cost + 1e-9).find_exceeded_limit(describe_job(), time_after(460)) is None
    assert make_wait(budget_usd=cost - 1e-9).find_exceeded_limit(describe_job(), time_after(460))[0] == "budget"
    assert (
        make_wait(budget_usd=cost + 0.5, spent_usd=0.6).find_exceeded_limit(describe_job(), time_after(460))[0]
        == "budget"
    )
    assert make_wait().find_exceeded_limit(describe_job(), time_after(460)) is None


def test_deadline_counts_from_the_creation_of_the_job():
    assert make_wait().find_exceeded_limit(describe_job(), time_after(900 + MARGIN_S)) is None
    assert make_wait().find_exceeded_limit(describe_job(), time_after(900 + MARGIN_S + 1))[0] == "deadline"
