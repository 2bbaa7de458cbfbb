"""Test managed spot training: interruptions, capacity, limits, checkpoints and billed seconds."""

import contextlib
import datetime as dt
import json
import os
import subprocess
import sys
import time
import urllib.error
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.tools import forking

# Writes a numbered checkpoint each 50 ms, and ends at GOAL or on SIGTERM. A run that started at 0 waits at HOLD for an
# interruption, which can come late on a loaded machine.
COUNTER = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
checkpoints = sorted(folder.glob("*.txt"))
first = count = int(checkpoints[-1].stem) if checkpoints else 0
print("from", count, flush=True)
while count < int(os.environ["GOAL"]):
    count += 1
    (folder.parent / "new").write_text("x")
    (folder.parent / "new").rename(folder / f"{count:05d}.txt")
    for old in sorted(folder.glob("*.txt"))[:-3]:
        old.unlink()
    time.sleep(0.05)
    while first == 0 and count == int(os.environ.get("HOLD", "0")):
        time.sleep(0.05)
pathlib.Path(os.environ["SM_MODEL_DIR"], "count").write_text(str(count))
"""
FOREVER = "1000000"
END_STATUSES = ("Completed", "Failed", "Stopped")


def list_phases(description: dict[str, Any]) -> list[str]:
    """List the secondary statuses of a job."""
    return [transition["Status"] for transition in description["SecondaryStatusTransitions"]]


def test_interrupted_job_resumes_from_its_checkpoints(drydock: Any) -> None:
    drydock.create_job(
        "resumes", COUNTER, Environment={"GOAL": "60", "HOLD": "30"}, **drydock.build_spot_fields("resumes")
    )
    drydock.wait_for_line("resumes", "from 0")
    drydock.wait_until("a checkpoint", lambda: drydock.list_keys("checkpoints/resumes/"))
    interrupted_at = dt.datetime.now(dt.UTC)
    response = drydock.send_command("interrupt", job="resumes", no_capacity_s=0.5)
    assert response["job"] == "resumes"
    job = drydock.wait_for_end("resumes")

    assert job["TrainingJobStatus"] == "Completed"
    run = ["Starting", "Downloading", "Training"]
    assert list_phases(job) == [*run, "Interrupted", *run, "Uploading", "Completed"]
    transitions = {item["Status"]: item for item in job["SecondaryStatusTransitions"]}
    assert "spot instances were interrupted" in transitions["Interrupted"]["StatusMessage"]
    assert drydock.read_archive(job["ModelArtifacts"]["S3ModelArtifacts"]) == {"count": b"60"}
    starts = [line for line in drydock.read_full_log("resumes") if line.startswith("from")]
    assert len(starts) == 2 and starts[0] == "from 0" and int(starts[1].split()[1]) > 0
    assert job["BillableTimeInSeconds"] < job["TrainingTimeInSeconds"]
    waiting_time = transitions["Interrupted"]["EndTime"] - transitions["Interrupted"]["StartTime"]
    total = job["TrainingEndTime"] - job["TrainingStartTime"]
    assert waiting_time.total_seconds() > 0
    assert transitions["Starting"]["StartTime"] >= interrupted_at + dt.timedelta(
        seconds=0.49
    )  # the second Starting; times are in ms
    assert job["TrainingTimeInSeconds"] <= (total - waiting_time).total_seconds() + 1


def test_job_interrupted_without_notice_uploads_nothing_more(drydock: Any) -> None:
    script = """
