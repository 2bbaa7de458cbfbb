"""Test training jobs from their creation to their end, through boto3."""

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.tools.processes import is_alive

FULL = """
import json, os, pathlib, sys, time
env = os.environ
print("args", json.dumps(sys.argv[1:]))
print("env", json.dumps(dict(env)))
print("cwd", os.getcwd())
print("data", json.dumps(sorted(str(p.relative_to(env["SM_CHANNEL_TRAIN"]))
    for p in pathlib.Path(env["SM_CHANNEL_TRAIN"]).rglob("*") if p.is_file())))
print("auc=0.5")
go = pathlib.Path(env["SAGEMAKER_BASE_DIR"], "go")
while not go.exists():
    time.sleep(0.02)
print("auc=0.75;")
pathlib.Path(env["SM_MODEL_DIR"], "model.json").write_text("{}")
pathlib.Path(env["SM_OUTPUT_DATA_DIR"], "report.txt").write_text("fine")
"""


def test_script_mode_job_has_log_metrics_tags_and_model(drydock: Any) -> None:
    drydock.put("full/train/a.csv", b"1")
    drydock.put("full/train/b/c.csv", b"2")
    drydock.put("full/train-not/d.csv", b"3")
    algorithm = {
        "TrainingImage": "image",
        "TrainingInputMode": "File",
        "MetricDefinitions": [{"Name": "auc", "Regex": "auc=([0-9.]+)"}, {"Name": "none", "Regex": "x=(.*)"}],
    }
    arn = drydock.create_job(
        "full",
        FULL,
        InputDataConfig=[drydock.build_channel("train", "s3://bucket/full/train/")],
        AlgorithmSpecification=algorithm,
        HyperParameters={"depth": "3", "name": '"quoted"', "since": "2013-03-01", "e": "0.5"},
        Environment={"CUSTOM": "value"},
        Tags=[{"Key": "team", "Value": "leeway"}],
    )
    assert arn == "arn:aws:sagemaker:us-east-1:123456789012:training-job/full"

    # The log can be read while the job runs. The job waits for a file that is written below.
    assert drydock.wait_for_line("full", "auc") == "auc=0.5"
    running_job = drydock.describe_job("full")
    assert (running_job["TrainingJobStatus"], running_job["SecondaryStatus"]) == ("InProgress", "Training")
    assert "TrainingEndTime" not in running_job and "ModelArtifacts" not in running_job
    assert drydock.get_health()["jobs"]["InProgress"] == 1
    folder = drydock.get_job_folder("full")
    config = json.loads((folder / "input/config/hyperparameters.json").read_text())
    assert config["depth"] == "3" and config["name"] == '"quoted"'
    assert json.loads((folder / "input/config/resourceconfig.json").read_text())["hosts"] == ["algo-1"]
    assert "train" in json.loads((folder / "input/config/inputdataconfig.json").read_text())
    (folder / "go").touch()

    job = drydock.wait_for_end("full")
    assert job["TrainingJobStatus"] == job["SecondaryStatus"] == "Completed"
    phases = [transition["Status"] for transition in job["SecondaryStatusTransitions"]]
    assert phases == ["Starting", "Downloading", "Training", "Uploading", "Completed"]
    assert_contiguous(job)
    assert job["TrainingTimeInSeconds"] == job["BillableTimeInSeconds"] >= 1
    assert job["FinalMetricDataList"][0]["MetricName"] == "auc"
    assert job["FinalMetricDataList"][0]["Value"] == 0.75
    assert len(job["FinalMetricDataList"]) == 1
    assert job["HyperParameters"]["since"] == "2013-03-01" and job["Environment"] == {"CUSTOM": "value"}
    assert job["EnableManagedSpotTraining"] is False
    tags = drydock.client("sagemaker").list_tags(ResourceArn=arn)["Tags"]
    assert tags == [{"Key": "team", "Value": "leeway"}]

    model = job["ModelArtifacts"]["S3ModelArtifacts"]
    assert model == "s3://bucket/output/full/output/model.tar.gz"
    assert drydock.read_archive(model) == {"model.json": b"{}"}
    assert drydock.read_archive("s3://bucket/output/full/output/output.tar.gz") == {"report.txt": b"fine"}
    assert json.loads(drydock.wait_for_line("full", "data")[5:]) == ["a.csv", "b/c.csv"]
    assert_environment(drydock, json.loads(drydock.wait_for_line("full", "env")[4:]))
    assert drydock.wait_for_line("full", "cwd") == f"cwd {drydock.get_base_path('full')}/code"


