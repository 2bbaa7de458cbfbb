"""Test how a server recovers the jobs of a server that was killed or shut down before it."""

import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

OPTIONS = ("--cores", "8", "--memory-gib", "100")
OPTIONS += ("--stop-grace", "1", "--checkpoint-interval", "0.2", "--shutdown-grace", "1")
COUNTER = """
import os, pathlib, time
folder = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"])
checkpoints = sorted(folder.iterdir())
count = int(checkpoints[-1].name) if checkpoints else 0
print("from", count, flush=True)
while count < int(os.environ["GOAL"]):
    count += 1
    (folder.parent / "new").write_text("x")
    (folder.parent / "new").rename(folder / f"{count:05d}")
    time.sleep(0.05)
    while not checkpoints and count == int(os.environ.get("HOLD", "0")):
        time.sleep(0.05)  # the first run waits here until it is killed
pathlib.Path(os.environ["SM_MODEL_DIR"], "count").write_text(str(count))
"""
# Truncates its checkpoint and fills it again, as plain code does. A run that finds a checkpoint reads it and ends.
REWRITER = """
import json, os, pathlib, time
state = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"], "state.json")
if state.exists():
    raise SystemExit(json.loads(state.read_text())["exit_code"])
while True:
    with state.open("w") as file:
        time.sleep(0.04)
        file.write(json.dumps({"exit_code": 0}))
    time.sleep(0.04)
"""
# Appends the job's name to a file: the name of a job that ran twice occurs twice.
ONCE = """
import os, pathlib, time
with open(os.environ["RUNS"], "a") as runs:
    runs.write(os.environ["TRAINING_JOB_NAME"] + "\\n")
time.sleep(0.2)
pathlib.Path(os.environ["SM_MODEL_DIR"], "name").write_text(os.environ["TRAINING_JOB_NAME"])
"""


def kill(server: Any, folder: Path) -> None:
    """Kill a server by SIGKILL, so that another one can start in its folder."""
    server.process.kill()
    server.process.wait(60)
    (folder / "port").unlink()


# Writes a checkpoint under the name of its host, and ends if it finds those of both hosts.
PAIR = """
import os, pathlib, time
folder, own = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"]), os.environ["SM_CURRENT_HOST"]
names = sorted(path.name for path in folder.iterdir())
print("restored", *names, flush=True)
if len(names) == 2:
    pathlib.Path(os.environ["SM_MODEL_DIR"], own).write_text("done")
    raise SystemExit
(folder / own).write_text(own)
time.sleep(600)
"""