import os, pathlib, signal, time
signal.signal(signal.SIGTERM, lambda *_: print("noticed", flush=True))
print("runs", sorted(p.name for p in pathlib.Path(os.environ["SM_CHECKPOINT_DIR"]).iterdir()), flush=True)
pathlib.Path(os.environ["SM_CHECKPOINT_DIR"], "one").write_text("1")
time.sleep(600)
"""
    drydock.create_job("sudden", script, **drydock.build_spot_fields("sudden"))
    drydock.wait_until("the checkpoint", lambda: drydock.list_keys("checkpoints/sudden/"))
    drydock.send_command("interrupt", job="sudden", notice_s=0, no_capacity_s=0)
    drydock.wait_until(
        "the second run", lambda: [line for line in drydock.read_full_log("sudden") if line.startswith("runs ['one']")]
    )
    assert "noticed" not in drydock.read_full_log("sudden")
    drydock.stop_job("sudden")
    assert drydock.wait_for_end("sudden")["TrainingJobStatus"] == "Stopped"


def test_after_s_counts_from_the_start_of_the_next_run(drydock: Any) -> None:
    drydock.send_command("capacity", instance_type="ml.c5.*", available=False)
    resources = {"InstanceType": "ml.c5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
    drydock.create_job(
        "later", COUNTER, Environment={"GOAL": FOREVER}, ResourceConfig=resources, **drydock.build_spot_fields("later")
    )
    drydock.wait_until(
        "the wait for capacity",
        lambda: "capacity" in drydock.describe_job("later")["SecondaryStatusTransitions"][-1]["StatusMessage"],
    )
    waiting_job = drydock.describe_job("later")
    assert waiting_job["SecondaryStatus"] == "Starting" and "TrainingStartTime" not in waiting_job
    drydock.send_command("interrupt", job="later", after_s=0.3, no_capacity_s=600)
    drydock.send_command("capacity", instance_type="ml.c5.*", available=True)
    drydock.wait_until("the interruption", lambda: drydock.describe_job("later")["SecondaryStatus"] == "Interrupted")
    drydock.stop_job("later")
    stopped_job = drydock.describe_job("later")
    assert stopped_job["TrainingJobStatus"] == "Stopped" and stopped_job["TrainingTimeInSeconds"] >= 1


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"job": "unknown"}, 404, "no job of that name"),
        ({"job": "on-demand"}, 409, "job on-demand is not a spot job"),
        ({}, 400, "job must be a string"),
        ({"job": "on-demand", "after_s": -1}, 409, "job on-demand is not a spot job"),
        ({"job": 7}, 400, "job must be a string"),
    ],
)
def test_only_running_spot_jobs_can_be_interrupted(
    drydock: Any, body: dict[str, Any], status: int, message: str
) -> None:
    with contextlib.suppress(ClientError):  # the previous case has created it already
        drydock.create_job("on-demand", "import time; time.sleep(600)")
    assert drydock.send_refused_command("interrupt", **body) == (status, message)


def test_max_wait_ends_a_job_that_gets_no_capacity(drydock: Any) -> None:
    drydock.send_command("capacity", instance_type="ml.r5.*", available=False)
    limits = {"StoppingCondition": {"MaxRuntimeInSeconds": 1, "MaxWaitTimeInSeconds": 1}}
    resources = {"InstanceType": "ml.r5.large", "InstanceCount": 1, "VolumeSizeInGB": 1}
    job = drydock.run_job("never", COUNTER, ResourceConfig=resources, **drydock.build_spot_fields("never", **limits))
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxWaitTimeExceeded")
    assert not {"TrainingStartTime", "TrainingTimeInSeconds", "FailureReason"} & job.keys()
    # A job on demand gets capacity.
    assert drydock.run_job("on-demand-r5", "print(1)", ResourceConfig=resources)["TrainingJobStatus"] == "Completed"


def run_interrupted_job(drydock: Any, name: str, no_capacity_s: float, **limits: int) -> dict[str, Any] | None:
    """Return the description of a job that was interrupted while it ran, or None where it reached a limit before."""
    condition = {"StoppingCondition": limits}
    drydock.create_job(name, COUNTER, Environment={"GOAL": FOREVER}, **drydock.build_spot_fields(name, **condition))
    with contextlib.suppress(urllib.error.HTTPError):
        drydock.wait_until(
            "its run, or its end",
            lambda: drydock.read_log(name) or drydock.describe_job(name)["TrainingJobStatus"] in END_STATUSES,
        )
        drydock.send_command("interrupt", job=name, no_capacity_s=no_capacity_s)
    job = dict(drydock.wait_for_end(name))
    return job if "Interrupted" in list_phases(job) else None


def sum_seconds(description: dict[str, Any], status: str) -> float:
    """Return how long the job was in a secondary status, in seconds."""
    transitions = [item for item in description["SecondaryStatusTransitions"] if item["Status"] == status]
    return float(sum((item["EndTime"] - item["StartTime"]).total_seconds() for item in transitions))


LIMITS_S = (3, 9, 27)
"""Limits to try in turn: on a slow machine a job may reach a short limit before the test interrupts it."""


@pytest.mark.soak
def test_max_runtime_excludes_the_wait_for_capacity(drydock: Any) -> None:
    for limit_s in LIMITS_S:
        limits = {"MaxRuntimeInSeconds": limit_s, "MaxWaitTimeInSeconds": 600}
        if job := run_interrupted_job(drydock, f"runtime-{limit_s}", limit_s, **limits):
            break
    assert job, "no job was interrupted in time"
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded")
    waited_s, total = sum_seconds(job, "Interrupted"), job["TrainingEndTime"] - job["TrainingStartTime"]
    assert limit_s <= job["TrainingTimeInSeconds"] <= total.total_seconds() - waited_s + 1


@pytest.mark.soak
def test_max_wait_includes_the_wait_for_capacity(drydock: Any) -> None:
    for limit_s in LIMITS_S:
        limits = {"MaxRuntimeInSeconds": limit_s, "MaxWaitTimeInSeconds": limit_s}
        if job := run_interrupted_job(drydock, f"wait-{limit_s}", 600, **limits):
            break
    assert job, "no job was interrupted in time"
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxWaitTimeExceeded")
    assert list_phases(job)[-2] == "Interrupted"


UNTIL_GO = """
import os, pathlib, time
while not pathlib.Path(os.environ["GO"]).exists():
    time.sleep(0.02)