def assert_contiguous(description: dict[str, Any]) -> None:
    """Assert that each transition begins when the one before it ends."""
    transitions = description["SecondaryStatusTransitions"]
    for transition, next_transition in itertools.pairwise(transitions):
        assert transition["StartTime"] <= transition["EndTime"] == next_transition["StartTime"]
    assert transitions[0]["StartTime"] == description["CreationTime"]
    assert transitions[1]["StartTime"] == description["TrainingStartTime"]
    assert transitions[-1]["EndTime"] == description["TrainingEndTime"] == description["LastModifiedTime"]
    assert len({transition["StatusMessage"] for transition in transitions}) == len(transitions)


def assert_environment(drydock: Any, env: dict[str, str]) -> None:
    """Assert that a job's environment is SageMaker's."""
    assert env["SM_MODEL_DIR"] == f"{drydock.get_base_path('full')}/model"
    assert env["SM_HP_DEPTH"] == "3" and json.loads(env["SM_HPS"])["depth"] == 3
    assert json.loads(env["SM_HOSTS"]) == ["algo-1"] and env["SM_CURRENT_HOST"] == "algo-1"
    assert json.loads(env["SM_CHANNELS"]) == ["train"]
    assert json.loads(env["SM_TRAINING_ENV"])["job_name"] == env["TRAINING_JOB_NAME"] == "full"
    assert env["TRAINING_JOB_ARN"].endswith(":training-job/full")
    assert env["AWS_ENDPOINT_URL"] == drydock.url and env["CUSTOM"] == "value"
    assert env["MLFLOW_TRACKING_URI"] == "http://mlflow.invalid"
    assert "SERVER_SECRET" not in env


def test_arguments_are_the_hyperparameters_sorted_by_name(drydock: Any) -> None:
    drydock.run_job(
        "arguments",
        "import json, sys; print('args', json.dumps(sys.argv[1:]))",
        HyperParameters={"depth": "3", "name": '"quoted"', "since": "2013-03-01", "e": "0.5"},
    )
    arguments = json.loads(drydock.wait_for_line("arguments", "args")[5:])
    assert arguments == ["--depth", "3", "-e", "0.5", "--name", "quoted", "--since", "2013-03-01"]


def test_equal_model_folders_give_equal_archives(drydock: Any) -> None:
    script = "import os, pathlib; pathlib.Path(os.environ['SM_MODEL_DIR'], 'm').write_text('{}')"
    first = drydock.run_job("equal-1", script.format(1))["ModelArtifacts"]["S3ModelArtifacts"]
    second = drydock.run_job("equal-2", script.format(1))["ModelArtifacts"]["S3ModelArtifacts"]
    other = drydock.run_job("equal-3", script.format(2))["ModelArtifacts"]["S3ModelArtifacts"]
    assert drydock.get(first) == drydock.get(second) != drydock.get(other)


