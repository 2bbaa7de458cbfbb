"""A stand-in project (small DAGs, a small drydock) under the real Airflow and the real MLflow."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).parents[3]
STAND_IN = Path(__file__).parent / "stand_in"


def wait_for(what: Callable[[], object], within_s: float = 300.0) -> None:
    """Returns as soon as `what()` is true."""
    ends, pause_s = time.monotonic() + within_s, 0.05
    while not what():
        assert time.monotonic() < ends, "it did not come about"
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, 0.3)  # a look through /proc takes a core from what is waited for


@pytest.fixture(name="wait_for")
def _wait_for() -> Callable[..., None]:
    return wait_for


@dataclass
class Project:
    """A project in a folder of its own, driven as a person drives it: by commands."""

    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.folder / ".leeway"

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.home / "stack.json").read_text())
        return found

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """The command, running."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LEEWAY_")}
        child = subprocess.Popen(
            [sys.executable, "-m", "stack", *arguments],
            cwd=ROOT,
            env={**kept, "LEEWAY_PROJECT": str(self.folder), "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(child)
        return child

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command, ended."""
        child = self.start(*arguments)
        out, err = child.communicate(timeout=300)
        return subprocess.CompletedProcess(child.args, child.returncode, out, err)

    def marked(self) -> list[psutil.Process]:
        """Living processes of this project's stack; looked for here in another way than the product does."""
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if f"LEEWAY_HOME={self.home}\0".encode() in path.read_bytes():
                    process = psutil.Process(int(path.parent.name))
                    found += [process] if process.status() != psutil.STATUS_ZOMBIE else []
            except (OSError, psutil.Error):
                continue
        return found

    def kill(self, *services: str) -> None:
        """kill -9 of what this stack's record names: services, or `keeper`."""
        for name in services:
            record = self.state["keeper"] if name == "keeper" else self.state["services"][name]
            process = psutil.Process(record["pid"])
            assert process.create_time() == record["created"]
            process.kill()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The stand-in project; nothing of it is left running after the module."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(STAND_IN, folder, dirs_exist_ok=True)
    found = Project(folder)
    yield found
    for child in found.started:
        if child.poll() is None:
            child.kill()
            child.communicate()
    assert found.run("down").returncode == 0


@pytest.fixture
def foreign(project: Project) -> Iterator[subprocess.Popen[bytes]]:
    """A process that looks a little like ours, and must survive everything."""
    env = {"LEEWAY_HOME": str(project.home) + "-of-another", "LEEWAY_STACK_ID": "another"}
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=env)
    yield child
    assert child.poll() is None
    child.kill()
    child.wait()
