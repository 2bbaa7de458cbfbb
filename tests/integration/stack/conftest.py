"""Provide a project with small DAGs and a fake drydock, for the real Airflow and the real MLflow."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.tools.waiting import wait_until

ROOT = Path(__file__).parents[3]
STAND_IN = Path(__file__).parent / "stand_in"


@pytest.fixture
def wait_for() -> Callable[..., None]:
    return partial(wait_until, timeout_s=300.0, max_pause_s=0.3)


@dataclass
class Project:
    """A project in its own folder, which the tests use through commands, as a user does."""

    folder: Path
    children: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.folder / ".leeway"

    @property
    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self.home / "stack.json").read_text())
        return record

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command of `python -m stack`."""
        inherited_variables = {name: value for name, value in os.environ.items() if not name.startswith("LEEWAY_")}
        child = subprocess.Popen(
            [sys.executable, "-m", "stack", *arguments],
            cwd=ROOT,
            env={**inherited_variables, "LEEWAY_PROJECT": str(self.folder), "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.children.append(child)
        return child

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `python -m stack` to its end."""
        child = self.start(*arguments)
        out, err = child.communicate(timeout=600)  # as long as a start may take on a loaded machine
        return subprocess.CompletedProcess(child.args, child.returncode, out, err)

    def list_processes(self) -> list[psutil.Process]:
        """Return the living processes of this project's stack, found without the product's own search."""
        processes = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if f"LEEWAY_HOME={self.home}\0".encode() in path.read_bytes():
                    process = psutil.Process(int(path.parent.name))
                    processes += [process] if process.status() != psutil.STATUS_ZOMBIE else []
            except (OSError, psutil.Error):
                continue
        return processes

    def kill(self, *services: str) -> None:
        """Send SIGKILL to services of the stack, or to its `supervisor`."""
        for name in services:
            record = self.record[name] if name == "supervisor" else self.record["services"][name]
            process = psutil.Process(record["pid"])
            assert process.create_time() == record["created"]
            process.kill()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Return the project. Its stack is stopped after the module."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(STAND_IN, folder, dirs_exist_ok=True)
    project = Project(folder)
    yield project
    for child in project.children:
        if child.poll() is None:
            child.kill()
            child.communicate()
    assert project.run("down").returncode == 0


@pytest.fixture
def foreign_process(project: Project) -> Iterator[subprocess.Popen[bytes]]:
    """Return a process with the environment variables of another home's stack. It must survive every command."""
    env = {"LEEWAY_HOME": str(project.home) + "-of-another", "LEEWAY_STACK_ID": "another"}
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=env)
    yield child
    assert child.poll() is None
    child.kill()
    child.wait()
