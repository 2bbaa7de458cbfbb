"""Test the requests that stop a job."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError
from leeway.hooks.sagemaker.wait import JobWait
from leeway.hooks.sagemaker.wait_for_job import stop_job
from leeway.hooks.training.inputs import TrainingJobs

WAIT = JobWait(aws_conn_id=None, region_name=None, job_name="flights-1", check_interval_s=1, max_duration_s=60)


def make_error(code):
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "StopTrainingJob")


@pytest.fixture(params=["trigger", "worker"])
def stop_with(request, monkeypatch):
    """Return the function that stops a job of a SageMaker which answers with the error of a code, or with success."""
    return stop_in_worker if request.param == "worker" else prepare_trigger(monkeypatch)


def stop_in_worker(code):
    def stop_training_job(TrainingJobName):
        if code:
            raise make_error(code)

    hook = SimpleNamespace(conn=SimpleNamespace(stop_training_job=stop_training_job))
    TrainingJobs(hook, logging.getLogger("task"), "flights").stop("flights-1")


def prepare_trigger(monkeypatch):

    def stop(code):
        class SageMaker:
            async def stop_training_job(self, TrainingJobName):
                if code:
                    raise make_error(code)

        @contextlib.asynccontextmanager
        async def open_clients(wait):
            yield SageMaker(), None

        monkeypatch.setattr(JobWait, "open_clients", open_clients)
        asyncio.run(stop_job(WAIT, logging.getLogger("task")))

    return stop


@pytest.mark.parametrize("code", ["", "ResourceNotFound", "ValidationException"])
def test_job_that_has_ended_needs_no_stop(stop_with, code):
    stop_with(code)


def test_stop_is_logged(stop_with, caplog):
    stop_with("")
    assert "flights-1: stop requested" in caplog.text


def test_refused_request_says_that_the_job_runs_on(stop_with, caplog):
    with pytest.raises(ClientError):
        stop_with("AccessDeniedException")
    assert "stop requested" not in caplog.text


def test_trigger_says_that_the_job_runs_on(monkeypatch, caplog):
    """Airflow does not show the errors of a trigger that is stopped. A worker's error fails its task."""
    with pytest.raises(ClientError):
        prepare_trigger(monkeypatch)("AccessDeniedException")
    assert "training job flights-1 runs on, and costs money, because the request to stop it failed: " in caplog.text
    assert "AccessDeniedException" in caplog.records[-1].getMessage()
