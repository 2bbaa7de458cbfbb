"""Start the servers that the serving benchmarks need, in folders of their own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from pipelines.system.mlflow_server import is_reachable

PROJECT = Path(__file__).parents[2]
START_S = 120
"""Longest wait until a server answers, seconds."""


class Drydock(NamedTuple):
    """A running drydock."""

    url: str
    pid: int
    """Process id of the server."""
    variables: dict[str, str]
    """Environment variables of its clients."""

    def materialize(self, day: str, environment: dict[str, str], folder: Path) -> None:
        """Write the values of the lookups of flights on a day to the online store.

        Raises:
            RuntimeError: the command failed.
        """
        command = ["-m", "pipelines", "materialize", "--dataset", "flights", "--partition", day]
        run_command(command, environment | self.variables, folder)


def build_environment(folder: Path) -> dict[str, str]:
    """Create a home, a project and a working folder, and return all environment variables of the benchmark's commands.

    Those variables of this process that could lead to another stack or to AWS are left out.
    """
    for name in ("home", "project", "work"):
        (folder / name).mkdir()
    prefixes = ("LEEWAY_", "MLFLOW_", "AWS_")
    inherited_variables = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    return {
        **inherited_variables,
        "PYTHONPATH": f"{PROJECT}:{PROJECT / 'plugins'}",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LEEWAY_HOME": str(folder / "home"),
        "LEEWAY_PROJECT": str(folder / "project"),
        "MLFLOW_TRACKING_URI": f"http://127.0.0.1:{find_port()}",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "OMP_WAIT_POLICY": "passive",  # as in the stack: idle OpenMP threads do not spin
    }


def run_command(arguments: list[str], environment: dict[str, str], folder: Path) -> None:
    """Run Python with these arguments in a folder.

    Raises:
        RuntimeError: the command failed.
    """
    command = [sys.executable, *arguments]
    process = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if process.returncode:
        raise RuntimeError(process.stderr[-2000:])


def start_registry(folder: Path, environment: dict[str, str]) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Start MLflow's server at the environment's MLFLOW_TRACKING_URI; end it when the block ends."""
    uri = environment["MLFLOW_TRACKING_URI"]
    address = ["--host", "127.0.0.1", "--port", uri.rpartition(":")[2], "--workers", "1"]
    store = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", f"{folder}/files"]
    return start_server(["-m", "mlflow", "server", *address, *store], environment, f"{uri}/health")


@contextmanager
def start_drydock(folder: Path, environment: dict[str, str], *options: str) -> Iterator[Drydock]:
    """Start drydock, which keeps its data in the folder; end it when the block ends."""
    url = f"http://127.0.0.1:{find_port()}"
    command = ["-m", "drydock", "--port", url.rpartition(":")[2], "--data", str(folder / "drydock"), *options]
    with start_server(command, environment, f"{url}/drydock/health") as process:
        keys = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_DEFAULT_REGION": "us-east-1"}
        yield Drydock(url, process.pid, {**keys, "AWS_ENDPOINT_URL": url})


@contextmanager
def start_server(arguments: list[str], environment: dict[str, str], address: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server, and wait until it answers at `address`; end it when the block ends."""
    base, _, path = address.rpartition("/")
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, *arguments], env=environment, cwd=PROJECT, stdout=log, stderr=log, start_new_session=True
        )
        try:
            deadline = time.monotonic() + START_S
            while not _is_answering(base, path):
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    raise RuntimeError(f"{' '.join(arguments)}: {log.read()[-2000:].decode()}")
                time.sleep(0.05)
            yield process
        finally:
            process.terminate()
            process.wait()


def _is_answering(base: str, path: str) -> bool:
    """Return whether a server answers at BASE/PATH. `is_reachable` appends /health to its address itself."""
    if path == "health":
        return is_reachable(base, 1.0)
    import requests

    try:
        return requests.get(f"{base}/{path}", timeout=1).ok
    except requests.RequestException:
        return False


def find_port() -> int:
    """Return a free port of the loopback address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
