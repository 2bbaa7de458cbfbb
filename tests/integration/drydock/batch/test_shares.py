"""Test fair share, quota shares and preemption with jobs that really run."""

import os
from typing import Any

# Counts up to GOAL, with a checkpoint at each step, and waits at HOLD in its first run.
COUNTER = """
import os, pathlib, time
folder = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"])
checkpoints = sorted(folder.iterdir())
count = int(checkpoints[-1].name) if checkpoints else 0
print("from", count, flush=True)
while count < 12:
    count += 1
    (folder.parent / "new").write_text("x")
    (folder.parent / "new").rename(folder / f"{count:05d}")
    while not checkpoints and count == 5:
        time.sleep(0.05)  # the first run waits here until it is preempted
pathlib.Path(os.environ["SM_MODEL_DIR"], "count").write_text(str(count))
"""


def test_share_that_used_nothing_goes_before_jobs_that_another_share_submitted_earlier(queues: Any) -> None:
    queue = queues.create_fair("fair", shareDecaySeconds=3_600)
    gate = queues.runs.with_name("gate")
    wait = f"import os, time\nwhile not os.path.exists({os.fspath(gate)!r}):\n    time.sleep(0.05)\n"
    blocker = queues.submit(queue, "blocker", wait, shareIdentifier="other")
    jobs = [queues.submit(queue, f"a{number}", shareIdentifier="A") for number in range(3)]
    jobs += [queues.submit(queue, f"b{number}", shareIdentifier="B", schedulingPriority=number) for number in range(3)]
    gate.touch()
    assert {queues.wait_for_end(job)["status"] for job in [blocker, *jobs]} == {"SUCCEEDED"}
    runs = queues.read_runs()
    # After that, the order depends on the durations of the jobs: see test_fair_share.py.
    assert runs[:2] == ["a0", "b2"]
    assert [name for name in runs if name[0] == "b"] == ["b2", "b1", "b0"], "a higher priority goes first in its share"


def test_urgent_job_preempts_and_the_low_one_continues_from_its_checkpoint(queues: Any) -> None:
    queue = queues.create_quota("quota", 1, a={"limit": 1, "in_share": "ENABLED"})
    checkpoints = {"S3Uri": "s3://bucket/checkpoints/low"}
    payload = queues.build_payload("low", COUNTER, CheckpointConfig=checkpoints)
    low = queues.submit(queue, "low", payload=payload, quotaShareName="a")
    queues.server.wait_until("checkpoints", lambda: len(queues.server.list_keys("checkpoints/low/")) == 5)
    first = queues.get_training_job(queues.describe(low))["TrainingJobName"]
    high = queues.submit(queue, "high", quotaShareName="a", schedulingPriority=10)
    assert queues.wait_for_end(high)["status"] == "SUCCEEDED"
    job = queues.wait_for_end(low)
    assert job["status"] == "SUCCEEDED", job
    assert job["preemptionSummary"]["preemptedAttemptCount"] == 1
    (preempted,) = job["preemptionSummary"]["recentPreemptedAttempts"]
    assert preempted["serviceResourceId"]["value"].endswith(f"/{first}")
    assert queues.server.describe_job(first)["TrainingJobStatus"] == "Stopped"
    second = queues.get_training_job(job)
    assert queues.server.read_full_log(first)[0] == "from 0"
    assert queues.server.read_full_log(second["TrainingJobName"])[0] == "from 5"
    assert queues.server.read_archive(second["ModelArtifacts"]["S3ModelArtifacts"]) == {"count": b"12"}
    assert job["stoppedAt"] > queues.describe(high)["stoppedAt"]
