"""What the end of a processing job means, and whether a job had the same inputs."""

import datetime as dt

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from leeway.hooks.processing.inputs import build_inputs, build_output, get_output_uri, has_same_inputs
from leeway.hooks.sagemaker.failures import make_job_error

BEGAN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def job(status="Failed", *, ran_s=10, **more):
    end = BEGAN + dt.timedelta(seconds=ran_s)
    times = {"ProcessingStartTime": BEGAN, "ProcessingEndTime": end, "LastModifiedTime": end}
    bounds = {"StoppingCondition": {"MaxRuntimeInSeconds": 60}}
    return {"ProcessingJobName": "j-1", "ProcessingJobStatus": status, **times, **bounds, **more}


def event(cause="ended", attached_at=None, message=""):
    return {"cause": cause, "job_name": "j-1", "message": message, "attached_at": attached_at}


FAILED = {
    "wrong data": ({"ExitMessage": "[exit 2] no row."}, AirflowFailException, "failed: no row."),
    "a bug": ({"ExitMessage": "[exit 1] KeyError."}, AirflowFailException, "failed: KeyError."),
    "try again": ({"ExitMessage": "[exit 75] disk full."}, AirflowException, "failed: disk full."),
    "killed": ({"FailureReason": "AlgorithmError: exit code: 137"}, AirflowException, "exit code: 137"),
    "never began": ({"FailureReason": "ClientError: no image"}, AirflowFailException, "no image"),
    "the service": ({"FailureReason": "InternalServerError: x"}, AirflowException, "x"),
    "nothing": ({}, AirflowException, "no reason is given"),
}


@pytest.mark.parametrize("case", FAILED)
def test_failed_job_says_whether_a_retry_helps(case):
    more, kind, text = FAILED[case]
    error = make_job_error(job(**more), event())
    assert type(error) is kind and text in str(error)


def test_stopped_job_is_never_a_success():
    assert type(make_job_error(job("Stopped"), event())) is AirflowException
    assert isinstance(make_job_error(job("Stopped", ran_s=60), event()), AirflowFailException)
    assert "max_run_s" not in str(make_job_error(job("Stopped", ran_s=59), event()))


def test_job_stopped_by_the_clear_that_began_this_try_is_followed_by_the_next():
    assert make_job_error(job("Stopped"), event(attached_at=BEGAN.isoformat())) is None
    long_ago = (BEGAN - dt.timedelta(hours=1)).isoformat()
    assert type(make_job_error(job("Stopped"), event(attached_at=long_ago))) is AirflowException


@pytest.mark.parametrize("cause", ["deadline", "silent", "error"])
def test_wait_that_was_broken_off_is_retried(cause):
    assert type(make_job_error(job("InProgress"), event(cause, message="why"))) is AirflowException


def test_job_is_the_same_where_image_code_window_and_arguments_are():
    asked = build_inputs("i", "s3://b/c/", "s3://b/w/", ["--engine", "spark"])
    told = {**asked, "ProcessingInputs": [{**one, "AppManaged": False} for one in asked["ProcessingInputs"]]}
    assert has_same_inputs(told, asked)
    for other in (
        build_inputs("i2", "s3://b/c/", "s3://b/w/", ["--engine", "spark"]),
        build_inputs("i", "s3://b/c2/", "s3://b/w/", ["--engine", "spark"]),
        build_inputs("i", "s3://b/c/", "s3://b/w2/", ["--engine", "spark"]),
        build_inputs("i", "s3://b/c/", "s3://b/w/", ["--engine", "duckdb"]),
    ):
        assert not has_same_inputs(told, other)


def test_output_is_where_it_was_asked_for():
    assert get_output_uri(build_output("s3://b/p")) == "s3://b/p"
