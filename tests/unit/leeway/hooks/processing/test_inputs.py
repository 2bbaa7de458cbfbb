"""Test what the end of a processing job means, and whether a job had the same inputs."""

import datetime as dt

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from leeway.hooks.processing.inputs import build_inputs, build_output, get_output_uri, has_same_inputs
from leeway.hooks.sagemaker.failures import make_job_error

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def describe_job(status="Failed", *, ran_s=10, **fields):
    end = START + dt.timedelta(seconds=ran_s)
    times = {"ProcessingStartTime": START, "ProcessingEndTime": end, "LastModifiedTime": end}
    bounds = {"StoppingCondition": {"MaxRuntimeInSeconds": 60}}
    return {"ProcessingJobName": "j-1", "ProcessingJobStatus": status, **times, **bounds, **fields}


def make_event(cause="ended", attached_at=None, message=""):
    return {"cause": cause, "job_name": "j-1", "message": message, "attached_at": attached_at}


FAILED = {
    "wrong data": ({"ExitMessage": "[exit 2] no row."}, AirflowFailException, "failed: no row."),
    "a bug": ({"ExitMessage": "[exit 1] KeyError."}, AirflowFailException, "failed: KeyError."),
    "a temporary error": ({"ExitMessage": "[exit 75] disk full."}, AirflowException, "failed: disk full."),
    "killed": ({"FailureReason": "AlgorithmError: exit code: 137"}, AirflowException, "exit code: 137"),
    "no start": ({"FailureReason": "ClientError: no image"}, AirflowFailException, "no image"),
    "the service": ({"FailureReason": "InternalServerError: x"}, AirflowException, "x"),
    "no reason": ({}, AirflowException, "no reason is given"),
}


@pytest.mark.parametrize("case", FAILED)
def test_error_of_a_failed_job_says_whether_a_retry_helps(case):
    fields, error_type, text = FAILED[case]
    error = make_job_error(describe_job(**fields), make_event())
    assert type(error) is error_type and text in str(error)


def test_stopped_job_is_an_error():
    assert type(make_job_error(describe_job("Stopped"), make_event())) is AirflowException
    assert isinstance(make_job_error(describe_job("Stopped", ran_s=60), make_event()), AirflowFailException)
    assert "max_run_s" not in str(make_job_error(describe_job("Stopped", ran_s=59), make_event()))


def test_job_stopped_before_this_try_is_replaced_by_the_next():
    assert make_job_error(describe_job("Stopped"), make_event(attached_at=START.isoformat())) is None
    earlier = (START - dt.timedelta(hours=1)).isoformat()
    assert type(make_job_error(describe_job("Stopped"), make_event(attached_at=earlier))) is AirflowException


@pytest.mark.parametrize("cause", ["deadline", "no_answer", "error"])
def test_failed_wait_is_retried(cause):
    assert type(make_job_error(describe_job("InProgress"), make_event(cause, message="why"))) is AirflowException


def test_jobs_have_the_same_inputs_if_image_code_window_and_arguments_are_equal():
    inputs = build_inputs("i", "s3://b/c/", "s3://b/w/", ["--engine", "spark"])
    described = {**inputs, "ProcessingInputs": [{**item, "AppManaged": False} for item in inputs["ProcessingInputs"]]}
    assert has_same_inputs(described, inputs)
    for other in (
        build_inputs("i2", "s3://b/c/", "s3://b/w/", ["--engine", "spark"]),
        build_inputs("i", "s3://b/c2/", "s3://b/w/", ["--engine", "spark"]),
        build_inputs("i", "s3://b/c/", "s3://b/w2/", ["--engine", "spark"]),
        build_inputs("i", "s3://b/c/", "s3://b/w/", ["--engine", "duckdb"]),
    ):
        assert not has_same_inputs(described, other)


def test_output_uri_is_the_requested_one():
    assert get_output_uri(build_output("s3://b/p")) == "s3://b/p"
