"""Test the CloudWatch metrics of jobs: what the processes of a job really use, read by an unmodified boto3."""

import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.integration.drydock.test_processing import build_request
from tests.integration.drydock.test_transform import SLOW, create_model

TRAINING = "/aws/sagemaker/TrainingJobs"
OPTIONS = ("--cores", "8", "--memory-gib", "100", "--stop-grace", "1", "--shutdown-grace", "1")
# Prints each second the share of a core that it got: on a busy machine, that may be less than 1.
BURN = """
import time
def burn():
    began, cpu_s = time.monotonic(), time.process_time()
    while time.monotonic() < began + 1:
        sum(range(1000))
    print("share", (time.process_time() - cpu_s) / (time.monotonic() - began), flush=True)
"""
BURNING = BURN + "while True: burn()\n"
SLEEPING = "import time\nwhile True: time.sleep(0.1)\n"
PARENT = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURNING!r}])\n"
# Each child ends before a sample could see all of its seconds.
PARENT_OF_MANY = f"import subprocess, sys\nwhile True: subprocess.run([sys.executable, '-c', {BURN + 'burn()'!r}])\n"
HOLDING = (
    "import time\nblocks = bytearray(b'x') * (400 << 20)\nprint('held', flush=True)\nwhile True: time.sleep(0.1)\n"
)
# The child of a fork shares all pages of its parent: they are not twice in the memory.
SHARING = HOLDING.replace("print", "import os\nos.fork()\nos.fork()\nprint")
WRITING = (
    "import os, pathlib, time\nfile = pathlib.Path(os.environ['SM_MODEL_DIR'], 'big')\n"
    "file.write_bytes(os.urandom(64 << 20))\nwhile True: time.sleep(0.1)\n"
)
KILLED = "import os, time\ntime.sleep(4)\nos.kill(os.getpid(), 9)\n"


def read(server: Any, host: str, metric: str = "CPUUtilization", namespace: str = TRAINING) -> dict[str, float]:
    """Return the statistics of a metric in the last hour; empty without data."""
    now = datetime.now(UTC)
    points = server.client("cloudwatch").get_metric_statistics(
        Namespace=namespace,
        MetricName=metric,
        Dimensions=[{"Name": "Host", "Value": host}],
        StartTime=now - timedelta(hours=1),
        EndTime=now + timedelta(minutes=1),
        Period=7_200,
        Statistics=["Maximum", "Average", "SampleCount"],
        Unit="Percent",
    )["Datapoints"]
    return {name: float(point[name]) for point in points for name in ("Maximum", "Average", "SampleCount")}


def wait_for_samples(server: Any, host: str, count: int, **options: str) -> dict[str, float]:
    """Wait until a metric has so many samples, and return its statistics."""

    def find() -> dict[str, float] | None:
        statistics = read(server, host, **options)
        return statistics if statistics.get("SampleCount", 0) >= count else None

    return dict(server.wait_until(f"samples of {host}", find))


def read_share(server: Any, name: str) -> float:
    """Return the mean share of a core that a burning job says it got."""
    shares = [float(line.split()[1]) for line in server.read_log(name) if line.startswith("share")]
    return sum(shares) / len(shares)


@pytest.fixture
def run_until_stopped(drydock: Any) -> Iterator[Any]:
    """Return the function that starts a job, which is stopped after the test."""
    names = []

    def create(name: str, script: str, **fields: Any) -> str:
        drydock.create_job(name, script, **fields)
        names.append(name)
        return f"{name}/algo-1"

    yield create
    for name in names:
        drydock.stop_job(name)
        drydock.wait_for_end(name)


