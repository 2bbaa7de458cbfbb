"""What a server that was killed with -9 leaves, and what the next one makes of it."""

import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

OPTIONS = ("--cores", "8", "--memory-gib", "100")
OPTIONS += ("--stop-grace", "1", "--checkpoint-interval", "0.2", "--shutdown-grace", "1")
STEADY = """
import os, pathlib, time
folder = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"])
found = sorted(folder.iterdir())
count = int(found[-1].name) if found else 0
print("from", count, flush=True)
while count < int(os.environ["GOAL"]):
    count += 1
    (folder.parent / "new").write_text("x")
    (folder.parent / "new").rename(folder / f"{count:05d}")
    time.sleep(0.05)
    while not found and count == int(os.environ.get("HOLD", "0")):
        time.sleep(0.05)  # it waits for whoever kills it
pathlib.Path(os.environ["SM_MODEL_DIR"], "count").write_text(str(count))
"""
# Says so in its own S3 object, whose name is the job's: who ran twice wrote twice.
ONCE = """
import os, pathlib, time
with open(os.environ["LEDGER"], "a") as ledger:
    ledger.write(os.environ["TRAINING_JOB_NAME"] + "\\n")
time.sleep(0.2)
pathlib.Path(os.environ["SM_MODEL_DIR"], "name").write_text(os.environ["TRAINING_JOB_NAME"])
"""


def kill(server: Any, folder: Path) -> None:
    server.process.kill()
    server.process.wait(60)
    (folder / "port").unlink()


def test_a_spot_job_resumes_and_others_fail(tmp_path: Path, run_drydock: Any) -> None:
    with run_drydock(tmp_path, *OPTIONS) as server:
        server.create_job("spot", STEADY, Environment={"GOAL": "100", "HOLD": "50"}, **server.build_spot_fields("spot"))
        server.create_job("plain", STEADY, Environment={"GOAL": "1000000"})
        server.create_job("done", "print('done')")
        before = server.wait_for_end("done")
        server.wait_for_line("plain", "from")
        server.wait_until("a checkpoint", lambda: server.list_keys("checkpoints/spot/"))
        kill(server, tmp_path)
    with run_drydock(tmp_path, *OPTIONS) as server:
        assert server.describe_job("done") | {"ResponseMetadata": 0} == before | {"ResponseMetadata": 0}
        plain, spot = server.wait_for_end("plain"), server.wait_for_end("spot")
        assert plain["TrainingJobStatus"] == "Failed"
        assert plain["FailureReason"].startswith("InternalServerError: drydock ended while the job ran")
        assert spot["TrainingJobStatus"] == "Completed"
        assert [line["Status"] for line in spot["SecondaryStatusTransitions"]].count("Interrupted") == 1
        starts = [line for line in server.read_full_log("spot") if line.startswith("from")]
        assert len(starts) == 2 and int(starts[1].split()[1]) > 0
        assert server.read_archive(spot["ModelArtifacts"]["S3ModelArtifacts"]) == {"count": b"100"}
        assert "done" in server.read_full_log("done")
        with pytest.raises(ClientError, match="already exists"):
            server.create_job("done", "print('again')")


def test_waiting_and_stopping_jobs_survive_too(tmp_path: Path, run_drydock: Any) -> None:
    stubborn = """
import os, pathlib, signal, time
pathlib.Path(os.environ["SM_MODEL_DIR"], "half").write_text("half")
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("on", flush=True)
time.sleep(600)
"""
    with run_drydock(tmp_path, "--cores", "2", "--stop-grace", "600") as server:
        server.create_job("stopping", stubborn)
        server.wait_for_line("stopping", "on")
        server.create_job("waiting", "print('ran')", Tags=[{"Key": "a", "Value": "1"}])
        arn = server.describe_job("waiting")["TrainingJobArn"]
        server.client("sagemaker").add_tags(ResourceArn=arn, Tags=[{"Key": "b", "Value": "2"}])
        server.stop_job("stopping")
        kill(server, tmp_path)
    with run_drydock(tmp_path, "--cores", "2") as server:
        stopped, ran = server.wait_for_end("stopping"), server.wait_for_end("waiting")
        assert stopped["TrainingJobStatus"] == "Stopped"
        assert server.read_archive(stopped["ModelArtifacts"]["S3ModelArtifacts"]) == {"half": b"half"}
        assert ran["TrainingJobStatus"] == "Completed" and server.read_full_log("waiting") == ["ran", NO_MODEL]
        tags = server.client("sagemaker").list_tags(ResourceArn=arn)["Tags"]
        assert {tag["Key"] for tag in tags} == {"a", "b"}


