"""Provide a home with real state (a lake, databases, objects, keys), and a backup of it."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from stack.backups.archive import EXCLUDED_NAMES
from stack.layout import Layout

ROOT = Path(__file__).parents[4]
WRITE_LAKE = """
import datetime as dt, pyarrow as pa
from pipelines.lake import Lake
lake = Lake.open()
for n in (1, 2):
    day = dt.date(2026, 1, n)
    lake.write_partition("boats", day, pa.table({"date": [day] * 3, "number": [n, n + 1, n + 2]}))
"""
READ_LAKE = """
import datetime as dt
from pipelines.lake import Lake
print(sorted(Lake.open().read_partition("boats", dt.date(2026, 1, 2))["number"].to_pylist()))
"""
KILL_AT_CALL = """
import importlib, os, signal, sys
from pathlib import Path
from stack.backups.backup import back_up
from stack.backups.restore import restore
from stack.layout import Layout
module, name, count = sys.argv[1:4]
calls, owner = [], importlib.import_module(module)
real = getattr(owner, name)
def kill_at_call(*args, **kw):
    calls.append(1)
    if len(calls) == int(count):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **kw)
setattr(owner, name, kill_at_call)
{statement}
"""
STATE_FILES = {
    "airflow/airflow.cfg": "[core]\nfernet_key = k\n",
    "mlflow/artifacts/1/model.bin": "model",
    "dvc/cache/files/md5/ab/cd": "features",
    "drydock/objects/leeway/key": "object",
    "docs/index.html": "docs",
    "uv/bin/uv": "tool",
    "workspaces/one/dvc.yaml": "stages: {}",
    "stack.lock": "",
}


class HomeWithBackup:
    """A home, and an archive of it. All tests use the same path, because a restore requires it."""

    def __init__(self, folder: Path) -> None:
        self.project, self.home = folder / "project", folder / "project" / ".leeway"
        self.archive, self.original = folder / "kept.tar", folder / "original"
        self.layout = Layout(self.home, self.project)
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("LEEWAY_")},
            **{"PYTHONPATH": str(ROOT), "LEEWAY_PROJECT": str(self.project), "LEEWAY_HOME": str(self.home)},
        }
        (self.project / "dags").mkdir(parents=True)
        self._write_state()
        result = self.run_stack("backup", str(self.archive))
        assert result.returncode == 0, result.stderr
        self.backup_output = result.stdout
        self.original_state = self.read_state()
        shutil.copytree(self.home, self.original, symlinks=True)

    def _write_state(self) -> None:
        self.run_python("-c", WRITE_LAKE)
        for name, text in STATE_FILES.items():
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text(text)
        (self.home / "airflow/airflow.cfg").chmod(0o600)
        (self.home / "airflow/latest").symlink_to("nowhere")
        with sqlite3.connect(self.home / "airflow/airflow.db") as connection:
            connection.execute("CREATE TABLE said (text)")
            connection.execute("INSERT INTO said VALUES ('a run')")
        connection.close()
        (self.home / "mlflow/mlflow.db").write_bytes((self.home / "airflow/airflow.db").read_bytes())

    def remove(self) -> None:
        """Remove the home, and the folders that a killed restore left beside it."""
        for name in (".leeway", "..leeway.restoring", "..leeway.replaced"):
            shutil.rmtree(self.project / name, ignore_errors=True)

    def list_leftovers(self) -> list[str]:
        """Return the names of the folders that a restore left beside the home."""
        return [path.name for path in self.project.iterdir() if "leeway." in path.name]

    def start_python(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.project,
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run_python(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        child = self.start_python(*arguments, **env)
        stdout, stderr = child.communicate()
        return subprocess.CompletedProcess(arguments, child.returncode, stdout, stderr)

    def run_stack(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run_python("-m", "stack", *arguments)

    def run_until_killed(self, statement: str, module: str, name: str, count: int) -> subprocess.CompletedProcess[str]:
        """Run the statement in a process that kills itself at call number `count` of MODULE.NAME."""
        return self.run_python("-c", KILL_AT_CALL.format(statement=statement), module, name, str(count))

    def read_lake(self) -> str:
        return self.run_python("-c", READ_LAKE).stdout

    def read_state(self) -> dict[str, tuple[int, str]]:
        """Return mode and digest of each file of the state. The digest of a database is that of its SQL dump."""
        state = {}
        for path in sorted(self.home.rglob("*")):
            name = str(path.relative_to(self.home))
            is_excluded = name.split("/", maxsplit=1)[0] in (*EXCLUDED_NAMES, "stack.lock")
            if not path.is_file() or path.is_symlink() or is_excluded:
                continue
            content = path.read_bytes()
            if content.startswith(b"SQLite"):
                with sqlite3.connect(path) as connection:
                    content = "\n".join(connection.iterdump()).encode()
                connection.close()
            state[name] = (path.stat().st_mode & 0o777, hashlib.sha256(content).hexdigest())
        return state


@pytest.fixture(scope="session")
def home_with_backup(tmp_path_factory: pytest.TempPathFactory) -> HomeWithBackup:
    return HomeWithBackup(tmp_path_factory.mktemp("home"))


@pytest.fixture
def full_home(home_with_backup: HomeWithBackup) -> HomeWithBackup:
    """Return the home with its original state."""
    home_with_backup.remove()
    shutil.copytree(home_with_backup.original, home_with_backup.home, symlinks=True)
    return home_with_backup


@pytest.fixture
def empty_home(home_with_backup: HomeWithBackup) -> HomeWithBackup:
    """Return the home with only the folder `uv`, which `make` creates."""
    home_with_backup.remove()
    (home_with_backup.home / "uv").mkdir(parents=True)
    return home_with_backup