def test_failure_reason_has_the_exit_code_and_the_end_of_the_log(drydock: Any) -> None:
    script = """
import os, pathlib
pathlib.Path(os.environ["SM_OUTPUT_DATA_DIR"], "debug.txt").write_text("look")
pathlib.Path(os.environ["SM_MODEL_DIR"], "half.txt").write_text("a failed job has no model")
raise KeyError("x" * 3000 + "the end")
"""
    failed_job = drydock.run_job("crash", script)
    assert failed_job["TrainingJobStatus"] == failed_job["SecondaryStatus"] == "Failed"
    assert failed_job["FailureReason"].startswith("AlgorithmError: ExecuteUserScriptError:\nExitCode 1\n")
    assert "the end" in failed_job["FailureReason"] and len(failed_job["FailureReason"]) <= 1024
    assert "ModelArtifacts" not in failed_job
    assert drydock.list_keys("output/crash/") == ["output/crash/output/output.tar.gz"]


def test_failure_file_overrides_the_log(drydock: Any) -> None:
    script = """
import os, pathlib, sys
pathlib.Path(os.environ["SM_OUTPUT_DIR"], "failure").write_text("no label column")
sys.exit("something else")
"""
    reason = drydock.run_job("failure-file", script)["FailureReason"]
    assert "no label column" in reason and "something else" not in reason
    # The negative control: an exit code of 0 is not a failure, whatever the file says.
    completed_job = drydock.run_job("failure-file-but-0", script.replace('sys.exit("something else")', ""))
    assert completed_job["TrainingJobStatus"] == "Completed" and "FailureReason" not in completed_job


def test_signal_gives_the_exit_code_of_a_container(drydock: Any) -> None:
    reason = drydock.run_job("killed", "import os; os.kill(os.getpid(), 9)")["FailureReason"]
    assert "ExitCode 137" in reason


def test_container_entrypoint_is_run_unchanged(drydock: Any) -> None:
    algorithm = {
        "TrainingImage": "image",
        "TrainingInputMode": "File",
        "ContainerEntrypoint": ["/bin/sh", "-c"],
        "ContainerArguments": ['echo "said $SM_CURRENT_HOST"'],
    }
    assert drydock.run_job("entrypoint", AlgorithmSpecification=algorithm)["TrainingJobStatus"] == "Completed"
    assert drydock.wait_for_line("entrypoint", "said") == "said algo-1"
    algorithm["ContainerEntrypoint"] = ["/no/such/program"]
    failed_job = drydock.run_job("entrypoint-missing", AlgorithmSpecification=algorithm)
    assert "cannot execute '/no/such/program'" in failed_job["FailureReason"]


GROUP = """
import os, signal, subprocess, sys, time
{handler}
child = subprocess.Popen([sys.executable, "-c", "import signal, time\\nsignal.signal(15, signal.SIG_IGN)\\n"
    "print('ready', flush=True)\\ntime.sleep(600)"], stdout=subprocess.PIPE)
child.stdout.readline()
print("pids", os.getpid(), child.pid)
while True:
    time.sleep(0.05)
"""
CLEAN_END = """
def end(*_):
    open(os.environ["SM_MODEL_DIR"] + "/partial.txt", "w").write("saved")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
"""
IGNORED_SIGNAL = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


@pytest.fixture
def server_with_long_grace(tmp_path: Path, run_drydock: Any) -> Iterator[Any]:
    """Start a server with SageMaker's own grace period, in which a job has time to save on any machine."""
    with run_drydock(tmp_path) as server:
        yield server


@pytest.mark.parametrize(
    ("name", "handler", "files", "server"),
    [("stop-clean", CLEAN_END, 1, "server_with_long_grace"), ("stop-ignored", IGNORED_SIGNAL, 0, "drydock")],
)
def test_stop_ends_the_whole_process_group(
    name: str, handler: str, files: int, server: str, request: pytest.FixtureRequest
) -> None:
    drydock = request.getfixturevalue(server)
    drydock.create_job(name, GROUP.format(handler=handler))
    pids = [int(pid) for pid in drydock.wait_for_line(name, "pids").split()[1:]]
    assert all(is_alive(pid) for pid in pids)
    drydock.stop_job(name)
    assert drydock.describe_job(name)["TrainingJobStatus"] in ("Stopping", "Stopped")
    stopped_job = drydock.wait_for_end(name)
    assert stopped_job["TrainingJobStatus"] == stopped_job["SecondaryStatus"] == "Stopped"
    phases = [transition["Status"] for transition in stopped_job["SecondaryStatusTransitions"]]
    assert phases == ["Starting", "Downloading", "Training", "Stopping", "Uploading", "Stopped"]
    assert not any(is_alive(pid) for pid in pids)
    assert len(drydock.list_keys(f"output/{name}/output/model.tar.gz")) == files