@pytest.mark.parametrize(
    ("name", "script"),
    [
        ("burner", BURNING),
        pytest.param("parent", PARENT, marks=pytest.mark.soak),
        pytest.param("parent-of-many", PARENT_OF_MANY, marks=pytest.mark.soak),
    ],
)
def test_job_that_burns_one_core_shows_about_100(drydock: Any, run_until_stopped: Any, name: str, script: str) -> None:
    host = run_until_stopped(name, script)
    drydock.wait_for_line(name, "share")
    statistics = wait_for_samples(drydock, host, 5)
    share = 100 * read_share(drydock, name)
    assert share * 0.7 - 15 < statistics["Average"] < 125
    assert statistics["Maximum"] < 160, "a core, and the start of Python"


@pytest.mark.soak
def test_idle_job_shows_about_nothing(drydock: Any, run_until_stopped: Any) -> None:
    host = run_until_stopped("idle", SLEEPING)
    wait_for_samples(drydock, host, 3)
    statistics = wait_for_samples(drydock, host, 6)  # the first ones have the start of Python
    assert statistics["Average"] < 30
    memory, disk = (read(drydock, host, metric) for metric in ("MemoryUtilization", "DiskUtilization"))
    assert 0 < memory["Maximum"] < 2, "a small Python process in 8 GiB"
    assert 0 < disk["Maximum"] < 1, "a script in 1 GiB"
    assert read(drydock, host, "GPUUtilization") == read(drydock, host, "GPUMemoryUtilization") == {}


@pytest.mark.parametrize(
    ("name", "script"), [("holder", HOLDING), pytest.param("sharer", SHARING, marks=pytest.mark.soak)]
)
def test_memory_is_in_percent_of_the_instances(drydock: Any, run_until_stopped: Any, name: str, script: str) -> None:
    host = run_until_stopped(name, script)
    drydock.wait_for_line(name, "held")

    def find() -> float | None:
        value = read(drydock, host, "MemoryUtilization").get("Maximum", 0.0)
        return value if value > 100 * 0.4 / 8.2 else None

    assert drydock.wait_until("the memory", find) < 100 * 0.6 / 8, "400 MiB of 8 GiB, however many processes share them"


@pytest.mark.soak
def test_disk_is_in_percent_of_the_volume(drydock: Any, run_until_stopped: Any) -> None:
    resources = {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1}
    host = run_until_stopped("writer", WRITING, ResourceConfig=resources)
    value = drydock.wait_until("the disk", lambda: read(drydock, host, "DiskUtilization").get("Maximum", 0) > 5)
    assert value
    assert read(drydock, host, "DiskUtilization")["Maximum"] < 8, "64 MiB of 1 GiB"


def test_every_host_has_metrics_and_all_calls_know_them(drydock: Any, run_until_stopped: Any) -> None:
    resources = {"InstanceType": "ml.m5.large", "InstanceCount": 2, "VolumeSizeInGB": 1}
    run_until_stopped("two", SLEEPING, ResourceConfig=resources)
    for host in ("two/algo-1", "two/algo-2"):
        wait_for_samples(drydock, host, 1)
    cloudwatch = drydock.client("cloudwatch")
    pages = cloudwatch.get_paginator("list_metrics").paginate(Namespace=TRAINING, Dimensions=[{"Name": "Host"}])
    metrics = [metric for page in pages for metric in page["Metrics"]]
    found = {(item["MetricName"], item["Dimensions"][0]["Value"]) for item in metrics}
    names = ("CPUUtilization", "MemoryUtilization", "DiskUtilization")
    assert {(name, f"two/algo-{number}") for name in names for number in (1, 2)} <= found
    assert len(found) == len(metrics), "each metric occurs once"
    now = datetime.now(UTC)
    metric = {
        "Namespace": TRAINING,
        "MetricName": "MemoryUtilization",
        "Dimensions": [{"Name": "Host", "Value": "two/algo-2"}],
    }
    query = {"Id": "m", "MetricStat": {"Metric": metric, "Period": 3600, "Stat": "Maximum"}}
    (result,) = cloudwatch.get_metric_data(
        MetricDataQueries=[query], StartTime=now - timedelta(minutes=59), EndTime=now + timedelta(minutes=1)
    )["MetricDataResults"]
    assert 0 < result["Values"][0] < 5


