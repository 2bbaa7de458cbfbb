"""Test that MLflow's server starts after its first start was killed at any time, also while it created its database."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import requests

from pipelines.system.mlflow_server import is_reachable
from tests.tools.groups import end_group
from tests.tools.waiting import wait_until

ROOT = Path(__file__).parents[4]


@contextmanager
def run_server(database: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run the server in a process group of its own, and kill the group at the end."""
    address = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    server = subprocess.Popen(
        [sys.executable, "-m", "stack.services.mlflow_server", str(database), *address],
        cwd=database.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    try:
        yield server
    finally:
        end_group(server)


def has_tables(folder: Path) -> bool:
    """Return whether a database in the folder has tables."""
    for path in folder.glob("mlflow.db*"):
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=0)) as db:
                if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    return True
        except sqlite3.Error:
            continue
    return False


def kill_during_creation(database: Path, port: int) -> None:
    """Kill a server while it creates its tables. A kill that came too late is repeated, without the database."""
    for _ in range(10):
        with run_server(database, port):
            wait_until(lambda: has_tables(database.parent), timeout_s=120, max_pause_s=0.005)
        if not database.exists():
            return
        database.unlink()
    raise AssertionError("the database was there at each kill")


@pytest.mark.soak
def test_server_that_was_killed_while_it_created_its_tables_starts_again(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    database, port = tmp_path / "mlflow.db", free_port()
    kill_during_creation(database, port)
    with run_server(database, port) as server:
        wait_until(lambda: is_reachable(f"http://127.0.0.1:{port}", 1.0) or server.poll() is not None, timeout_s=120)
        assert server.poll() is None
        url = f"http://127.0.0.1:{port}/api/2.0/mlflow/experiments/search"
        assert requests.post(url, json={"max_results": 9}, timeout=120).ok
    assert [path.name for path in tmp_path.glob("mlflow.db*draft*")] == []


def test_server_ends_where_its_database_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = [sys.executable, "-m", "stack.services.mlflow_server", str(tmp_path / "file" / "mlflow.db")]
    result = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("error: MLflow cannot create ")