"""


def test_configuration_interrupts_jobs_by_a_schedule(tmp_path: Path, run_drydock: Any) -> None:
    config = tmp_path / "drydock.toml"
    config.write_text("""
cores = 8
checkpoint_interval = 0.2

[spot]
seed = 13
billable_fraction = 0.5
no_capacity_s = 0.1

[[spot.interrupt]]
job = "twice-*"
after_s = [0.4, 0.4]
""")
    with run_drydock(tmp_path, "--config", str(config)) as server:
        for name in ("twice-1", "other"):
            server.create_job(
                name, UNTIL_GO, Environment={"GO": str(tmp_path / "go")}, **server.build_spot_fields(name)
            )
        server.wait_until(
            "both interruptions", lambda: list_phases(server.describe_job("twice-1")).count("Interrupted") == 2
        )
        server.wait_until(
            "the run of the other job", lambda: server.describe_job("other")["SecondaryStatus"] == "Training"
        )
        (tmp_path / "go").touch()
        twice, other = server.wait_for_end("twice-1"), server.wait_for_end("other")
    assert list_phases(twice).count("Interrupted") == 2 and list_phases(other).count("Interrupted") == 0
    assert twice["TrainingJobStatus"] == other["TrainingJobStatus"] == "Completed"
    assert twice["BillableTimeInSeconds"] == -(-twice["TrainingTimeInSeconds"] // 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "no option is called prot"),
        ("port = ", "cannot read"),
        ("[spot]\nseeed = 1", "no key is called seeed; the keys are seed,"),
        ("[spot]\nseed = true", "seed must be a whole number, not True"),
        ("[spot]\ninterruption_probability = 2", "interruption_probability must be in [0, 1)"),
        ("[[spot.interrupt]]\njob = 'x'", "must have job (a pattern of job names) and after_s"),
        ("s3 = 'notaurl'", "--s3 must have the form http://HOST:PORT"),
        ("cores = true", "cores must be a string or a finite number"),
        ("memory_gib = nan", "memory_gib must be a string or a finite number"),
    ],
)
def test_invalid_configuration_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "drydock.toml").write_text(text)
    command = [
        sys.executable,
        "-m",
        "drydock",
        "--port",
        "0",
        "--config",
        "drydock.toml",
        "--data",
        str(tmp_path / "d"),
    ]
    result = forking.run(command, cwd=tmp_path, env=build_env(), capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert message in " ".join(result.stderr.replace("│", " ").split()) and "Traceback" not in result.stderr


def build_env() -> dict[str, str]:
    """Return an environment in which the repository's drydock can be imported."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "COLUMNS": "200"}


