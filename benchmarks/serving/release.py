"""Update an endpoint of drydock while 100 requests a second arrive, and count the requests that fail.

The model is that of flights, in its package for SageMaker. A request is one raw row, some of whose features are looked
up in drydock's online store. While the requests arrive, a canary update to a good model succeeds, a model's process is
killed, and a canary whose answers are errors is rolled back by an alarm. Only requests that the broken canary answered
may fail. Before these requests, others with ready (already computed) features are sent for comparison.
LEEWAY_BENCH_SECONDS sets for how long raw rows are sent, in seconds.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import boto3
import psutil
from botocore.config import Config
from botocore.exceptions import ClientError

from benchmarks.serving.endpoints import KEYS, create_client, create_config, create_endpoint, create_model
from benchmarks.serving.load import read_cpu_seconds
from benchmarks.serving.registered_model import REQUESTED_DAY
from benchmarks.serving.servers import Drydock, build_environment, run_command, start_drydock, start_registry

RATE, CONNECTIONS = 100, 8
DURATION_S = float(os.environ.get("LEEWAY_BENCH_SECONDS", "600"))
ENDPOINT, INSTANCES = "flights", 2
JSON = "application/json"
BOUND_MS = 100
"""A common bound for the latency of 99.9 % of the requests to a model in production, milliseconds."""
FAULT = "ModelError of the broken canary"


class Traffic:
    """Send requests at a fixed rate, whether answers come or not, and count the answers.

    Args:
        url: URL of drydock.
        bodies: bodies of the requests, sent in turn.
        duration_s: seconds for which requests are sent.
    """

    def __init__(self, url: str, bodies: Sequence[str], duration_s: float) -> None:
        self._bodies, self._duration_s, self._numbers = bodies, duration_s, count()
        # The clients exist before the first request is due: to create them takes a second and more of CPU time.
        clients = [_create_runtime(url) for _ in range(CONNECTIONS)]
        self._threads = [threading.Thread(target=self._work, args=(client,)) for client in clients]
        self._begin = time.perf_counter() + 0.1
        self.answers: list[tuple[float, float, str]] = []
        """For each request: when it was due, the seconds from then to its answer, and the kind of the answer."""

    @property
    def elapsed_s(self) -> float:
        """Seconds since the first request."""
        return time.perf_counter() - self._begin

    def start(self) -> None:
        """Start to send requests."""
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait until the last request has its answer."""
        for thread in self._threads:
            thread.join()

    def _work(self, client: Any) -> None:
        for number in iter(lambda: next(self._numbers), None):
            due_s = number / RATE
            if due_s >= self._duration_s:
                return
            time.sleep(max(due_s - self.elapsed_s, 0))
            kind = _invoke(client, self._bodies[number % len(self._bodies)])
            self.answers.append((due_s, self.elapsed_s - due_s, kind))


def _create_runtime(url: str) -> Any:
    """Create a client for one thread, which sends each request once."""
    config = Config(retries={"total_max_attempts": 1}, proxies={})
    return boto3.session.Session(**KEYS).client("sagemaker-runtime", endpoint_url=url, config=config)


def run() -> dict[str, Any]:
    """Return latencies and counts of answers as facts.

    Raises:
        RuntimeError: a server did not start, or the releases did not end as they must.
    """
    with tempfile.TemporaryDirectory() as name, ExitStack() as servers:
        folder = Path(name)
        environment = build_environment(folder)
        servers.enter_context(start_registry(folder, environment))
        for script in ("registered_model", "packaged_model"):
            run_command(["-m", f"benchmarks.serving.{script}"], environment, folder / "work")
        drydock = servers.enter_context(start_drydock(folder, environment))
        drydock.materialize(f"{REQUESTED_DAY}", environment, folder / "work")
        facts = _measure(drydock, folder / "work")
    return {"seconds": {}, "facts": facts}


def _measure(drydock: Drydock, folder: Path) -> dict[str, Any]:
    url, pid = drydock.url, drydock.pid
    sagemaker = create_client(url, "sagemaker")
    _create_configs(url, folder / "model.tar.gz")
    create_endpoint(url, ENDPOINT, "first")
    raw_bodies, feature_bodies = _read_bodies(folder / "raw.json"), _read_bodies(folder / "features.json")
    _check_lookups(url, raw_bodies[0])
    ready_features = _measure_quiet_time(drydock, feature_bodies)
    traffic = Traffic(url, raw_bodies, DURATION_S)
    traffic.start()
    _wait(lambda: traffic.elapsed_s > 0.05 * DURATION_S)  # the first requests warm up
    cpu_s, begin_s = read_cpu_seconds(pid), traffic.elapsed_s
    _wait(lambda: traffic.elapsed_s > 0.2 * DURATION_S)
    quiet_cpu_s, quiet_s = read_cpu_seconds(pid) - cpu_s, traffic.elapsed_s - begin_s
    _release(sagemaker, "second")
    _wait(lambda: _describe(sagemaker)["EndpointConfigName"] == "second")
    _wait(lambda: _describe(sagemaker)["EndpointStatus"] == "InService")  # the old instances have ended
    _wait(lambda: traffic.elapsed_s > 0.5 * DURATION_S)
    _kill_model(pid)
    _wait(lambda: traffic.elapsed_s > 0.6 * DURATION_S)
    # Instances of the configuration "broken" answer each request with an error.
    body = json.dumps({"endpoint": ENDPOINT, "config": "broken", "error_rate": 1}).encode()
    urllib.request.urlopen(f"{url}/drydock/variant", body).close()
    _release(sagemaker, "broken")
    _wait(lambda: "FailureReason" in _describe(sagemaker))
    reason = _describe(sagemaker)["FailureReason"]
    traffic.join()
    if _describe(sagemaker)["EndpointConfigName"] != "second":
        raise RuntimeError(f"the broken release was not rolled back: {_describe(sagemaker)}")
    quiet_answers = [answer for answer in traffic.answers if begin_s <= answer[0] < begin_s + quiet_s]
    return {
        "cores": os.cpu_count(),
        "requests": len(traffic.answers),
        "answers": dict(Counter(kind for _, _, kind in traffic.answers)),
        "rolled back because": reason,
        "before the releases": _summarize(quiet_answers, quiet_cpu_s),
        "in all": _summarize(traffic.answers),
        "ready features, before the releases": ready_features,
    }


