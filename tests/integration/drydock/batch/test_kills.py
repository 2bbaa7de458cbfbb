"""Test that kill -9 of drydock loses no service job, and starts no training job twice."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

OPTIONS = ("--cores", "8", "--memory-gib", "100", "--stop-grace", "1", "--shutdown-grace", "1")
COUNT = 8


def _kill(server: Any, folder: Path) -> None:
    server.process.kill()
    server.process.wait(60)
    (folder / "port").unlink()


def _wait_for_jobs(queues: Any, ids: list[str], count: int) -> None:
    def has_enough() -> bool:
        statuses = [queues.describe(job_id)["status"] for job_id in ids]
        return statuses.count("SUCCEEDED") >= count

    queues.server.wait_until(f"{count} jobs", has_enough)


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.soak)])
def test_killed_servers_run_each_job_once(
    tmp_path: Path, run_drydock: Any, create_queues: Callable[[Any], Any], kills: int
) -> None:
    generator = random.Random(5)
    ids: list[str] = []
    for kill in range(kills + 1):
        with run_drydock(tmp_path, *OPTIONS) as server:
            queues = create_queues(server)
            if not kill:
                queues.create_fair("queue", 2)
                for number in range(COUNT):
                    name = f"job-{number}"
                    # A spot job is interrupted by the kill, and resumes: its attempt stays the same.
                    fields = server.build_spot_fields(name, Environment={"SECONDS": "0.3"})
                    payload = queues.build_payload(name, **fields)
                    share = "AB"[number % 2]
                    ids.append(queues.submit("queue", name, payload=payload, shareIdentifier=share))
            if kill == kills:
                jobs = [queues.wait_for_end(job_id) for job_id in ids]
                training_jobs = server.client("sagemaker").list_training_jobs(MaxResults=100)["TrainingJobSummaries"]
                continue
            _wait_for_jobs(queues, ids, 2 * kill + 1)
            time.sleep(generator.uniform(0, 0.4))
            _kill(server, tmp_path)
    assert [job["status"] for job in jobs] == ["SUCCEEDED"] * COUNT, [job.get("statusReason") for job in jobs]
    assert [len(job["attempts"]) for job in jobs] == [1] * COUNT
    names = {job["latestAttempt"]["serviceResourceId"]["value"] for job in jobs}
    assert {item["TrainingJobArn"] for item in training_jobs} == names and len(names) == COUNT
    assert {item["TrainingJobStatus"] for item in training_jobs} == {"Completed"}


def test_job_that_cannot_resume_is_repeated_by_its_retry_strategy(
    tmp_path: Path, run_drydock: Any, create_queues: Callable[[Any], Any]
) -> None:
    strategy = {
        "attempts": 3,
        "evaluateOnExit": [
            {"action": "RETRY", "onStatusReason": "Received status from SageMaker: InternalServerError*"},
            {"action": "EXIT", "onStatusReason": "*"},
        ],
    }
    gate = tmp_path / "gate"
    script = f"import os, time\nwhile not os.path.exists({str(gate)!r}):\n    time.sleep(0.05)\n"
    with run_drydock(tmp_path, *OPTIONS) as server:
        queues = create_queues(server)
        queue = queues.create("queue")
        ids = [queues.submit(queue, "repeated", script, retryStrategy=strategy), queues.submit(queue, "next")]
        queues.wait_for_status(ids[0], "RUNNING")
        _kill(server, tmp_path)
    with run_drydock(tmp_path, *OPTIONS) as server:
        gate.touch()  # only now: a command that ends by itself while no server runs has not failed
        queues = create_queues(server)
        jobs = [queues.wait_for_end(job_id) for job_id in ids]
        assert [job["status"] for job in jobs] == ["SUCCEEDED", "SUCCEEDED"]
        assert [len(job["attempts"]) for job in jobs] == [2, 1]
        assert "InternalServerError: drydock ended while" in jobs[0]["attempts"][0]["statusReason"]
