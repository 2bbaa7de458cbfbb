"""Measure the cold start of a serverless variant of drydock with the real model of flights and its libraries.

After a start of drydock, there is no standby process for the first request: the process that answers it has to import
pandas, XGBoost and DuckDB. For later cold starts, a standby process has imported them already. A request is one raw
row, some of whose features are looked up in drydock's online store, or, for comparison, a row of ready (already
computed) features. LEEWAY_BENCH_ROUNDS sets how often drydock is started for each kind of request.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import psutil
from botocore.config import Config

from benchmarks.serving.registered_model import REQUESTED_DAY
from benchmarks.serving.servers import Drydock, build_environment, run_command, start_drydock, start_registry

ROUNDS = int(os.environ.get("LEEWAY_BENCH_ROUNDS", "3"))
STARTS = 3
"""Cold starts with a standby process, in each round."""
IDLE_S, WAIT_S = 3, 300
"""Seconds without a request after which drydock ends a serverless process, and longest wait for an expected state."""
OPTIONS = ("--serverless-idle", str(IDLE_S))
ENDPOINT, BUCKET = "flights", "bucket"
KEYS = {"aws_access_key_id": "bench", "aws_secret_access_key": "bench", "region_name": "us-east-1"}
FIRST, LATER, WARM = "cold start, no process stands by", "cold start, a process stands by", "a request without a start"
BODIES = {"raw.json": "", "features.json": ", ready features"}
"""For each kind of request: the file with the bodies, and the words with which the names of its results end."""


class Cases:
    """The requests to one running drydock.

    Args:
        drydock: The running server.
        folder: The folder with the model and the requests.
        file: Name of the file with the requests.
    """

    def __init__(self, drydock: Drydock, folder: Path, file: str) -> None:
        self._url, self._pid, self._folder = drydock.url, drydock.pid, folder
        self._body, self._suffix = json.loads((folder / file).read_text(encoding="utf-8"))[0], BODIES[file]
        url, config = self._url, Config(retries={"total_max_attempts": 1}, proxies={}, read_timeout=120)
        self._runtime = boto3.client("sagemaker-runtime", endpoint_url=url, config=config, **KEYS)
        self._sagemaker = boto3.client("sagemaker", endpoint_url=url, **KEYS)
        self.seconds, self.cpu_seconds = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
        """For each result: the seconds of its requests, and the CPU seconds of the process that answered each."""

    def create_endpoint(self) -> None:
        """Create the endpoint of one serverless variant."""
        s3 = boto3.client("s3", endpoint_url=self._url, **KEYS)
        s3.create_bucket(Bucket=BUCKET)
        s3.upload_file(str(self._folder / "model.tar.gz"), BUCKET, "model.tar.gz")
        container = {"Image": "image", "ModelDataUrl": f"s3://{BUCKET}/model.tar.gz"}
        role = "arn:aws:iam::123456789012:role/bench"
        self._sagemaker.create_model(ModelName=ENDPOINT, PrimaryContainer=container, ExecutionRoleArn=role)
        serverless = {"MemorySizeInMB": 2048, "MaxConcurrency": 2}
        variant = {"VariantName": "main", "ModelName": ENDPOINT, "ServerlessConfig": serverless}
        self._sagemaker.create_endpoint_config(EndpointConfigName=ENDPOINT, ProductionVariants=[variant])
        self._sagemaker.create_endpoint(EndpointName=ENDPOINT, EndpointConfigName=ENDPOINT)
        self.wait_for_service()

    def wait_for_service(self) -> None:
        """Wait until the endpoint is in service."""
        _wait(lambda: self._sagemaker.describe_endpoint(EndpointName=ENDPOINT)["EndpointStatus"] == "InService")

    def measure(self) -> None:
        """Send the first request, for which there is no standby process, and then those for which there is one."""
        self._send(FIRST)
        for _ in range(STARTS):
            self._send(WARM)
            # Wait until the processes that served the model were idle for so long that drydock stopped them.
            _wait(lambda: self._count_standbys() == 1 and len(self._list_processes()) == 1)
            self._send(LATER)

    def _send(self, result: str) -> None:
        cpu_before, begin = self._read_cpu_seconds(), time.perf_counter()
        response = self._runtime.invoke_endpoint(
            EndpointName=ENDPOINT, Body=self._body, ContentType="application/json", Accept="application/json"
        )
        answer = json.loads(response["Body"].read())
        result += self._suffix
        self.seconds[result].append(time.perf_counter() - begin)
        # With ready features (the suffix is not empty), nothing is looked up.
        assert answer["scores"] and (self._suffix or answer["lookups"] == {"hour": {"found": 1}}), answer
        # The process that answered is the oldest one. The other one is the next standby process.
        pid, cpu_s = next(iter(self._read_cpu_seconds().items()))
        self.cpu_seconds[result].append(cpu_s - cpu_before.get(pid, 0.0))

    def _count_standbys(self) -> int:
        with urllib.request.urlopen(f"{self._url}/drydock/health") as response:
            return int(json.load(response)["standby_processes"])

    def _list_processes(self) -> list[psutil.Process]:
        """Return the processes that serve a model, and the standby processes."""
        # A direct child of drydock is a launcher. Its command line ends like that of its child, the model server.
        children = psutil.Process(self._pid).children(recursive=True)
        return [process for process in children if _is_model_server(process) and process.ppid() != self._pid]

    def _read_cpu_seconds(self) -> dict[int, float]:
        """Return the CPU seconds of each process that `_list_processes` lists, by its id, the oldest process first."""
        processes = sorted(self._list_processes(), key=psutil.Process.create_time)
        return {process.pid: sum(process.cpu_times()[:2]) for process in processes}


def run() -> dict[str, Any]:
    """Return the seconds of the requests, and the CPU seconds of the processes as facts.

    Raises:
        RuntimeError: a server did not start, or there was no standby process in time.
    """
    seconds, cpu_seconds = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    with tempfile.TemporaryDirectory() as name:
        folder, environment = Path(name), build_environment(Path(name))
        with start_registry(folder, environment):
            for script in ("registered_model", "packaged_model"):
                run_command(["-m", f"benchmarks.serving.{script}"], environment, folder / "work")
        with start_drydock(folder, environment, *OPTIONS) as drydock:
            drydock.materialize(f"{REQUESTED_DAY}", environment, folder / "work")
            Cases(drydock, folder / "work", "raw.json").create_endpoint()
        # Each round starts drydock anew. Otherwise, the process that loaded the model when the endpoint
        # was created would answer.
        for file in ROUNDS * list(BODIES):
            with start_drydock(folder, environment, *OPTIONS) as drydock:
                cases = Cases(drydock, folder / "work", file)
                cases.wait_for_service()
                cases.measure()
            for result, values in cases.seconds.items():
                seconds[result] += values
                cpu_seconds[result] += cases.cpu_seconds[result]
    facts: dict[str, Any] = {"cores": os.cpu_count()}
    facts |= {
        f"{result}: CPU seconds, median": round(statistics.median(values), 2) for result, values in cpu_seconds.items()
    }
    return {"seconds": dict(seconds), "facts": facts}


def _is_model_server(process: psutil.Process) -> bool:
    """Return whether a process is a model server, or its launcher."""
    try:
        return process.cmdline()[-1].endswith("serve.py") and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, IndexError):
        return False


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("drydock did not get into the expected state")
        time.sleep(0.1)
