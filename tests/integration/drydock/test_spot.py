"""Managed spot: interruptions, capacity, limits; the checkpoints and the seconds that go with them."""

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

# Counts in its checkpoint folder, a number each 50 ms, and ends at GOAL; on SIGTERM it leaves.
# Where it began at 0 it waits at HOLD for an interruption: however late that comes, it comes in time.
COUNTER = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
found = sorted(folder.glob("*.txt"))
began = count = int(found[-1].stem) if found else 0
print("from", count, flush=True)
while count < int(os.environ["GOAL"]):
    count += 1
    (folder.parent / "new").write_text("x")
    (folder.parent / "new").rename(folder / f"{count:05d}.txt")
    for old in sorted(folder.glob("*.txt"))[:-3]:
        old.unlink()
    time.sleep(0.05)
    while began == 0 and count == int(os.environ.get("HOLD", "0")):
        time.sleep(0.05)
pathlib.Path(os.environ["SM_MODEL_DIR"], "count").write_text(str(count))
"""
FOREVER = "1000000"
ENDED = ("Completed", "Failed", "Stopped")


def phases(description: dict[str, Any]) -> list[str]:
    return [line["Status"] for line in description["SecondaryStatusTransitions"]]


def test_an_interrupted_job_resumes_from_its_checkpoints(drydock: Any) -> None:
    drydock.create_job(
        "goes-on", COUNTER, Environment={"GOAL": "60", "HOLD": "30"}, **drydock.build_spot_fields("goes-on")
    )
    drydock.wait_for_line("goes-on", "from 0")
    drydock.wait_until("a checkpoint", lambda: drydock.list_keys("checkpoints/goes-on/"))
    asked = dt.datetime.now(dt.UTC)
    answer = drydock.send_command("interrupt", job="goes-on", capacity_back_after_s=0.5)
    assert answer["job"] == "goes-on"
    done = drydock.wait_for_end("goes-on")

    assert done["TrainingJobStatus"] == "Completed"
    again = ["Starting", "Downloading", "Training"]
    assert phases(done) == [*again, "Interrupted", *again, "Uploading", "Completed"]
    lines = {line["Status"]: line for line in done["SecondaryStatusTransitions"]}
    assert "spot instances were interrupted" in lines["Interrupted"]["StatusMessage"]
    assert drydock.read_archive(done["ModelArtifacts"]["S3ModelArtifacts"]) == {"count": b"60"}
    starts = [line for line in drydock.read_full_log("goes-on") if line.startswith("from")]
    assert len(starts) == 2 and starts[0] == "from 0" and int(starts[1].split()[1]) > 0
    assert done["BillableTimeInSeconds"] < done["TrainingTimeInSeconds"]
    waited = lines["Interrupted"]["EndTime"] - lines["Interrupted"]["StartTime"]
    whole = done["TrainingEndTime"] - done["TrainingStartTime"]
    assert waited.total_seconds() > 0
    assert lines["Starting"]["StartTime"] >= asked + dt.timedelta(seconds=0.49)  # the second one; told in ms
    assert done["TrainingTimeInSeconds"] <= (whole - waited).total_seconds() + 1


def test_without_notice_nothing_more_is_uploaded(drydock: Any) -> None:
    script = """
