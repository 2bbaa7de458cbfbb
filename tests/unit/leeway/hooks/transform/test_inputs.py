"""What a transform job is asked, whose model it names, and what its end means."""

import datetime as dt
import re

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from leeway.hooks.sagemaker.failures import get_machine_seconds, make_job_error
from leeway.hooks.sagemaker.wait import JobWait
from leeway.hooks.transform.inputs import build_inputs, build_model, has_same_inputs

from pipelines.costs.job_records import to_on_demand_record

BEGAN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
ROLE = "arn:aws:iam::123456789012:role/leeway"


def job(status="Failed", **more):
    end = BEGAN + dt.timedelta(seconds=10)
    times = {"TransformStartTime": BEGAN, "TransformEndTime": end}
    return {"TransformJobName": "j-1", "TransformJobStatus": status, **times, **more}


def event(cause="ended", attached_at=None, **more):
    return {"cause": cause, "job_name": "j-1", "message": "why", "attached_at": attached_at, **more}


@pytest.mark.parametrize("name", ["flights-7", "x" * 200, "späte Flüge/2", "-7"])
def test_a_models_name_is_one_that_sagemaker_takes(name):
    told = build_model(name, ROLE, {"Image": "i"})["ModelName"]
    assert re.fullmatch(r"[a-zA-Z0-9]([\-a-zA-Z0-9]*[a-zA-Z0-9])?", told) and len(told) <= 63


def test_a_models_name_says_all_that_is_in_it():
    container = {"Image": "i", "ModelDataUrl": "s3://b/m", "Environment": {"A": "1"}}
    name = build_model("m-1", ROLE, container)["ModelName"]
    assert name == build_model("m-1", ROLE, dict(reversed(container.items())))["ModelName"]
    others = [(ROLE + "2", container), *((ROLE, {**container, key: "other"}) for key in container)]
    assert len({name, *(build_model("m-1", role, one)["ModelName"] for role, one in others)}) == 5


def test_job_is_the_same_where_model_and_rows_are():
    request = build_inputs("m", "s3://b/rows/")
    told = {"TransformInput": {**request["TransformInput"], "CompressionType": "None"}, "ModelName": "m"}
    assert has_same_inputs(told, request)
    assert not has_same_inputs(told, build_inputs("other", "s3://b/rows/"))
    assert not has_same_inputs(told, build_inputs("m", "s3://b/others/"))


FAILED = {
    "the model": ("AlgorithmError: ExecuteUserScriptError: ExitCode 1 ValueError: 137", AirflowFailException),
    "the data": ("ClientError: a record of 7 bytes is more than MaxPayloadInMB", AirflowFailException),
    "killed": ("AlgorithmError: ExecuteUserScriptError: ExitCode 137", AirflowException),
    "the service": ("InternalServerError: drydock ended while the job ran", AirflowException),
}


@pytest.mark.parametrize("case", FAILED)
def test_failed_job_says_whether_a_retry_helps(case):
    reason, kind = FAILED[case]
    error = make_job_error(job(FailureReason=reason), event())
    assert type(error) is kind and f"transform job j-1 failed: {reason}" in str(error)


def test_stopped_job_is_never_a_success():
    """DescribeTransformJob tells neither bounds nor when the job changed last."""
    assert type(make_job_error(job("Stopped"), event())) is AirflowException
    assert make_job_error(job("Stopped"), event(attached_at=BEGAN.isoformat())) is None
    assert type(make_job_error(job("InProgress"), event("deadline"))) is AirflowException
    assert get_machine_seconds(job()) == 10


@pytest.mark.parametrize("was_stopping", [True, False])
def test_job_that_was_stopping_when_the_try_began_is_followed_by_the_next_however_long_it_took(was_stopping):
    long_before = (BEGAN - dt.timedelta(hours=1)).isoformat()
    error = make_job_error(job("Stopped"), event(attached_at=long_before, was_stopping=was_stopping))
    assert (error is None) is was_stopping


RAN = {
    "too long": (31, {}, "overrun"),
    "long enough": (30, {}, None),
    "and has not begun": (31, {"TransformStartTime": None}, None),
    "but waited too long": (10_000, {"TransformStartTime": None}, "deadline"),
}


@pytest.mark.parametrize("case", RAN)
def test_bound_is_of_the_run_and_not_of_the_wait_before(case):
    after_s, times, cause = RAN[case]
    watch = JobWait(job_name="j-1", check_interval_s=1, longest_s=3_630, max_run_s=30, kind="transform")
    found = watch.find_exceeded_limit(
        {**job("InProgress", CreationTime=BEGAN), **times}, BEGAN + dt.timedelta(seconds=after_s)
    )
    assert (found and found[0]) == cause


def test_job_that_ran_too_long_would_do_so_again():
    assert type(make_job_error(job("Stopped"), event("overrun"))) is AirflowFailException


@pytest.mark.parametrize(("ran_s", "billed_s"), [(0.4, 1), (10, 10), (10.1, 11)])
def test_each_second_that_began_is_billed(ran_s, billed_s):
    times = {"CreationTime": BEGAN, "TransformEndTime": BEGAN + dt.timedelta(seconds=ran_s)}
    request = {"TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 1}}
    assert to_on_demand_record(job(TransformJobArn="a", **times, **request))["billable_s"] == billed_s


def test_job_that_never_had_a_machine_cost_nothing():
    """Of such a one DescribeTransformJob need not tell an end, and never tells when it changed last."""
    request = {"TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 1}}
    never = {"TransformJobName": "j-1", "TransformJobArn": "a", "TransformJobStatus": "Stopped", **request}
    never |= {"CreationTime": BEGAN}
    assert get_machine_seconds(never) == 0
    assert type(make_job_error(never, event())) is AirflowException
    told = to_on_demand_record(never)
    assert (told["billable_s"], told["started"], told["transitions"]) == (0, None, [])
    assert told["ended"] == BEGAN.isoformat()
