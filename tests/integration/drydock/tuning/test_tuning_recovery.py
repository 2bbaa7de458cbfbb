"""Test tuning jobs over interruptions of their trials, and over kills of the server: no trial is lost or run twice."""

import random
import time
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

OPTIONS = ("--cores", "8", "--memory-gib", "100")
OPTIONS += ("--stop-grace", "1", "--checkpoint-interval", "0.2", "--shutdown-grace", "1")
# Counts up to 20 from its checkpoint. The first run of the first trial waits at 10 until it is interrupted.
COUNTER = """
import os, pathlib, time
folder = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"])
checkpoints = sorted(folder.iterdir())
count = int(checkpoints[-1].name) if checkpoints else 0
print("from", count, flush=True)
while count < 20:
    count += 1
    (folder.parent / "new").write_text("x")
    (folder.parent / "new").rename(folder / f"{count:05d}")
    while not checkpoints and count == 10 and "-001-" in os.environ["TRAINING_JOB_NAME"]:
        time.sleep(0.05)
print(f"loss={count};")
"""
# Appends the trial's name to a file when it starts: the name of a trial that ran twice occurs twice.
ONCE = """
import os, sys, time
rate = float(sys.argv[sys.argv.index("--rate") + 1])
with open(os.environ["RUNS"], "a") as runs:
    runs.write(os.environ["TRAINING_JOB_NAME"] + "\\n")
time.sleep(0.3)
print(f"loss={rate};")
"""


def kill(server: Any, folder: Path) -> None:
    """Kill a server by SIGKILL, so that another one can start in its folder."""
    server.process.kill()
    server.process.wait(60)
    (folder / "port").unlink()


def test_interrupted_trial_resumes_from_its_own_checkpoints(tuner: Any) -> None:
    definition = {
        "EnableManagedSpotTraining": True,
        "StoppingCondition": {"MaxRuntimeInSeconds": 600, "MaxWaitTimeInSeconds": 1200},
        "CheckpointConfig": {"S3Uri": "s3://bucket/tuning-checkpoints/"},
    }
    limits = {"MaxNumberOfTrainingJobs": 2, "MaxParallelTrainingJobs": 2}
    tuner.create("spot", COUNTER, definition=definition, limits=limits)
    drydock = tuner.drydock
    name = drydock.wait_until("the first trial", lambda: tuner.list_trials("spot"))[0]["TrainingJobName"]
    drydock.wait_until("a checkpoint", lambda: drydock.list_keys(f"tuning-checkpoints/{name}/"))
    drydock.send_command("interrupt", job=name, no_capacity_s=0.1)
    job = tuner.wait_for_end("spot")
    assert job["TrainingJobStatusCounters"]["Completed"] == 2
    trial = drydock.describe_job(name)
    assert trial["CheckpointConfig"]["S3Uri"] == f"s3://bucket/tuning-checkpoints/{name}"
    assert "Interrupted" in [transition["Status"] for transition in trial["SecondaryStatusTransitions"]]
    starts = [line for line in drydock.read_full_log(name) if line.startswith("from")]
    assert len(starts) == 2 and starts[0] == "from 0" != starts[1]
    other = tuner.list_trials("spot")[1]["TrainingJobName"]
    assert [line for line in drydock.read_full_log(other) if line.startswith("from")] == ["from 0"]
    assert job["TrainingJobDefinition"]["CheckpointConfig"]["S3Uri"] == "s3://bucket/tuning-checkpoints/"


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.soak)])
def test_killed_server_loses_no_trial_and_starts_none_twice(
    tmp_path: Path, run_drydock: Any, make_tuner: Any, kills: int
) -> None:
    runs, generator, finished = tmp_path / "runs", random.Random(20), dict[str, Any]()
    limits = {"MaxNumberOfTrainingJobs": 8, "MaxParallelTrainingJobs": 2}
    for number in range(kills + 1):
        with run_drydock(tmp_path, *OPTIONS) as server:
            tuner = make_tuner(server)
            if number == 0:
                definition = {"Environment": {"RUNS": str(runs)}}
                tuner.create("killed", ONCE, Strategy="Bayesian", limits=limits, definition=definition)
                server.wait_until("a trial", lambda tuner=tuner: tuner.list_trials("killed"))
            trials = {trial["TrainingJobName"]: trial for trial in tuner.list_trials("killed")}
            # What had ended before is there, with its result.
            assert finished.items() <= trials.items()
            if number == kills:
                job = tuner.wait_for_end("killed")
                names = {trial["TrainingJobName"] for trial in tuner.list_trials("killed")}
                break
            time.sleep(generator.uniform(0.2, 1.0))
            trials_now = tuner.list_trials("killed")
            finished |= {
                trial["TrainingJobName"]: trial for trial in trials_now if trial["TrainingJobStatus"] == "Completed"
            }
            kill(server, tmp_path)
    started = runs.read_text().split()
    assert len(names) == 8 and len(set(started)) == len(started) and set(started) <= names
    counters = job["TrainingJobStatusCounters"]
    # A trial that ran on demand when the server was killed has failed, as any training job does.
    assert counters["Completed"] + counters["RetryableError"] == 8 and counters["Completed"] >= 2
    assert job["HyperParameterTuningJobStatus"] == "Completed" and job["BestTrainingJob"]


@pytest.mark.soak
def test_retry_strategy_repeats_trials_that_a_kill_has_ended(tmp_path: Path, run_drydock: Any, make_tuner: Any) -> None:
    script = """
import os, time
print("loss=1;", flush=True)
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.05)
"""
    definition = {"Environment": {"GO": str(tmp_path / "go")}, "RetryStrategy": {"MaximumRetryAttempts": 1}}
    limits = {"MaxNumberOfTrainingJobs": 1, "MaxParallelTrainingJobs": 1}
    with run_drydock(tmp_path, *OPTIONS) as server:
        tuner = make_tuner(server)
        tuner.create("retried", script, limits=limits, definition=definition)
        name = server.wait_until("the trial", lambda: tuner.list_trials("retried"))[0]["TrainingJobName"]
        server.wait_for_line(name, "loss")
        kill(server, tmp_path)
    with run_drydock(tmp_path, *OPTIONS) as server:
        (tmp_path / "go").touch()  # not before: the first trial's process would end by itself
        tuner = make_tuner(server)
        job = tuner.wait_for_end("retried")
        first, second = tuner.list_trials("retried")
        assert first["TrainingJobStatus"] == "Failed" and second["TrainingJobStatus"] == "Completed"
        assert first["TunedHyperParameters"] == second["TunedHyperParameters"]
        assert job["TrainingJobStatusCounters"]["RetryableError"] == 1
        with pytest.raises(ClientError, match="already exists"):
            tuner.create("retried", script)
