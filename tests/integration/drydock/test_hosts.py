"""Test jobs of several instances: their hosts reach each other, share channels and fail together."""

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

# Each host sends its name to the host algo-1 through a socket. algo-1 prints the names.
CONNECT = """
import json, os, pathlib, socket, sys, time
hosts, own = json.loads(os.environ["SM_HOSTS"]), os.environ["SM_CURRENT_HOST"]
config = json.loads(pathlib.Path(os.environ["SM_INPUT_CONFIG_DIR"], "resourceconfig.json").read_text())
assert config["hosts"] == hosts and config["current_host"] == own
if own == "algo-1":
    server = socket.create_server(("algo-1", 7777))
    names = {own}
    while names != set(hosts):
        with server.accept()[0] as peer:
            names.add(peer.recv(100).decode())
    print("connected", *sorted(names), flush=True)
else:
    for _ in range(600):
        try:
            with socket.create_connection(("algo-1", 7777), timeout=5) as peer:
                peer.sendall(own.encode())
            break
        except OSError:
            time.sleep(0.05)
model = pathlib.Path(os.environ["SM_MODEL_DIR"])
(model / f"{own}.txt").write_text(own)
(model / "shared.txt").write_text(own)
if own == "algo-2":
    os.mkfifo(model / "pipe")
data = pathlib.Path(os.environ["SM_CHANNEL_TRAIN"])
print("data", own, *sorted(path.name for path in data.iterdir()), flush=True)
"""


def build_resources(count: int) -> dict[str, Any]:
    """Return the ResourceConfig of some instances."""
    return {"InstanceType": "ml.m5.large", "InstanceCount": count, "VolumeSizeInGB": 1}


def test_three_hosts_connect_and_share_the_data(drydock: Any) -> None:
    for number in range(7):
        drydock.put(f"shards/{number}.csv", b"1")
    channel = drydock.build_channel("train", "s3://bucket/shards/")
    channel["DataSource"]["S3DataSource"]["S3DataDistributionType"] = "ShardedByS3Key"
    job = drydock.run_job("three", CONNECT, ResourceConfig=build_resources(3), InputDataConfig=[channel])
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    lines = drydock.read_full_log("three")
    assert "connected algo-1 algo-2 algo-3" in lines
    shares = {line.split()[1]: line.split()[2:] for line in lines if line.startswith("data")}
    assert sorted(name for share in shares.values() for name in share) == [f"{number}.csv" for number in range(7)]
    assert sorted(len(share) for share in shares.values()) == [2, 2, 3]
    assert any(line.startswith("not in model.tar.gz: pipe is a special file") for line in lines)
    model = drydock.read_archive(job["ModelArtifacts"]["S3ModelArtifacts"])
    assert {name: text.decode() for name, text in model.items()} == {
        "algo-1.txt": "algo-1",
        "algo-2.txt": "algo-2",
        "algo-3.txt": "algo-3",
        "shared.txt": "algo-1",
    }
    streams = drydock.client("logs").describe_log_streams(
        logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix="three/"
    )
    hosts = {stream["logStreamName"].split("/")[1].rsplit("-", 1)[0] for stream in streams["logStreams"]}
    assert hosts == {"algo-1", "algo-2", "algo-3"}


def test_failed_host_ends_the_others(drydock: Any) -> None:
    script = """
import os, sys, time
if os.environ["SM_CURRENT_HOST"] == "algo-2":
    sys.exit(3)
time.sleep(600)
"""
    job = drydock.run_job("fails", script, ResourceConfig=build_resources(2))
    assert job["TrainingJobStatus"] == "Failed" and "ExitCode 3\nHost algo-2\n" in job["FailureReason"]


def test_the_host_that_died_is_named_and_not_the_one_that_waited_for_it(drydock: Any) -> None:
    """algo-1 notices that algo-2 is gone, and fails before the end of algo-2 is known, as on a loaded machine."""
    script = """
import os, pathlib, signal, socket, time
if os.environ["SM_CURRENT_HOST"] == "algo-1":
    with socket.create_server(("algo-1", 7778)) as server, server.accept()[0] as peer:
        peer.recv(1)
    (pathlib.Path(os.environ["SM_OUTPUT_DIR"]) / "failure").write_text("the other host is gone")
    raise SystemExit(1)
while True:
    try:
        peer = socket.create_connection(("algo-1", 7778))
        break
    except OSError:
        time.sleep(0.05)
print("out of memory", flush=True)
peer.close()
time.sleep(0.2)
os.kill(os.getpid(), signal.SIGKILL)
"""
    job = drydock.run_job("dies", script, ResourceConfig=build_resources(2))
    assert job["TrainingJobStatus"] == "Failed"
    assert 'ExitCode 137\nHost algo-2\nErrorMessage "out of memory' in job["FailureReason"]


