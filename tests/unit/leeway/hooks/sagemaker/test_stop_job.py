"""Test the requests that stop a job."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import pytest
from botocore.exceptions import ClientError
from leeway.hooks.sagemaker.wait import JobWait
from leeway.hooks.sagemaker.wait_for_job import stop_job

WAIT = JobWait(aws_conn_id=None, region_name=None, job_name="flights-1", check_interval_s=1, max_duration_s=60)


@pytest.fixture
def stop_with(monkeypatch):
    """Return the function that stops a job of a SageMaker which answers with the error of a code, or with success."""

    def stop(code):
        class SageMaker:
            async def stop_training_job(self, TrainingJobName):
                if code:
                    raise ClientError({"Error": {"Code": code, "Message": "no"}}, "StopTrainingJob")

        @contextlib.asynccontextmanager
        async def open_clients(wait):
            yield SageMaker(), None

        monkeypatch.setattr(JobWait, "open_clients", open_clients)
        asyncio.run(stop_job(WAIT, logging.getLogger("task")))

    return stop


@pytest.mark.parametrize("code", ["", "ResourceNotFound", "ValidationException"])
def test_job_that_has_ended_counts_as_stopped(stop_with, caplog, code):
    stop_with(code)
    assert "flights-1: stop requested" in caplog.text


def test_refused_request_says_that_the_job_runs_on(stop_with, caplog):
    with pytest.raises(ClientError):
        stop_with("AccessDeniedException")
    assert "stop requested" not in caplog.text
    assert "training job flights-1 runs on, and costs money, because the request to stop it failed: " in caplog.text
    assert "AccessDeniedException" in caplog.records[-1].getMessage()