def test_background_processes_end_with_the_script(drydock: Any) -> None:
    script = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("pids", child.pid)
"""
    assert drydock.run_job("left-behind", script)["TrainingJobStatus"] == "Completed"
    assert not is_alive(int(drydock.wait_for_line("left-behind", "pids").split()[1]))


def test_max_runtime_stops_the_job(drydock: Any) -> None:
    script = "import time\nprint('on')\ntime.sleep(600)"
    stopped_job = drydock.run_job("too-long", script, StoppingCondition={"MaxRuntimeInSeconds": 1})
    assert stopped_job["TrainingJobStatus"] == "Stopped"
    assert stopped_job["SecondaryStatus"] == "MaxRuntimeExceeded"
    assert "FailureReason" not in stopped_job


def test_missing_channel_fails_the_job_before_its_training(drydock: Any) -> None:
    failed_job = drydock.run_job(
        "no-data", InputDataConfig=[drydock.build_channel("train", "s3://bucket/nothing/here/")]
    )
    assert failed_job["FailureReason"].startswith("ClientError: Data download failed: channel train: No S3 objects")
    assert [transition["Status"] for transition in failed_job["SecondaryStatusTransitions"]] == [
        *("Starting", "Downloading", "Failed"),
    ]
    no_bucket = drydock.run_job(
        "no-data-bucket", InputDataConfig=[drydock.build_channel("train", "s3://no-such-bucket/x")]
    )
    assert "NoSuchBucket" in no_bucket["FailureReason"]


def test_missing_output_bucket_fails_the_job_before_its_training(drydock: Any) -> None:
    failed_job = drydock.run_job("no-output", OutputDataConfig={"S3OutputPath": "s3://no-such-bucket/out"})
    assert failed_job["TrainingJobStatus"] == "Failed" and "NoSuchBucket" in failed_job["FailureReason"]
    assert "Training" not in [transition["Status"] for transition in failed_job["SecondaryStatusTransitions"]]


def test_bundle_with_paths_outside_its_folder_is_refused(drydock: Any) -> None:
    uri = drydock.put("evil.tar.gz", drydock.pack_archive({"train.py": "", "../../../escaped.txt": "out"}))
    failed_job = drydock.run_job("evil", HyperParameters={"sagemaker_submit_directory": uri})
    assert failed_job["FailureReason"].startswith("ClientError: Data download failed: sagemaker_submit_directory")
    assert re.search("OutsideDestinationError|leads out of the folder", failed_job["FailureReason"])
    assert not list(drydock.data.parent.rglob("escaped.txt"))


@pytest.mark.parametrize("program", ["missing.py", "../../../../../../../../bin/true"])
def test_program_outside_the_bundle_is_refused(drydock: Any, program: str) -> None:
    name = f"program-{len(program)}"
    failed_job = drydock.run_job(name, HyperParameters={"sagemaker_program": program})
    assert "in sagemaker_submit_directory" in failed_job["FailureReason"]


def test_checkpoints_are_uploaded_while_the_job_runs_and_restored(drydock: Any) -> None:
    config = {"S3Uri": "s3://bucket/checkpoints/resumed"}
    drydock.put("checkpoints/resumed-other/x", b"not of this job")
    script = """
import os, pathlib, time
folder = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"])
print("restored", sorted(p.name for p in folder.iterdir()))
(folder / "1").write_text("one")
(folder / "2").write_text("two")
while not pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"], "go").exists():
    time.sleep(0.02)
