"""Test the request of a transform job, the name of its model, and what its end means."""

import datetime as dt
import re

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from leeway.hooks.sagemaker.failures import compute_machine_s, make_job_error
from leeway.hooks.sagemaker.wait import JobWait
from leeway.hooks.transform.job_requests import build_inputs, build_model_request, has_same_inputs

from pipelines.costs.job_records import to_on_demand_record

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
ROLE = "arn:aws:iam::123456789012:role/leeway"


def describe_job(status="Failed", **fields):
    end = START + dt.timedelta(seconds=10)
    times = {"TransformStartTime": START, "TransformEndTime": end}
    return {"TransformJobName": "j-1", "TransformJobStatus": status, **times, **fields}


def make_event(cause="ended", attached_at=None, **fields):
    return {"cause": cause, "job_name": "j-1", "message": "why", "attached_at": attached_at, **fields}


@pytest.mark.parametrize("name", ["flights-7", "x" * 200, "späte Flüge/2", "-7"])
def test_sagemaker_accepts_the_name_of_every_model(name):
    model_name = build_model_request(name, ROLE, {"Image": "i"})["ModelName"]
    assert re.fullmatch(r"[a-zA-Z0-9]([\-a-zA-Z0-9]*[a-zA-Z0-9])?", model_name) and len(model_name) <= 63


def test_models_with_different_content_have_different_names():
    container = {"Image": "i", "ModelDataUrl": "s3://b/m", "Environment": {"A": "1"}}
    name = build_model_request("m-1", ROLE, container)["ModelName"]
    assert name == build_model_request("m-1", ROLE, dict(reversed(container.items())))["ModelName"]
    changed = [(ROLE + "2", container), *((ROLE, {**container, key: "other"}) for key in container)]
    assert len({name, *(build_model_request("m-1", role, container)["ModelName"] for role, container in changed)}) == 5


def test_jobs_have_the_same_inputs_if_model_and_rows_are_equal():
    request = build_inputs("m", "s3://b/rows/")
    described = {"TransformInput": {**request["TransformInput"], "CompressionType": "None"}, "ModelName": "m"}
    assert has_same_inputs(described, request)
    assert not has_same_inputs(described, build_inputs("other", "s3://b/rows/"))
    assert not has_same_inputs(described, build_inputs("m", "s3://b/others/"))


FAILED = {
    "the model": ("AlgorithmError: ExecuteUserScriptError: ExitCode 1 ValueError: 137", AirflowFailException),
    "the data": ("ClientError: a record of 7 bytes is more than MaxPayloadInMB", AirflowFailException),
    "killed": ("AlgorithmError: ExecuteUserScriptError: ExitCode 137", AirflowException),
    "the service": ("InternalServerError: drydock ended while the job ran", AirflowException),
}


@pytest.mark.parametrize("case", FAILED)
def test_error_of_a_failed_job_says_whether_a_retry_helps(case):
    reason, error_type = FAILED[case]
    error = make_job_error(describe_job(FailureReason=reason), make_event())
    assert type(error) is error_type and f"transform job j-1 failed: {reason}" in str(error)


def test_stopped_job_is_an_error():
    """DescribeTransformJob returns neither bounds nor the time of the last change."""
    assert type(make_job_error(describe_job("Stopped"), make_event())) is AirflowException
    assert make_job_error(describe_job("Stopped"), make_event(attached_at=START.isoformat())) is None
    assert type(make_job_error(describe_job("InProgress"), make_event("deadline"))) is AirflowException
    assert compute_machine_s(describe_job()) == 10


@pytest.mark.parametrize("was_stopping", [True, False])
def test_job_that_was_stopping_before_this_try_is_replaced_however_long_the_stop_took(was_stopping):
    earlier = (START - dt.timedelta(hours=1)).isoformat()
    error = make_job_error(describe_job("Stopped"), make_event(attached_at=earlier, was_stopping=was_stopping))
    assert (error is None) is was_stopping


LIMITS = {
    "longer than allowed": (31, {}, "overrun"),
    "as long as allowed": (30, {}, None),
    "still waiting": (31, {"TransformStartTime": None}, None),
    "waiting too long": (10_000, {"TransformStartTime": None}, "deadline"),
}


@pytest.mark.parametrize("case", LIMITS)
def test_limit_counts_the_run_without_the_wait_before_it(case):
    after_s, times, cause = LIMITS[case]
    wait = JobWait(job_name="j-1", check_interval_s=1, max_duration_s=3_630, max_run_s=30, kind="transform")
    limit = wait.find_exceeded_limit(
        {**describe_job("InProgress", CreationTime=START), **times}, START + dt.timedelta(seconds=after_s)
    )
    assert (limit and limit[0]) == cause


def test_job_that_ran_too_long_is_not_retried():
    assert type(make_job_error(describe_job("Stopped"), make_event("overrun"))) is AirflowFailException


@pytest.mark.parametrize(("ran_s", "billed_s"), [(0.4, 1), (10, 10), (10.1, 11)])
def test_seconds_are_billed_rounded_up(ran_s, billed_s):
    times = {"CreationTime": START, "TransformEndTime": START + dt.timedelta(seconds=ran_s)}
    request = {"TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 1}}
    assert to_on_demand_record(describe_job(TransformJobArn="a", **times, **request))["billable_s"] == billed_s


def test_job_that_got_no_machine_costs_nothing():
    """DescribeTransformJob may return no end of such a job, and returns no time of the last change."""
    request = {"TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 1}}
    unstarted = {"TransformJobName": "j-1", "TransformJobArn": "a", "TransformJobStatus": "Stopped", **request}
    unstarted |= {"CreationTime": START}
    assert compute_machine_s(unstarted) == 0
    assert type(make_job_error(unstarted, make_event())) is AirflowException
    record = to_on_demand_record(unstarted)
    assert (record["billable_s"], record["started"], record["transitions"]) == (0, None, [])
    assert record["ended"] == START.isoformat()
