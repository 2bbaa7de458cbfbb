"""Compare `python -m pipelines serve` with `mlflow models serve` of the same version, one row a request.

The rounds of both alternate, so that the load of the machine is the same for both. MLflow's server gets ready features:
it computes none. LEEWAY_BENCH_SECONDS sets the length of a round.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.serving.load import Load, send
from pipelines.system.mlflow_server import is_reachable

PROJECT = Path(__file__).parents[2]
RATE, ROUNDS = 100, 2
ROUND_S = float(os.environ.get("LEEWAY_BENCH_SECONDS", "15"))
BOUND_MS = 25
"""Latency of 99 % of the requests up to which a server keeps up with a rate."""
RATES = (50, 100, 150, 200, 225, 250, 300)
RATE_S = 4
START_S = 120
COMMANDS = {
    "leeway": (["-m", "pipelines", "serve", "--model", "flights", "--version", "1"], "raw.json"),
    "mlflow": (["-m", "mlflow", "models", "serve", "-m", "models:/flights/1", "--env-manager", "local"], "ready.json"),
}
"""For each server: its command, and the file with the bodies of its requests."""


@dataclass(frozen=True)
class Server:
    """A running server, and the bodies that it gets."""

    port: int
    pid: int
    bodies: Sequence[str]

    def send(self, rate: float, duration_s: float) -> Load:
        """Send one row a request at this rate."""
        return send(self.port, self.pid, self.bodies, rate, duration_s)


def run() -> dict[str, Any]:
    """Return the seconds until the servers answer, and latencies, CPU time and rates as facts.

    Raises:
        RuntimeError: a server did not start, or a request failed.
    """
    with tempfile.TemporaryDirectory() as name, ExitStack() as servers:
        folder, environment = Path(name), _build_environment(Path(name))
        servers.enter_context(_start_registry(folder, environment))
        _run(["-m", "benchmarks.serving.registered_model"], environment, folder / "work")
        cases, seconds = {}, {}
        for label, (command, file) in COMMANDS.items():
            bodies, port = json.loads((folder / "work" / file).read_text()), _find_port()
            begin = time.perf_counter()
            address = f"http://127.0.0.1:{port}/ping"
            process = servers.enter_context(_start([*command, "--port", str(port)], environment, address))
            seconds[f"{label}: start until /ping answers"] = [time.perf_counter() - begin]
            cases[label] = Server(port, process.pid, bodies)
        return {"seconds": seconds, "facts": _measure(cases)}


def _measure(cases: dict[str, Server]) -> dict[str, Any]:
    facts: dict[str, Any] = {"cores": os.cpu_count(), "connections of the client": 8}
    for server in cases.values():
        server.send(50, 4)  # warm up
    for number in range(1, ROUNDS + 1):
        for label, server in cases.items():
            row = f"{label}: {RATE} requests/s for {ROUND_S:g} s, round {number}"
            facts[row] = _describe(server.send(RATE, ROUND_S))
    for label, server in cases.items():
        rate, load = _find_highest_rate(server)
        facts[f"{label}: highest rate with p99 up to {BOUND_MS} ms"] = rate
        facts[f"{label}: at that rate"] = _describe(load) if load else "none of the rates"
    return facts


def _find_highest_rate(server: Server) -> tuple[int, Load | None]:
    """Return the highest rate that keeps the latency bound in one of three tries, and that try.

    Other work on the machine can spoil a try, so the search ends after two rates without a good one.
    """
    best: tuple[int, Load | None] = (0, None)
    misses = 0
    for rate in RATES:
        tries = (server.send(rate, RATE_S) for _ in range(3))
        load = next((load for load in tries if load.p99_ms <= BOUND_MS), None)
        best, misses = ((rate, load), 0) if load else (best, misses + 1)
        if misses == 2:
            break
    return best


def _describe(load: Load) -> dict[str, float]:
    if load.failures:
        raise RuntimeError(f"{load.failures} requests failed")
    return {
        "p50 ms": round(load.p50_ms, 2),
        "p99 ms": round(load.p99_ms, 2),
        "p99.9 ms": round(load.quantile_ms(0.999), 2),
        "CPU ms a request": round(load.cpu_ms, 2),
        "requests/s": round(len(load.latencies_s) / load.elapsed_s, 1),
        "load": round(os.getloadavg()[0], 2),
    }


def _build_environment(folder: Path) -> dict[str, str]:
    for name in ("home", "project", "work"):
        (folder / name).mkdir()
    prefixes = ("LEEWAY_", "MLFLOW_", "AWS_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    return {
        **inherited,
        "PYTHONPATH": f"{PROJECT}:{PROJECT / 'plugins'}",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LEEWAY_HOME": str(folder / "home"),
        "LEEWAY_PROJECT": str(folder / "project"),
        "MLFLOW_TRACKING_URI": f"http://127.0.0.1:{_find_port()}",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "OMP_WAIT_POLICY": "passive",  # as the stack sets it
    }


def _run(arguments: list[str], environment: dict[str, str], folder: Path) -> None:
    command = [sys.executable, *arguments]
    process = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if process.returncode:
        raise RuntimeError(process.stderr[-2000:])


def _start_registry(folder: Path, environment: dict[str, str]) -> AbstractContextManager[subprocess.Popen[bytes]]:
    uri = environment["MLFLOW_TRACKING_URI"]
    address = ["--host", "127.0.0.1", "--port", uri.rpartition(":")[2], "--workers", "1"]
    store = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", f"{folder}/files"]
    return _start(["-m", "mlflow", "server", *address, *store], environment, f"{uri}/health")


@contextmanager
def _start(arguments: list[str], environment: dict[str, str], address: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server, and wait until it answers at `address`; end it when the block ends."""
    base, _, path = address.rpartition("/")
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, *arguments], env=environment, cwd=PROJECT, stdout=log, stderr=log, start_new_session=True
        )
        try:
            deadline = time.monotonic() + START_S
            while not _answers(base, path):
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    raise RuntimeError(f"{' '.join(arguments)}: {log.read()[-2000:].decode()}")
                time.sleep(0.05)
            yield process
        finally:
            process.terminate()
            process.wait()


def _answers(base: str, path: str) -> bool:
    if path == "health":
        return is_reachable(base, 1.0)
    import requests

    try:
        return requests.get(f"{base}/{path}", timeout=1).ok
    except requests.RequestException:
        return False


def _find_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
