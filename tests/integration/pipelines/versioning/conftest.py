"""Provide a project with one DVC stage, which appends a line to a file whenever it runs."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

STAGE_SCRIPT = """
import os, pathlib, sys, time, yaml

day = str(yaml.safe_load(open("params.yaml"))["snapshot"]["as_of"])
run_log = pathlib.Path(os.environ["RUN_LOG"])
with run_log.open("a") as file:
    file.write(f"{day}\\n")
deadline = time.monotonic() + 60
while len(run_log.read_text().split()) < int(os.environ.get("RUNS_TO_WAIT_FOR", "0")) and time.monotonic() < deadline:
    time.sleep(0.01)
folder = pathlib.Path("data/features")
folder.mkdir(parents=True, exist_ok=True)
for number in range(int(os.environ.get("TOY_FILES", "3"))):
    (folder / str(number)).write_bytes(f"{day} {number}\\n".encode() * int(os.environ.get("TOY_LINES", "1")))
"""
DVC_YAML = """
stages:
  features:
    cmd: python pipelines/work.py
    deps: [pipelines/work.py]
    params: [snapshot.as_of]
    outs: [data/features]
"""


@pytest.fixture
def toy_project(tmp_path: Path) -> Path:
    """Return a project with one stage, in a git repository."""
    project = tmp_path / "toy"
    files = {
        "pipelines/work.py": STAGE_SCRIPT,
        "expectations/none.json": "{}",
        "dvc.yaml": DVC_YAML,
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
def start_repro(commands: Any, toy_project: Path, home: Path, tmp_path: Path) -> Callable[..., Any]:
    """Return the function that starts `python -m pipelines repro` of the toy project for a day."""
    variables = {"LEEWAY_PROJECT": str(toy_project), "LEEWAY_HOME": str(home), "RUN_LOG": str(tmp_path / "runs")}

    def start(workspace: str, day: str, **env: str) -> Any:
        arguments = {
            "workspace": workspace,
            "targets": '["features"]',
            "params": f'{{"snapshot": {{"as_of": "{day}"}}}}',
        }
        options = [text for name, value in arguments.items() for text in (f"--{name}", value)]
        log_path = tmp_path / f"{workspace}.log"
        with log_path.open("w") as log:
            return commands.start(
                sys.executable, "-m", "pipelines", "repro", *options, env={**variables, **env}, stdout=log, stderr=log
            )

    return start