def _read_bodies(file: Path) -> Sequence[str]:
    bodies: list[str] = json.loads(file.read_text(encoding="utf-8"))
    return bodies


def _check_lookups(url: str, body: str) -> None:
    """Check that the endpoint finds the looked-up features of a raw row."""
    runtime = create_client(url, "sagemaker-runtime")
    answer = json.load(runtime.invoke_endpoint(EndpointName=ENDPOINT, Body=body, ContentType=JSON, Accept=JSON)["Body"])
    if any(set(outcomes) != {"found"} for outcomes in answer["lookups"].values()):
        raise RuntimeError(f"the online store has no values for the row: {answer['lookups']}")


def _measure_quiet_time(drydock: Drydock, bodies: Sequence[str]) -> dict[str, float]:
    """Send requests while nothing else happens. Return the summary of their answers, without the first requests."""
    traffic = Traffic(drydock.url, bodies, 0.2 * DURATION_S)
    traffic.start()
    _wait(lambda: traffic.elapsed_s > 0.05 * DURATION_S)  # the first requests warm up
    cpu_s, begin_s = read_cpu_seconds(drydock.pid), traffic.elapsed_s
    traffic.join()
    cpu_s = read_cpu_seconds(drydock.pid) - cpu_s
    return _summarize([answer for answer in traffic.answers if answer[0] >= begin_s], cpu_s)


def _create_configs(url: str, archive: Path) -> None:
    """Create the model, three configurations of it, and the alarm."""
    create_model(url, ENDPOINT, archive)
    for name in ("first", "second", "broken"):
        create_config(url, name, ENDPOINT, INSTANCES)
    create_client(url, "cloudwatch").put_metric_alarm(
        AlarmName="errors",
        Namespace="AWS/SageMaker",
        MetricName="Invocation5XXErrors",
        Dimensions=[{"Name": "EndpointName", "Value": ENDPOINT}, {"Name": "VariantName", "Value": "main"}],
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=20,
        ComparisonOperator="GreaterThanOrEqualToThreshold",
    )


def _release(sagemaker: Any, config: str) -> None:
    """Begin an update of the endpoint: a canary of 10 %, which the alarm rolls back."""
    routing = {
        "Type": "CANARY",
        "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 10},
        "WaitIntervalInSeconds": max(int(0.1 * DURATION_S), 1),
    }
    deployment = {
        "BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing},
        "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "errors"}]},
    }
    sagemaker.update_endpoint(EndpointName=ENDPOINT, EndpointConfigName=config, DeploymentConfig=deployment)


def _kill_model(pid: int) -> None:
    """Kill the process of a model, as the out-of-memory killer of the operating system does."""
    # psutil lists children before grandchildren: first the launchers, whose command lines end with serve.py, too.
    models = [
        process for process in psutil.Process(pid).children(recursive=True) if "serve.py" in process.cmdline()[-1]
    ]
    os.kill(models[-1].pid, signal.SIGKILL)


def _invoke(client: Any, body: str) -> str:
    """Send a request. Return the kind of its answer: `score`, `FAULT`, or the text of another error."""
    try:
        client.invoke_endpoint(EndpointName=ENDPOINT, Body=body, ContentType=JSON, Accept=JSON)["Body"].read()
    except ClientError as error:
        return FAULT if "drydock makes this variant fail" in str(error) else str(error)
    except Exception as error:  # no connection: the benchmark counts it
        return f"{type(error).__name__}: {error}"
    return "score"


def _describe(sagemaker: Any) -> dict[str, Any]:
    return dict(sagemaker.describe_endpoint(EndpointName=ENDPOINT))


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DURATION_S + 300
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("the endpoint did not get into the expected state")
        time.sleep(0.1)


def _summarize(answers: Sequence[tuple[float, float, str]], cpu_s: float | None = None) -> dict[str, float]:
    """Summarize the answers: quantiles of the latency of scored requests, and their percentage within `BOUND_MS`.

    With `cpu_s`, the CPU seconds of all requests together, the summary also has the CPU milliseconds of one request.
    """
    latencies = sorted(1e3 * latency for _, latency, kind in answers if kind == "score")
    summary = {f"p{share}_ms": round(latencies[int(len(latencies) * share / 100)], 1) for share in (50, 99, 99.9)}
    fast_count = sum(latency <= BOUND_MS for latency in latencies)
    summary[f"percent within {BOUND_MS} ms"] = round(100 * fast_count / len(latencies), 3)
    return summary if cpu_s is None else {**summary, "cpu_ms": round(1e3 * cpu_s / len(answers), 2)}