def test_commands_of_the_api_are_commands_of_the_program(drydock: Any) -> None:
    def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "drydock", *arguments, "--url", drydock.url]
        return forking.run(command, env=build_env(), capture_output=True, text=True, check=False)

    drydock.create_job("by-command", COUNTER, Environment={"GOAL": FOREVER}, **drydock.build_spot_fields("by-command"))
    drydock.wait_for_line("by-command", "from")
    result = run_command("interrupt", "by-command", "--no-capacity", "600")
    assert result.returncode == 0 and json.loads(result.stdout)["no_capacity_s"] == 600
    drydock.wait_until(
        "the interruption", lambda: drydock.describe_job("by-command")["SecondaryStatus"] == "Interrupted"
    )
    drydock.stop_job("by-command")
    result = run_command("interrupt", "by-command")
    assert result.returncode == 2 and result.stderr == "drydock: job by-command has ended as Stopped\n"
    assert json.loads(run_command("capacity", "ml.g5.*", "--unavailable", "--for", "0.1").stdout)["available"] is False
    assert run_command("outage", "s3", "--for", "0").returncode == 0


@pytest.mark.parametrize(
    ("service", "operation", "code", "status"),
    [
        ("sagemaker", "ListTrainingJobs", "ThrottlingException", 400),
        ("s3", "", "SlowDown", 503),
    ],
)
def test_outage_ends(drydock: Any, service: str, operation: str, code: str, status: int) -> None:
    client = drydock.client(service)
    call = client.list_training_jobs if operation else client.list_buckets

    def find_error() -> str:
        try:
            call()
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return ""

    for for_s in (0.5, 2.0, 8.0):  # a short one may be over before the first call
        start = time.monotonic()
        drydock.send_command("outage", service=service, operation=operation, code=code, status=status, for_s=for_s)
        if error_code := find_error():
            break
    assert error_code == code
    drydock.client("logs").describe_log_groups()  # no other service is affected

    drydock.wait_until("the outage's end", lambda: not find_error())
    assert time.monotonic() - start >= for_s


def test_job_survives_an_outage_of_s3(drydock: Any) -> None:
    script = """
import pathlib, os, time
print("on", flush=True)
while not pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"], "go").exists():
    time.sleep(0.02)
pathlib.Path(os.environ["SM_MODEL_DIR"], "m").write_text("1")
"""
    drydock.put("outage/train/a.csv", b"1")
    request = drydock.build_request(
        "outage", script, InputDataConfig=[drydock.build_channel("train", "s3://bucket/outage/train/")]
    )
    drydock.send_command("outage", service="s3", for_s=2)
    drydock.client("sagemaker").create_training_job(**request)
    drydock.wait_for_line("outage", "on")
    drydock.send_command("outage", service="s3", for_s=4)
    (drydock.get_job_folder("outage") / "go").touch()
    job = drydock.wait_for_end("outage")
    assert job["TrainingJobStatus"] == "Completed"
    assert drydock.read_archive(job["ModelArtifacts"]["S3ModelArtifacts"]) == {"m": b"1"}