(folder / "1").unlink()
(folder / "3").write_text("three")
"""
    drydock.create_job("checkpoint-1", script, CheckpointConfig=config)
    drydock.wait_until(
        "the first checkpoints in S3",
        lambda: drydock.list_keys("checkpoints/resumed/") == ["checkpoints/resumed/1", "checkpoints/resumed/2"],
    )
    (drydock.get_job_folder("checkpoint-1") / "go").touch()
    assert drydock.wait_for_end("checkpoint-1")["TrainingJobStatus"] == "Completed"
    assert drydock.wait_for_line("checkpoint-1", "restored") == "restored []"
    assert drydock.list_keys("checkpoints/resumed/") == ["checkpoints/resumed/2", "checkpoints/resumed/3"]

    config["LocalPath"] = "/opt/ml/checkpoints"
    drydock.run_job("checkpoint-2", script.replace("while not", "while False and not"), CheckpointConfig=config)
    assert drydock.wait_for_line("checkpoint-2", "restored") == "restored ['2', '3']"


def test_name_of_a_job_can_be_used_only_once(drydock: Any) -> None:
    drydock.run_job("unique")
    with pytest.raises(ClientError, match="Training job names must be unique") as error:
        drydock.create_job("unique")
    assert error.value.response["Error"]["Code"] == "ResourceInUse"
    # The negative control: the same name in another region is another job.
    request = drydock.build_request("unique")
    drydock.client("sagemaker", "eu-west-1").create_training_job(**request)


def test_ended_job_cannot_be_stopped(drydock: Any) -> None:
    drydock.run_job("ended")
    with pytest.raises(ClientError, match="the training job is in status Completed") as error:
        drydock.stop_job("ended")
    assert error.value.response["Error"]["Code"] == "ValidationException"


def test_log_events_are_found_by_the_prefix_of_their_stream(drydock: Any) -> None:
    drydock.run_job("prefix-one", "print('word one')")
    drydock.run_job("prefix-two", "print('word two')")
    logs = drydock.client("logs")

    def find(prefix: str) -> list[str]:
        query = {"logStreamNamePrefix": prefix, "filterPattern": "word"}
        response = logs.filter_log_events(logGroupName="/aws/sagemaker/TrainingJobs", **query)
        return sorted(event["message"] for event in response["events"])

    assert find("prefix-") == ["word one", "word two"]
    assert find("prefix-one/") == ["word one"] and find("prefix-none") == []


@pytest.mark.parametrize(
    ("operation", "code"),
    [("describe_training_job", "ValidationException"), ("stop_training_job", "ResourceNotFound")],
)
def test_unknown_job_is_refused(drydock: Any, operation: str, code: str) -> None:
    with pytest.raises(ClientError, match="Requested resource not found") as error:
        getattr(drydock.client("sagemaker"), operation)(TrainingJobName="unknown")
    assert error.value.response["Error"]["Code"] == code
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_other_operations_of_moto_work(drydock: Any) -> None:
    assert drydock.client("sts").get_caller_identity()["Account"] == "123456789012"
    sagemaker = drydock.client("sagemaker")
    role = "arn:aws:iam::123456789012:role/drydock"
    sagemaker.create_model(ModelName="m", ExecutionRoleArn=role, PrimaryContainer={"Image": "image"})
    assert sagemaker.describe_model(ModelName="m")["ModelName"] == "m"


def test_large_object_is_unchanged(drydock: Any) -> None:
    data = bytes(range(256)) * 4096 * 12  # 12 MiB, above the threshold for multipart transfers
    drydock.put("large/blob", data)
    script = "import os, shutil; shutil.copy(os.environ['SM_CHANNEL_BIG'] + '/blob', os.environ['SM_MODEL_DIR'])"
    job = drydock.run_job("large", script, InputDataConfig=[drydock.build_channel("big", "s3://bucket/large")])
    assert drydock.read_archive(job["ModelArtifacts"]["S3ModelArtifacts"]) == {"blob": data}