NO_MODEL = "No model artifact is saved under path /opt/ml/model."


def test_the_next_server_resumes_a_spot_job(tmp_path: Path, run_drydock: Any) -> None:
    with run_drydock(tmp_path, *OPTIONS) as server:
        server.create_job("spot", STEADY, Environment={"GOAL": "60", "HOLD": "30"}, **server.build_spot_fields("spot"))
        server.create_job("plain", STEADY, Environment={"GOAL": "1000000"})
        server.wait_for_line("plain", "from")
        server.wait_until("a checkpoint", lambda: server.list_keys("checkpoints/spot/"))  # else it waits at HOLD again
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
    (tmp_path / "port").unlink()
    with run_drydock(tmp_path, *OPTIONS) as server:
        assert server.wait_for_end("spot")["TrainingJobStatus"] == "Completed"
        assert "shut down" in server.describe_job("plain")["FailureReason"]


def test_many_concurrent_jobs_run_once_each(tmp_path: Path, run_drydock: Any) -> None:
    ledger = tmp_path / "ledger"
    names = [f"job-{number:03d}" for number in range(60)]
    with run_drydock(tmp_path, "--cores", "16", "--memory-gib", "1000") as server:
        source = server.upload_source("once", ONCE)
        given = {"sagemaker_program": "train.py", "sagemaker_submit_directory": source}
        for name in names:
            request = server.build_request(name, HyperParameters=given, Environment={"LEDGER": str(ledger)})
            server.client("sagemaker").create_training_job(**request)
        ended = {name: server.wait_for_end(name) for name in names}
        assert {one["TrainingJobStatus"] for one in ended.values()} == {"Completed"}
        for name in names:
            assert server.read_archive(ended[name]["ModelArtifacts"]["S3ModelArtifacts"]) == {"name": name.encode()}
    assert sorted(ledger.read_text().split()) == names


@pytest.mark.parametrize("kills", [2, pytest.param(6, marks=pytest.mark.soak)])
def test_after_repeated_kills_every_job_ends_and_every_object_is_complete(
    tmp_path: Path, run_drydock: Any, kills: int
) -> None:
    """The same with 20 kills is `python -m benchmarks drydock`."""
    chance, stored, names = random.Random(13), {}, []  # type: ignore[var-annotated]
    for _ in range(kills):
        with run_drydock(tmp_path, *OPTIONS) as server:
            until, before = time.monotonic() + chance.uniform(0.3, 2.0), len(names)
            while time.monotonic() < until or len(names) < before + 2:  # two, where a disk takes seconds for one
                number = len(names)
                spot = server.build_spot_fields(f"job-{number}") if number % 3 else {}
                try:
                    body = chance.randbytes(chance.choice([10, 100_000]))
                    stored[server.put(f"objects/{number}", body)] = body
                    server.create_job(
                        f"job-{number}", STEADY, Environment={"GOAL": str(chance.choice([1, 20]))}, **spot
                    )
                    names.append(f"job-{number}")
                except (ClientError, BotoCoreError):
                    break
                time.sleep(0.1)
            kill(server, tmp_path)
    with run_drydock(tmp_path, *OPTIONS) as server:
        ended = {name: server.wait_for_end(name) for name in names}
        for name, one in ended.items():
            plain = int(name.split("-")[1]) % 3 == 0
            allowed = ("Completed", "Failed") if plain else ("Completed",)
            assert one["TrainingJobStatus"] in allowed, (name, one.get("FailureReason"))
            if one["TrainingJobStatus"] == "Completed":
                goal = one["Environment"]["GOAL"].encode()
                assert server.read_archive(one["ModelArtifacts"]["S3ModelArtifacts"]) == {"count": goal}
        assert len(names) > kills
        for uri, body in stored.items():
            assert server.get(uri) == body
        listed = server.client("sagemaker").get_paginator("list_training_jobs").paginate()
        assert {one["TrainingJobName"] for page in listed for one in page["TrainingJobSummaries"]} >= set(names)