@pytest.mark.parametrize("is_spot", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_killed_server_resumes_all_hosts_of_a_job(tmp_path: Path, run_drydock: Any, is_spot: bool) -> None:
    resources = {"InstanceType": "ml.m5.large", "InstanceCount": 2, "VolumeSizeInGB": 1}
    with run_drydock(tmp_path, *OPTIONS) as server:
        fields = server.build_spot_fields("pair")
        fields = fields if is_spot else {"CheckpointConfig": fields["CheckpointConfig"]}
        server.create_job("pair", PAIR, ResourceConfig=resources, **fields)
        server.wait_until("both checkpoints", lambda: len(server.list_keys("checkpoints/pair/")) == 2)
        kill(server, tmp_path)
    with run_drydock(tmp_path, *OPTIONS) as server:
        job = server.wait_for_end("pair")
        if not is_spot:
            assert job["FailureReason"].startswith("InternalServerError: drydock ended while the job ran")
            return
        assert job["TrainingJobStatus"] == "Completed", job
        lines = [line for line in server.read_full_log("pair") if line.startswith("restored")]
        assert sorted(lines) == ["restored", "restored", "restored algo-1 algo-2", "restored algo-1 algo-2"]
        model = server.read_archive(job["ModelArtifacts"]["S3ModelArtifacts"])
        assert model == {"algo-1": b"done", "algo-2": b"done"}


def test_killed_server_resumes_spot_jobs_and_fails_others(tmp_path: Path, run_drydock: Any) -> None:
    with run_drydock(tmp_path, *OPTIONS) as server:
        server.create_job(
            "spot", COUNTER, Environment={"GOAL": "100", "HOLD": "50"}, **server.build_spot_fields("spot")
        )
        server.create_job("plain", COUNTER, Environment={"GOAL": "1000000"})
        server.create_job("ended", "print('line')")
        ended_job = server.wait_for_end("ended")
        server.wait_for_line("plain", "from")
        server.wait_until("a checkpoint", lambda: server.list_keys("checkpoints/spot/"))
        kill(server, tmp_path)
    with run_drydock(tmp_path, *OPTIONS) as server:
        assert server.describe_job("ended") | {"ResponseMetadata": 0} == ended_job | {"ResponseMetadata": 0}
        plain_job, spot_job = server.wait_for_end("plain"), server.wait_for_end("spot")
        assert plain_job["TrainingJobStatus"] == "Failed"
        assert plain_job["FailureReason"].startswith("InternalServerError: drydock ended while the job ran")
        assert spot_job["TrainingJobStatus"] == "Completed"
        assert [transition["Status"] for transition in spot_job["SecondaryStatusTransitions"]].count("Interrupted") == 1
        starts = [line for line in server.read_full_log("spot") if line.startswith("from")]
        assert len(starts) == 2 and int(starts[1].split()[1]) > 0
        assert server.read_archive(spot_job["ModelArtifacts"]["S3ModelArtifacts"]) == {"count": b"100"}
        assert "line" in server.read_full_log("ended")
        with pytest.raises(ClientError, match="already exists"):
            server.create_job("ended", "print('again')")


LOUD = """
import os, time
for number in range(40):
    os.write(1, b"".join(b"%07d %s\\n" % (number * 10_000 + line, b"x" * 90) for line in range(10_000)))
print("the end", end="", flush=True)
open(os.environ["RUNS"], "w").close()
time.sleep(600)
"""


@pytest.mark.soak
def test_killed_server_loses_no_line_of_a_long_log(tmp_path: Path, run_drydock: Any) -> None:
    printed = tmp_path / "printed"
    with run_drydock(tmp_path, *OPTIONS) as server:
        server.create_job("loud", LOUD, Environment={"RUNS": str(printed)})
        server.wait_until("all lines", printed.exists)
        printed_ms = time.time() * 1000
        kill(server, tmp_path)
    with run_drydock(tmp_path, *OPTIONS) as server:
        assert server.wait_for_end("loud")["TrainingJobStatus"] == "Failed"
        server.wait_until("the log", lambda: server.read_log("loud"))
        logs, group = server.client("logs"), "/aws/sagemaker/TrainingJobs"
        (stream,) = logs.describe_log_streams(logGroupName=group, logStreamNamePrefix="loud/")["logStreams"]
        query = {"logGroupName": group, "logStreamName": stream["logStreamName"]}

        def has_end() -> bool:
            return any(event["message"] == "the end" for event in logs.get_log_events(**query, limit=2)["events"])

        server.wait_until("the end of the log", has_end)
        events, token = [], {}
        while page := logs.get_log_events(**query, **token, startFromHead=True):
            if not page["events"]:
                break
            events, token = events + page["events"], {"nextToken": page["nextForwardToken"]}
        assert [event["message"][:7] for event in events] == [
            *(f"{number:07d}" for number in range(400_000)),
            "the end",
        ]
        # The lines were printed before the kill, whenever they were stored.
        assert events[-1]["timestamp"] <= printed_ms + 1


# Waits until the server is gone, then works and ends by itself, as the environment says.
ENDS_LATER = """
import os, pathlib, sys, time
print("begin", flush=True)
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.02)
pathlib.Path(os.environ["SM_MODEL_DIR"], "model").write_text("whole")
print("loss=0.25", flush=True)
sys.exit(int(os.environ.get("CODE", "0")))
"""


def test_job_whose_script_ended_without_a_server_is_completed(tmp_path: Path, run_drydock: Any) -> None:
    go = {"GO": str(tmp_path / "go")}
    with run_drydock(tmp_path, *OPTIONS) as server:
        server.create_job("plain", ENDS_LATER, Environment=go)
        server.create_job("spot", ENDS_LATER, Environment=go, **server.build_spot_fields("spot"))
        server.create_job("breaks", ENDS_LATER, Environment={**go, "CODE": "7"})
        server.create_job("runs", ENDS_LATER, Environment={"GO": str(tmp_path / "never")})
        folders = [server.get_job_folder(name) for name in ("plain", "spot", "breaks")]
        for name in ("plain", "spot", "breaks", "runs"):
            server.wait_for_line(name, "begin")
        kill(server, tmp_path)
        (tmp_path / "go").touch()
        exits = [folder.with_name("algo-1.exit.json") for folder in folders]
        server.wait_until("the ends of the scripts", lambda: all(path.exists() for path in exits))
    with run_drydock(tmp_path, *OPTIONS) as server:
        for name in ("plain", "spot"):
            job = server.wait_for_end(name)
            assert job["TrainingJobStatus"] == "Completed", job
            assert server.read_archive(job["ModelArtifacts"]["S3ModelArtifacts"]) == {"model": b"whole"}
            assert "Interrupted" not in [entry["Status"] for entry in job["SecondaryStatusTransitions"]]
        failed_job, lost_job = server.wait_for_end("breaks"), server.wait_for_end("runs")
        assert "ExitCode 7" in failed_job["FailureReason"]
        assert lost_job["FailureReason"].startswith("InternalServerError: drydock ended while the job ran")


@pytest.mark.soak
def test_waiting_and_stopping_jobs_are_recovered(tmp_path: Path, run_drydock: Any) -> None:
    ignores_sigterm = """
import os, pathlib, signal, time
pathlib.Path(os.environ["SM_MODEL_DIR"], "half").write_text("half")
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("on", flush=True)
time.sleep(600)
"""
    with run_drydock(tmp_path, "--cores", "2", "--stop-grace", "600") as server:
        server.create_job("stopping", ignores_sigterm)
        server.wait_for_line("stopping", "on")
        server.create_job("waiting", "print('line')", Tags=[{"Key": "a", "Value": "1"}])
        arn = server.describe_job("waiting")["TrainingJobArn"]
        server.client("sagemaker").add_tags(ResourceArn=arn, Tags=[{"Key": "b", "Value": "2"}])
        server.stop_job("stopping")
        kill(server, tmp_path)
    with run_drydock(tmp_path, "--cores", "2") as server:
        stopped_job, waited_job = server.wait_for_end("stopping"), server.wait_for_end("waiting")
        assert stopped_job["TrainingJobStatus"] == "Stopped"
        assert server.read_archive(stopped_job["ModelArtifacts"]["S3ModelArtifacts"]) == {"half": b"half"}
        assert waited_job["TrainingJobStatus"] == "Completed" and server.read_full_log("waiting") == ["line", NO_MODEL]
        tags = server.client("sagemaker").list_tags(ResourceArn=arn)["Tags"]
        assert {tag["Key"] for tag in tags} == {"a", "b"}


@pytest.mark.soak
def test_a_checkpoint_that_is_written_in_place_is_never_restored_in_part(tmp_path: Path, run_drydock: Any) -> None:
    names = [f"rewriter-{number}" for number in range(4)]
    keys = [f"checkpoints/{name}/state.json" for name in names]
    with run_drydock(tmp_path, "--cores", "8", *OPTIONS[2:]) as server:
        for name in names:
            server.create_job(name, REWRITER, **server.build_spot_fields(name))
        server.wait_until("all checkpoints", lambda: set(keys) <= set(server.list_keys("checkpoints/")))
        copies = [server.get(f"s3://bucket/{key}") for _ in range(8) for key in keys]
        assert set(copies) == {b'{"exit_code": 0}'}
        for name in names[:2]:  # SIGTERM ends the script at any place
            server.send_command("interrupt", job=name, no_capacity_s=0)
        jobs = [server.wait_for_end(name) for name in names[:2]]
        kill(server, tmp_path)
    with run_drydock(tmp_path, *OPTIONS) as server:
        jobs += [server.wait_for_end(name) for name in names[2:]]
    assert [job.get("FailureReason", job["TrainingJobStatus"]) for job in jobs] == ["Completed"] * 4


NO_MODEL = "No model artifact is saved under path /opt/ml/model."


def test_server_after_a_shutdown_resumes_spot_jobs(tmp_path: Path, run_drydock: Any) -> None:
    with run_drydock(tmp_path, *OPTIONS) as server:
        server.create_job("spot", COUNTER, Environment={"GOAL": "60", "HOLD": "30"}, **server.build_spot_fields("spot"))
        server.create_job("plain", COUNTER, Environment={"GOAL": "1000000"})
        server.wait_for_line("plain", "from")
        server.wait_until(
            "a checkpoint", lambda: server.list_keys("checkpoints/spot/")
        )  # without one, the job would wait at HOLD again
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
    (tmp_path / "port").unlink()
    with run_drydock(tmp_path, *OPTIONS) as server:
        assert server.wait_for_end("spot")["TrainingJobStatus"] == "Completed"
        assert "shut down" in server.describe_job("plain")["FailureReason"]


@pytest.mark.soak
def test_each_of_many_concurrent_jobs_runs_once(tmp_path: Path, run_drydock: Any) -> None:
    runs = tmp_path / "runs"
    names = [f"job-{number:03d}" for number in range(60)]
    with run_drydock(tmp_path, "--cores", "16", "--memory-gib", "1000") as server:
        source = server.upload_source("once", ONCE)
        hyperparameters = {"sagemaker_program": "train.py", "sagemaker_submit_directory": source}
        for name in names:
            request = server.build_request(name, HyperParameters=hyperparameters, Environment={"RUNS": str(runs)})
            server.client("sagemaker").create_training_job(**request)
        jobs = {name: server.wait_for_end(name) for name in names}
        assert {job["TrainingJobStatus"] for job in jobs.values()} == {"Completed"}
        for name in names:
            assert server.read_archive(jobs[name]["ModelArtifacts"]["S3ModelArtifacts"]) == {"name": name.encode()}
    assert sorted(runs.read_text().split()) == names


@pytest.mark.soak
@pytest.mark.parametrize("kills", [2, 6])
def test_after_repeated_kills_every_job_ends_and_every_object_is_complete(
    tmp_path: Path, run_drydock: Any, kills: int
) -> None:
    """`python -m benchmarks drydock` does the same with 20 kills."""
    generator, stored_objects, names = random.Random(13), {}, []
    for _ in range(kills):
        with run_drydock(tmp_path, *OPTIONS) as server:
            deadline, count = time.monotonic() + generator.uniform(0.3, 2.0), len(names)
            while time.monotonic() < deadline or len(names) < count + 2:  # at least two jobs, also on a slow disk
                number = len(names)
                spot = server.build_spot_fields(f"job-{number}") if number % 3 else {}
                try:
                    body = generator.randbytes(generator.choice([10, 100_000]))
                    stored_objects[server.put(f"objects/{number}", body)] = body
                    server.create_job(
                        f"job-{number}", COUNTER, Environment={"GOAL": str(generator.choice([1, 20]))}, **spot
                    )
                    names.append(f"job-{number}")
                except (ClientError, BotoCoreError):
                    break
                time.sleep(0.1)
            kill(server, tmp_path)
    with run_drydock(tmp_path, *OPTIONS) as server:
        jobs = {name: server.wait_for_end(name) for name in names}
        for name, job in jobs.items():
            is_on_demand = int(name.split("-")[1]) % 3 == 0
            allowed_statuses = ("Completed", "Failed") if is_on_demand else ("Completed",)
            assert job["TrainingJobStatus"] in allowed_statuses, (name, job.get("FailureReason"))
            if job["TrainingJobStatus"] == "Completed":
                goal = job["Environment"]["GOAL"].encode()
                assert server.read_archive(job["ModelArtifacts"]["S3ModelArtifacts"]) == {"count": goal}
        assert len(names) > kills
        for uri, body in stored_objects.items():
            assert server.get(uri) == body
        pages = server.client("sagemaker").get_paginator("list_training_jobs").paginate()
        assert {summary["TrainingJobName"] for page in pages for summary in page["TrainingJobSummaries"]} >= set(names)
