"""Test many clients at once, and a reset of the server."""

import threading
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

CLIENTS, JOBS, SIZE = 5, 3, 3


@pytest.mark.soak
def test_fleet_of_clients_never_has_more_instances_than_the_environment(queues: Any) -> None:
    queue = queues.create_fair("fleet", SIZE)
    barrier = threading.Barrier(CLIENTS)

    def submit(client: int) -> list[str]:
        barrier.wait()
        return [queues.submit(queue, f"c{client}-{job}", shareIdentifier=f"C{client}") for job in range(JOBS)]

    with ThreadPoolExecutor(CLIENTS) as pool:
        ids = [job_id for ids in pool.map(submit, range(CLIENTS)) for job_id in ids]
    jobs = [queues.wait_for_end(job_id) for job_id in ids]
    assert [job["status"] for job in jobs] == ["SUCCEEDED"] * CLIENTS * JOBS
    assert len(set(queues.read_runs())) == len(queues.read_runs()) == CLIENTS * JOBS
    for job in jobs:
        begin = job["scheduledAt"]
        running = sum(other["scheduledAt"] <= begin < other["stoppedAt"] for other in jobs)
        assert running <= SIZE
    pages = queues.client.get_paginator("list_service_jobs").paginate(
        jobQueue=queue, jobStatus="SUCCEEDED", PaginationConfig={"PageSize": 4}
    )
    listed = [item for page in pages for item in page["jobSummaryList"]]
    assert {item["jobId"] for item in listed} == set(ids) and len(listed) == len(ids)
    created = [item["createdAt"] for item in listed]
    assert created == sorted(created, reverse=True)
    named = queues.client.list_service_jobs(jobQueue=queue, filters=[{"name": "JOB_NAME", "values": ["C1*"]}])
    assert len(named["jobSummaryList"]) == JOBS


def test_reset_deletes_the_queues_and_starts_no_job(
    tmp_path: Path, run_drydock: Any, create_queues: Callable[[Any], Any]
) -> None:
    with run_drydock(tmp_path) as server:
        queues = create_queues(server)
        queue = queues.create("queue")
        ids = [queues.submit(queue, name, "import time; time.sleep(600)") for name in ("first", "second")]
        queues.wait_for_status(ids[0], "RUNNING")
        request = urllib.request.Request(f"{server.url}/moto-api/reset", method="POST")
        with urllib.request.urlopen(request) as response:
            assert response.status == 200
        assert server.client("batch").describe_job_queues()["jobQueues"] == []
        queues.create("queue")  # the name is free again
        server.wait_until("no job", lambda: not server.get_health()["running"])
        assert server.client("sagemaker").list_training_jobs()["TrainingJobSummaries"] == []