def test_a_host_without_a_share_of_the_data_runs(drydock: Any) -> None:
    """AWS documents that such a host runs, and is billed. Leeway's operator refuses such a request."""
    uri = drydock.put("few/0.csv", b"1").rpartition("/")[0]
    channel = drydock.build_channel("train", f"{uri}/")
    channel["DataSource"]["S3DataSource"]["S3DataDistributionType"] = "ShardedByS3Key"
    script = "import os; print('data', os.listdir(os.environ['SM_CHANNEL_TRAIN']))"
    job = drydock.run_job("few", script, ResourceConfig=build_resources(2), InputDataConfig=[channel])
    assert job["TrainingJobStatus"] == "Completed"
    assert sorted(drydock.read_full_log("few"))[-2:] == ["data ['0.csv']", "data []"]


@pytest.mark.parametrize("count", [-1, 0, 21])
def test_a_wrong_number_of_hosts_is_refused(drydock: Any, count: int) -> None:
    with pytest.raises(ClientError, match=r"instanceCount|ResourceConfig\.InstanceCount must be 1 to 20 with drydock"):
        drydock.create_unchecked_client("sagemaker").create_training_job(
            **drydock.build_request("wrong", "", ResourceConfig=build_resources(count))
        )


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"sagemaker_distributed_dataparallel_enabled": "true"}, "is not supported by drydock: use torch_distributed"),
        ({"sagemaker_torch_distributed_enabled": "true", "sagemaker_mpi_enabled": "true"}, "exclude each other"),
        ({"sagemaker_mpi_num_of_processes_per_host": "0"}, "must be a whole number of 1 or more, but is 0"),
    ],
)
def test_a_distribution_that_drydock_lacks_is_refused(drydock: Any, settings: dict[str, str], problem: str) -> None:
    with pytest.raises(ClientError, match=problem):
        drydock.create_job("refused", "", HyperParameters=settings)


def is_installed(program: str) -> bool:
    """Return whether drydock finds a program: in the folder of its interpreter, or in PATH."""
    return Path(sys.executable).with_name(program).exists() or shutil.which(program) is not None


@pytest.mark.parametrize(
    ("setting", "program"), [("sagemaker_torch_distributed_enabled", "torchrun"), ("sagemaker_mpi_enabled", "mpirun")]
)
def test_a_launcher_that_is_missing_ends_the_job_before_it_runs(drydock: Any, setting: str, program: str) -> None:
    if is_installed(program):
        pytest.skip(f"{program} is installed")
    fields = {"HyperParameters": {setting: "true"}, "ResourceConfig": build_resources(2)}
    job = drydock.run_job(f"no-{program}", "print('ran')", **fields)
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith(f"ClientError: the job's distribution needs {program}, which drydock does")
    assert "ran" not in drydock.read_full_log(f"no-{program}")


def test_torchrun_starts_on_each_host(tmp_path: Path, run_drydock: Any) -> None:
    """A stand-in for torchrun prints its arguments: test_torch.py runs the real one, where torch is installed."""
    if is_installed("torchrun"):
        pytest.skip("torchrun is installed")
    program = tmp_path / "bin" / "torchrun"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "torchrun $*"\n')
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    with run_drydock(tmp_path, "--cores", "8", environment={"PATH": path}) as server:
        settings = {"sagemaker_torch_distributed_enabled": "true", "sagemaker_instance_type": "ml.m5.large", "lr": "1"}
        job = server.run_job("torch", "", HyperParameters=settings, ResourceConfig=build_resources(2))
        assert job["TrainingJobStatus"] == "Completed"
        lines = [line for line in server.read_full_log("torch") if line.startswith("torchrun")]
        master = "algo-1" if server.get_health()["opt_ml"] else "127[.0-9]+"
        ranks = [
            re.fullmatch(
                rf"torchrun --nnodes 2 --nproc_per_node 1 --master_addr {master} --master_port (\d+) --node_rank (\d) "
                r"train.py --lr 1",
                line,
            )
            for line in sorted(lines)
        ]
        assert [rank and rank[2] for rank in ranks] == ["0", "1"], lines
        assert len({rank and rank[1] for rank in ranks}) == 1


def test_interruption_ends_all_hosts(drydock: Any) -> None:
    script = """
import os, pathlib, time
folder = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"])
own = os.environ["SM_CURRENT_HOST"]
print("restored", *sorted(path.name for path in folder.iterdir()), flush=True)
if (folder / own).exists():
    raise SystemExit(0)
(folder / own).write_text(own)
time.sleep(600)
"""
    drydock.create_job("all", script, ResourceConfig=build_resources(2), **drydock.build_spot_fields("all"))
    drydock.wait_until("both checkpoints", lambda: len(drydock.list_keys("checkpoints/all/")) == 2)
    drydock.send_command("interrupt", job="all", no_capacity_s=0.1)
    job = drydock.wait_for_end("all")
    assert job["TrainingJobStatus"] == "Completed"
    lines = [line for line in drydock.read_full_log("all") if line.startswith("restored")]
    assert sorted(lines) == ["restored", "restored", "restored algo-1 algo-2", "restored algo-1 algo-2"]
    assert drydock.list_keys("checkpoints/all/") == ["checkpoints/all/algo-1", "checkpoints/all/algo-2"]