import os, pathlib, signal, time
signal.signal(signal.SIGTERM, lambda *_: print("noticed", flush=True))
print("runs", sorted(p.name for p in pathlib.Path(os.environ["SM_CHECKPOINT_DIR"]).iterdir()), flush=True)
pathlib.Path(os.environ["SM_CHECKPOINT_DIR"], "one").write_text("1")
time.sleep(600)
"""
    drydock.create_job("sudden", script, **drydock.build_spot_fields("sudden"))
    drydock.wait_until("the checkpoint", lambda: drydock.list_keys("checkpoints/sudden/"))
    drydock.send_command("interrupt", job="sudden", notice_s=0, capacity_back_after_s=0)
    drydock.wait_until(
        "the second run", lambda: [x for x in drydock.read_full_log("sudden") if x.startswith("runs ['one']")]
    )
    assert "noticed" not in drydock.read_full_log("sudden")
    drydock.stop_job("sudden")
    assert drydock.wait_for_end("sudden")["TrainingJobStatus"] == "Stopped"


def test_after_s_counts_the_seconds_of_a_run_that_has_not_begun(drydock: Any) -> None:
    drydock.send_command("capacity", instance_type="ml.c5.*", available=False)
    resources = {"InstanceType": "ml.c5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
    drydock.create_job(
        "later", COUNTER, Environment={"GOAL": FOREVER}, ResourceConfig=resources, **drydock.build_spot_fields("later")
    )
    drydock.wait_until(
        "the wait for capacity",
        lambda: "capacity" in drydock.describe_job("later")["SecondaryStatusTransitions"][-1]["StatusMessage"],
    )
    waiting = drydock.describe_job("later")
    assert waiting["SecondaryStatus"] == "Starting" and "TrainingStartTime" not in waiting
    drydock.send_command("interrupt", job="later", after_s=0.3, capacity_back_after_s=600)
    drydock.send_command("capacity", instance_type="ml.c5.*", available=True)
    drydock.wait_until("the interruption", lambda: drydock.describe_job("later")["SecondaryStatus"] == "Interrupted")
    drydock.stop_job("later")
    stopped = drydock.describe_job("later")
    assert stopped["TrainingJobStatus"] == "Stopped" and stopped["TrainingTimeInSeconds"] >= 1


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"job": "unknown"}, 404, "no job of that name"),
        ({"job": "on-demand"}, 409, "job on-demand is not a spot job"),
        ({}, 400, "job must be a string"),
        ({"job": "on-demand", "after_s": -1}, 409, "job on-demand is not a spot job"),
        ({"job": 7}, 400, "job must be a string"),
    ],
)
def test_refuses_to_interrupt_all_but_running_spot_jobs(
    drydock: Any, body: dict[str, Any], status: int, said: str
) -> None:
    with contextlib.suppress(ClientError):  # there already, from the case before
        drydock.create_job("on-demand", "import time; time.sleep(600)")
    assert drydock.send_refused_command("interrupt", **body) == (status, said)


def test_max_wait_ends_a_job_that_never_got_capacity(drydock: Any) -> None:
    drydock.send_command("capacity", instance_type="ml.r5.*", available=False)
    limits = {"StoppingCondition": {"MaxRuntimeInSeconds": 1, "MaxWaitTimeInSeconds": 1}}
    resources = {"InstanceType": "ml.r5.large", "InstanceCount": 1, "VolumeSizeInGB": 1}
    done = drydock.run_job("never", COUNTER, ResourceConfig=resources, **drydock.build_spot_fields("never", **limits))
    assert (done["TrainingJobStatus"], done["SecondaryStatus"]) == ("Stopped", "MaxWaitTimeExceeded")
    assert not {"TrainingStartTime", "TrainingTimeInSeconds", "FailureReason"} & done.keys()
    # On demand there is capacity.
    assert drydock.run_job("on-demand-r5", "print(1)", ResourceConfig=resources)["TrainingJobStatus"] == "Completed"


def interrupted_in_time(drydock: Any, name: str, back_after_s: float, **limits: int) -> dict[str, Any] | None:
    """The end of a job that was interrupted while it ran; None where it had come to its limits before."""
    condition = {"StoppingCondition": limits}
    drydock.create_job(name, COUNTER, Environment={"GOAL": FOREVER}, **drydock.build_spot_fields(name, **condition))
    with contextlib.suppress(urllib.error.HTTPError):
        drydock.wait_until(
            "its run, or its end",
            lambda: drydock.read_log(name) or drydock.describe_job(name)["TrainingJobStatus"] in ENDED,
        )
        drydock.send_command("interrupt", job=name, capacity_back_after_s=back_after_s)
    done = dict(drydock.wait_for_end(name))
    return done if "Interrupted" in phases(done) else None


def seconds(description: dict[str, Any], status: str) -> float:
    """How long the job was in a secondary status."""
    lines = [line for line in description["SecondaryStatusTransitions"] if line["Status"] == status]
    return float(sum((line["EndTime"] - line["StartTime"]).total_seconds() for line in lines))


LIMITS_S = (3, 9, 27)
"""Tried in turn: on a slow machine a job may come to a short limit before anybody has interrupted it."""


def test_max_runtime_does_not_count_the_waiting(drydock: Any) -> None:
    for limit_s in LIMITS_S:
        limits = {"MaxRuntimeInSeconds": limit_s, "MaxWaitTimeInSeconds": 600}
        if done := interrupted_in_time(drydock, f"runtime-{limit_s}", limit_s, **limits):
            break
    assert done, "interrupted in time"
    assert (done["TrainingJobStatus"], done["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded")
    waited_s, whole = seconds(done, "Interrupted"), done["TrainingEndTime"] - done["TrainingStartTime"]
    assert limit_s <= done["TrainingTimeInSeconds"] <= whole.total_seconds() - waited_s + 1


def test_max_wait_counts_the_waiting(drydock: Any) -> None:
    for limit_s in LIMITS_S:
        limits = {"MaxRuntimeInSeconds": limit_s, "MaxWaitTimeInSeconds": limit_s}
        if done := interrupted_in_time(drydock, f"wait-{limit_s}", 600, **limits):
            break
    assert done, "interrupted in time"
    assert (done["TrainingJobStatus"], done["SecondaryStatus"]) == ("Stopped", "MaxWaitTimeExceeded")
    assert phases(done)[-2] == "Interrupted"


UNTIL_GO = """
import os, pathlib, time
while not pathlib.Path(os.environ["GO"]).exists():
    time.sleep(0.02)
