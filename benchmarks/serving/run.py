"""Compare `python -m pipelines serve` and an endpoint of drydock with `mlflow models serve` of the same version.

A request has one row. `python -m pipelines serve` runs twice, without and with lookups, and gets raw rows. The server
with lookups reads features in a drydock on the same machine. The endpoint has two instances in this drydock, and gets
raw rows, for which it looks up features, or computed features.

The rounds of the servers alternate, so that the load of the machine is the same for all of them. MLflow's server
computes no features: its requests contain them. LEEWAY_BENCH_SECONDS sets the length of a round.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
import urllib.request
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.serving.endpoints import AUTHORIZATION, create_config, create_endpoint, create_model
from benchmarks.serving.load import Load, Server, send
from benchmarks.serving.registered_model import REQUESTED_DAY
from benchmarks.serving.servers import (
    Drydock,
    build_environment,
    find_port,
    run_command,
    start_drydock,
    start_registry,
    start_server,
)

RATE, ROUNDS = 100, 2
ROUND_S = float(os.environ.get("LEEWAY_BENCH_SECONDS", "15"))
BOUND_MS = 25
"""A server is fast enough for a rate if it answers 99 % of the requests within this time, milliseconds."""
RATES = (40, 60, 80, 100, 125, 150, 175, 200, 250, 300, 350, 400, 450, 500, 600, 700, 800)
"""Rates that are tried, requests a second."""
RATE_S, TRIES, MAX_MISSES = 4, 3, 2
"""Seconds of a try, tries of a rate, and rates in a row that a server may miss before it is not tried any more."""
LEEWAY = ["-m", "pipelines", "serve", "--model", "flights", "--version", "1"]
COMMANDS = {
    "leeway": ([*LEEWAY, "--no-lookups"], "raw.json"),
    "leeway with lookups": ([*LEEWAY, "--lookups"], "raw.json"),
    "mlflow": (
        ["-m", "mlflow", "models", "serve", "-m", "models:/flights/1", "--env-manager", "local"],
        "features_split.json",
    ),
}
"""For each server: its command, and the file with the bodies of its requests."""
ENDPOINT, INSTANCES = "flights", 2
ENDPOINT_FILES = {"endpoint": "features.json", "endpoint with lookups": "raw.json"}
"""For each kind of request to the endpoint: the file with the bodies."""


def run() -> dict[str, Any]:
    """Return the seconds until the servers answer, and latencies, CPU time and rates as facts.

    Raises:
        RuntimeError: a server did not start, or a request failed.
    """
    with tempfile.TemporaryDirectory() as name, ExitStack() as servers:
        folder, environment = Path(name), build_environment(Path(name))
        servers.enter_context(start_registry(folder, environment))
        for script in ("registered_model", "packaged_model"):
            run_command(["-m", f"benchmarks.serving.{script}"], environment, folder / "work")
        drydock = servers.enter_context(start_drydock(folder, environment))
        drydock.materialize(f"{REQUESTED_DAY}", environment, folder / "work")
        environment |= drydock.variables
        cases, seconds = {}, {}
        for label, (command, file) in COMMANDS.items():
            bodies, port = json.loads((folder / "work" / file).read_text()), find_port()
            begin = time.perf_counter()
            address = f"http://127.0.0.1:{port}/ping"
            process = servers.enter_context(start_server([*command, "--port", str(port)], environment, address))
            seconds[f"{label}: start until /ping answers"] = [time.perf_counter() - begin]
            cases[label] = Server(port, process.pid, bodies)
        cases |= _create_endpoint_cases(drydock, folder / "work")
        return {"seconds": seconds, "facts": _measure(cases)}


def _create_endpoint_cases(drydock: Drydock, folder: Path) -> dict[str, Server]:
    """Create the endpoint. Return a `Server` for each kind of request to it."""
    create_model(drydock.url, ENDPOINT, folder / "model.tar.gz")
    create_config(drydock.url, ENDPOINT, ENDPOINT, INSTANCES)
    create_endpoint(drydock.url, ENDPOINT, ENDPOINT)
    port, path = int(drydock.url.rpartition(":")[2]), f"/endpoints/{ENDPOINT}/invocations"
    return {
        label: Server(
            port, drydock.pid, json.loads((folder / file).read_text()), path, {"Authorization": AUTHORIZATION}
        )
        for label, file in ENDPOINT_FILES.items()
    }


def _measure(cases: dict[str, Server]) -> dict[str, Any]:
    facts: dict[str, Any] = {"cores": os.cpu_count(), "connections of the client": 8}
    for server in cases.values():
        send(server, rate=50, duration_s=4)  # warm up
    for number in range(1, ROUNDS + 1):
        for label, server in cases.items():
            row = f"{label}: {RATE} requests/s for {ROUND_S:g} s, round {number}"
            facts[row] = _describe(send(server, RATE, ROUND_S))
    for label, (rate, load) in _find_highest_rates(cases).items():
        facts[f"{label}: highest rate with p99 up to {BOUND_MS} ms"] = rate
        facts[f"{label}: at that rate"] = _describe(load) if load else "none of the rates"
    with urllib.request.urlopen(f"http://127.0.0.1:{cases['leeway with lookups'].port}/ping") as answer:
        status = json.load(answer)
    facts["outcomes of the lookups"], facts["latency of a lookup"] = status["lookups"], status["lookup_latency"]
    return facts


def _find_highest_rates(cases: dict[str, Server]) -> dict[str, tuple[int, Load | None]]:
    """Return for each server the highest rate at which it is fast enough, and the measurements; else (0, None).

    The servers take turns at each rate, so that the load of the machine is the same for all of them. Other work can
    disturb a try. So each rate has `TRIES` tries, and a server is tried until it missed `MAX_MISSES` rates in a row.
    """
    best_results: dict[str, tuple[int, Load | None]] = dict.fromkeys(cases, (0, None))
    misses: Counter[str] = Counter()
    for rate in RATES:
        labels = [label for label in cases if misses[label] < MAX_MISSES]
        for _ in range(TRIES):
            loads = {label: send(cases[label], rate, RATE_S) for label in labels}
            good_loads = {label: load for label, load in loads.items() if load.p99_ms <= BOUND_MS}
            best_results |= {label: (rate, load) for label, load in good_loads.items()}
            labels = [label for label in labels if label not in good_loads]
        for label in cases:
            misses[label] = 0 if best_results[label][0] == rate else misses[label] + (label in labels)
    return best_results


def _describe(load: Load) -> dict[str, float]:
    if load.failures:
        raise RuntimeError(f"{load.failures} requests failed")
    return {
        "p50 ms": round(load.p50_ms, 2),
        "p99 ms": round(load.p99_ms, 2),
        "p99.9 ms": round(load.compute_quantile_ms(0.999), 2),
        "CPU ms a request": round(load.cpu_ms, 2),
        "CPU ms a request, first process": round(load.own_cpu_ms, 2),
        "requests/s": round(len(load.latencies_s) / load.elapsed_s, 1),
        "load": round(os.getloadavg()[0], 2),
    }
