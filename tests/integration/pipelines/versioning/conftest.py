"""A project with one stage, whose runs are counted."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WORK = """
import os, pathlib, sys, time, yaml

day = str(yaml.safe_load(open("params.yaml"))["snapshot"]["as_of"])
count = pathlib.Path(os.environ["COUNT"])
with count.open("a") as file:
    file.write(f"{day}\\n")
ends = time.monotonic() + 60
while len(count.read_text().split()) < int(os.environ.get("TOGETHER", "0")) and time.monotonic() < ends:
    time.sleep(0.01)
folder = pathlib.Path("data/features")
folder.mkdir(parents=True, exist_ok=True)
for number in range(int(os.environ.get("TOY_FILES", "3"))):
    (folder / str(number)).write_bytes(f"{day} {number}\\n".encode() * int(os.environ.get("TOY_LINES", "1")))
"""
STAGES = """
stages:
  features:
    cmd: python pipelines/work.py
    deps: [pipelines/work.py]
    params: [snapshot.as_of]
    outs: [data/features]
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A project with one stage, in a git repository."""
    project = tmp_path / "toy"
    files = {
        "pipelines/work.py": WORK,
        "expectations/none.json": "{}",
        "dvc.yaml": STAGES,
        "params.yaml": 'snapshot:\n  as_of: "2013-01-01"\n',
        ".gitignore": "/data/\n",
    }
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run([*git, *arguments], cwd=project, check=True)
    return project


@pytest.fixture
def repro(commands: Any, toy: Path, home: Path, tmp_path: Path) -> Callable[..., Any]:
    """Starts `python -m pipelines repro` of the toy project."""
    given = {"LEEWAY_PROJECT": str(toy), "LEEWAY_HOME": str(home), "COUNT": str(tmp_path / "count")}

    def start(workspace: str, day: str, **env: str) -> Any:
        parts = {"workspace": workspace, "targets": '["features"]', "params": f'{{"snapshot": {{"as_of": "{day}"}}}}'}
        options = [text for name, value in parts.items() for text in (f"--{name}", value)]
        out = tmp_path / f"{workspace}.log"
        with out.open("w") as log:
            return commands.start(
                sys.executable, "-m", "pipelines", "repro", *options, env={**given, **env}, stdout=log, stderr=log
            )

    return start