"""


def test_a_schedule_and_a_seed_interrupt_by_themselves(tmp_path: Path, run_drydock: Any) -> None:
    config = tmp_path / "drydock.toml"
    config.write_text("""
cores = 8
checkpoint_interval = 0.2

[spot]
seed = 13
billable_fraction = 0.5
capacity_back_after_s = 0.1

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
            "both interruptions", lambda: phases(server.describe_job("twice-1")).count("Interrupted") == 2
        )
        server.wait_until("the run of the other", lambda: server.describe_job("other")["SecondaryStatus"] == "Training")
        (tmp_path / "go").touch()
        twice, other = server.wait_for_end("twice-1"), server.wait_for_end("other")
    assert phases(twice).count("Interrupted") == 2 and phases(other).count("Interrupted") == 0
    assert twice["TrainingJobStatus"] == other["TrainingJobStatus"] == "Completed"
    assert twice["BillableTimeInSeconds"] == -(-twice["TrainingTimeInSeconds"] // 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 1", "no option is called prot"),
        ("port = ", "cannot read"),
        ("[spot]\nseeed = 1", "[spot] is wrong"),
        ("[spot]\ninterruption_probability = 2", "interruption_probability must be in [0, 1)"),
        ("[[spot.interrupt]]\njob = 'x'", "[spot] is wrong"),
    ],
)
def test_refuses_an_invalid_configuration(tmp_path: Path, text: str, said: str) -> None:
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
    answer = subprocess.run(command, cwd=tmp_path, env=repository_env(), capture_output=True, text=True, check=False)
    assert answer.returncode in (2, 75)
    assert said in " ".join(answer.stderr.replace("│", " ").split()) and "Traceback" not in answer.stderr


def repository_env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "COLUMNS": "200"}


def test_orders_are_commands_too(drydock: Any) -> None:
    def lever(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "drydock", *arguments, "--url", drydock.url]
        return subprocess.run(command, env=repository_env(), capture_output=True, text=True, check=False)

    drydock.create_job("by-command", COUNTER, Environment={"GOAL": FOREVER}, **drydock.build_spot_fields("by-command"))
    drydock.wait_for_line("by-command", "from")
    answer = lever("interrupt", "by-command", "--back-after", "600")
    assert answer.returncode == 0 and json.loads(answer.stdout)["capacity_back_after_s"] == 600
    drydock.wait_until(
        "the interruption", lambda: drydock.describe_job("by-command")["SecondaryStatus"] == "Interrupted"
    )
    drydock.stop_job("by-command")
    answer = lever("interrupt", "by-command")
    assert answer.returncode == 2 and answer.stderr == "drydock: job by-command has ended as Stopped\n"
    assert json.loads(lever("capacity", "ml.g5.*", "--gone", "--for", "0.1").stdout)["available"] is False
    assert lever("outage", "s3", "--for", "0").returncode == 0


@pytest.mark.parametrize(
    ("service", "operation", "code", "status"),
    [
        ("sagemaker", "ListTrainingJobs", "ThrottlingException", 400),
        ("s3", "", "SlowDown", 503),
    ],
)
def test_an_outage_ends(drydock: Any, service: str, operation: str, code: str, status: int) -> None:
    client = drydock.client(service)
    call = client.list_training_jobs if operation else client.list_buckets

    def refusal() -> str:
        try:
            call()
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return ""

    for for_s in (0.5, 2.0, 8.0):  # a short one may be over before the first call
        began = time.monotonic()
        drydock.send_command("outage", service=service, operation=operation, code=code, status=status, for_s=for_s)
        if refused := refusal():
            break
    assert refused == code
    drydock.client("logs").describe_log_groups()  # no other service is hit

    drydock.wait_until("the outage's end", lambda: not refusal())
    assert time.monotonic() - began >= for_s


def test_a_job_survives_an_outage_of_s3(drydock: Any) -> None:
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
    done = drydock.wait_for_end("outage")
    assert done["TrainingJobStatus"] == "Completed"
    assert drydock.read_archive(done["ModelArtifacts"]["S3ModelArtifacts"]) == {"m": b"1"}
