"""Measure how fast Airflow's API server sends the documents of Leeway's page, and how long the plugin's import takes.

The documents have 20 models, up to 53 weeks of a model, and three years of days of a dataset (ui/fixtures). The peer is
Airflow's own list of DAGs, from the same server. LEEWAY_BENCH_REQUESTS sets the number of requests to each address.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import requests

from benchmarks.serving.servers import PROJECT, build_environment, find_port, run_command, start_server

REQUESTS = int(os.environ.get("LEEWAY_BENCH_REQUESTS", "300"))
IMPORTS = 9
"""Number of measured imports of the plugin."""
PASSWORD = "only for this benchmark"
PEER = "Airflow: list of DAGs"
ADDRESSES = {
    "list of models": "leeway/documents/models",
    "a model": "leeway/documents/models/flights",
    "a dataset": "leeway/documents/data/flights",
    "costs": "leeway/documents/costs",
    "running jobs": "leeway/documents/jobs",
    "script": "leeway/leeway.js",
    PEER: "api/v2/dags?limit=100",
}
IMPORT = """
import time
import {before}
begin = time.perf_counter()
import leeway.plugin
print(time.perf_counter() - begin)
"""


def run() -> dict[str, Any]:
    """Return the seconds of the requests; as facts, their 95th percentiles and the median time of an import.

    Raises:
        RuntimeError: the server did not start, or refused a request.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = f"http://127.0.0.1:{find_port()}"
        environment = {**build_environment(folder), **_build_airflow_variables(folder, url)}
        (folder / "passwords.json").write_text(json.dumps({"bench": PASSWORD}), encoding="utf-8")
        run_command([str(PROJECT / "ui/fixtures/write_fixtures.py"), str(folder / "home/status")], environment, folder)
        run_command(["-m", "airflow", "db", "migrate"], environment, folder)
        run_command(["-m", "airflow", "dags", "reserialize"], environment, folder)
        with start_server(["-m", "airflow", "api-server"], environment, f"{url}/api/v2/version"):
            seconds = _measure_requests(url)
        imports = [_measure_import(environment, folder) for _ in range(IMPORTS)]
    facts = {f"{row}: 95th percentile, ms": _compute_p95_ms(values) for row, values in seconds.items()}
    facts["import of the plugin after Airflow's: median, ms"] = round(1e3 * statistics.median(imports), 1)
    return {"seconds": seconds, "facts": facts}


def _build_airflow_variables(folder: Path, url: str) -> dict[str, str]:
    options = {
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
        "CORE__SIMPLE_AUTH_MANAGER_USERS": "bench:admin",
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(folder / "passwords.json"),
        "API__HOST": "127.0.0.1",
        "API__PORT": url.rpartition(":")[2],
        "API__BASE_URL": url,
        "API__WORKERS": "1",
        "API__SECRET_KEY": "only-for-this-benchmark",
        "API_AUTH__JWT_SECRET": "only-for-this-benchmark-" * 3,
    }
    variables = {f"AIRFLOW__{name}": value for name, value in options.items()}
    return {**variables, "AIRFLOW_HOME": str(folder), "LEEWAY_PROJECT": str(PROJECT)}


def _measure_requests(url: str) -> dict[str, list[float]]:
    """Return the seconds of each request, by address; the addresses alternate."""
    with requests.Session() as session:
        login = session.post(f"{url}/auth/token", json={"username": "bench", "password": PASSWORD}, timeout=60)
        session.headers["Authorization"] = f"Bearer {login.json()['access_token']}"
        seconds: dict[str, list[float]] = {row: [] for row in ADDRESSES}
        for number in range(REQUESTS + 1):
            for row, path in ADDRESSES.items():
                begin = time.perf_counter()
                response = session.get(f"{url}/{path}", timeout=60)
                elapsed_s = time.perf_counter() - begin
                if not response.ok:
                    raise RuntimeError(f"{path}: {response.status_code} {response.text[:200]}")
                if number:  # the first request creates the application
                    seconds[row].append(elapsed_s)
    return seconds


def _measure_import(environment: dict[str, str], folder: Path) -> float:
    """Return the seconds that a process needs to import the plugin after the modules that Airflow imports anyway."""
    code = IMPORT.format(before="airflow.plugins_manager, pydantic_settings, yaml")
    command = [sys.executable, "-c", code]
    process = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    return float(process.stdout.split()[-1])


def _compute_p95_ms(values: list[float]) -> float:
    return round(1e3 * statistics.quantiles(values, n=20)[-1], 1)