def test_unknown_job_has_no_metrics(drydock: Any, run_until_stopped: Any) -> None:
    host = run_until_stopped("known", SLEEPING)
    wait_for_samples(drydock, host, 1)
    assert read(drydock, "unknown/algo-1") == {}
    assert read(drydock, "known/algo-2") == {}
    assert read(drydock, host, namespace="/aws/sagemaker/ProcessingJobs") == {}
    listed = drydock.client("cloudwatch").list_metrics(
        Namespace=TRAINING, Dimensions=[{"Name": "Host", "Value": "unknown/algo-1"}]
    )
    assert listed["Metrics"] == []


@pytest.mark.soak
def test_killed_job_keeps_its_metrics_and_gets_no_more(drydock: Any) -> None:
    job = drydock.run_job("killed", KILLED)
    assert job["TrainingJobStatus"] == "Failed"
    before = read(drydock, "killed/algo-1")
    assert before["SampleCount"] >= 1
    time.sleep(3)  # samples of a job that runs are a second apart
    assert read(drydock, "killed/algo-1") == before


def test_processing_and_transform_jobs_have_their_own_namespaces(drydock: Any, tmp_path: Path) -> None:
    sagemaker = drydock.client("sagemaker")
    sagemaker.create_processing_job(**build_request(drydock, "measured", SLEEPING))
    processing = {"namespace": "/aws/sagemaker/ProcessingJobs"}
    wait_for_samples(drydock, "measured/algo-1", 1, **processing)
    wait_for_samples(drydock, "measured/algo-1", 1, metric="DiskUtilization", **processing)
    sagemaker.stop_processing_job(ProcessingJobName="measured")
    environment = {"STARTS": str(tmp_path / "starts"), "RELEASE_FILE": str(tmp_path / "release")}
    create_model(drydock, "measured", SLOW, Environment=environment)
    source = {"S3DataType": "S3Prefix", "S3Uri": drydock.put("measured/in/file", b"wait")}
    sagemaker.create_transform_job(
        TransformJobName="measured",
        ModelName="measured",
        TransformInput={"DataSource": {"S3DataSource": source}, "ContentType": "application/octet-stream"},
        TransformOutput={"S3OutputPath": "s3://bucket/measured/out"},
        TransformResources={"InstanceType": "ml.m5.large", "InstanceCount": 1},
    )

    def list_transform_metrics() -> dict[str, str]:
        request = {"Namespace": "/aws/sagemaker/TransformJobs", "Dimensions": [{"Name": "Host"}]}
        metrics = drydock.client("cloudwatch").list_metrics(**request)["Metrics"]
        return {item["MetricName"]: item["Dimensions"][0]["Value"] for item in metrics}

    found = drydock.wait_until("the metrics", list_transform_metrics)
    assert set(found) == {"CPUUtilization", "MemoryUtilization"}, "SageMaker has no DiskUtilization of transform jobs"
    assert found["CPUUtilization"].startswith("measured/i-")
    assert len(found["CPUUtilization"]) == len("measured/i-") + 17
    (tmp_path / "release").touch()


@pytest.mark.soak
def test_metrics_survive_a_kill_of_the_server_and_go_on_when_the_job_resumes(tmp_path: Path, run_drydock: Any) -> None:
    host = "spot/algo-1"
    with run_drydock(tmp_path, *OPTIONS) as server:
        server.create_job("spot", SLEEPING, **server.build_spot_fields("spot"))
        before = wait_for_samples(server, host, 2)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(60)
        (tmp_path / "port").unlink()
    with run_drydock(tmp_path, *OPTIONS) as server:
        kept = read(server, host)
        assert kept["SampleCount"] >= before["SampleCount"]
        assert kept["Maximum"] >= before["Maximum"]
        wait_for_samples(server, host, int(kept["SampleCount"]) + 2)
        server.stop_job("spot")
        server.wait_for_end("spot")
