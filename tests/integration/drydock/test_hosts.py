"""Test jobs of several instances: their hosts reach each other, share channels and fail together."""

from typing import Any

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
    assert job["TrainingJobStatus"] == "Failed" and "ExitCode 3" in job["FailureReason"]


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
