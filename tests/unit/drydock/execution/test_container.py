"""Test the container executor without an engine, and the packages of the training image."""

import json
import os
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from drydock.errors import RunFailed
from drydock.execution.container import ContainerExecutor
from drydock.execution.engine import find_engine_problem
from drydock.execution.exits import read_command_exit
from drydock.execution.image import Images
from drydock.host.executor import HostPlan
from drydock.host.tree import HostTree

REPOSITORY = Path(__file__).parents[4]
TRAINING_IMAGE = REPOSITORY / "docker" / "training"
# Packages of the lock that the image does not have, since it is CPython 3.11 on Linux.
OTHERS = ("== 'win32'", "== 'emscripten'", ">= '3.12'")


@pytest.fixture
def no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make docker unusable: the command is missing or no engine answers."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-such-socket")


def test_reports_a_missing_docker_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_engine_problem() == "cannot execute docker: No such file or directory"


def test_cannot_start_without_an_engine(no_engine: None, tmp_path: Path) -> None:
    assert find_engine_problem()
    log, process_file = tmp_path / "log", tmp_path / "process_file"
    plan = HostPlan("job", "algo-1", {}, tmp_path, ["true"], {}, tmp_path, log, process_file, "image", 1, 512)
    with pytest.raises(RunFailed, match=r"^InternalServerError: .*docker"):
        ContainerExecutor(Images()).start(plan)
    assert not process_file.exists()


def test_keeps_the_process_file_without_an_engine(no_engine: None, tmp_path: Path) -> None:
    process_file = tmp_path / "process_file"
    process_file.write_text('{"container": "c0ffee"}')
    executor = ContainerExecutor(Images())
    with pytest.raises(RunFailed, match="docker"):
        executor.kill_leftover_host(process_file)
    assert process_file.exists()
    with pytest.raises(RunFailed, match="docker"):
        executor.kill_all_hosts(tmp_path)


@pytest.mark.parametrize("content", [None, "no json", "{}", "[]", '{"pid": 1}'])
def test_an_invalid_process_file_needs_no_engine(no_engine: None, tmp_path: Path, content: str | None) -> None:
    process_file = tmp_path / "process_file"
    if content is not None:
        process_file.write_text(content)
    assert ContainerExecutor(Images()).kill_leftover_host(process_file) is False
    assert not process_file.exists()


# Answers `docker container inspect` with the state of the file, and any other command with success.
DOCKER = """#!/bin/sh
if [ "$2" = inspect ]; then cat {state}; fi
"""


@pytest.mark.parametrize(
    ("status", "exit_code", "expected"),
    [("exited", 0, 0), ("exited", 3, 3), ("exited", 137, None), ("running", 0, None), ("created", 0, None)],
)
def test_exit_code_of_a_leftover_container_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str, exit_code: int, expected: int | None
) -> None:
    tree, state, docker = HostTree(tmp_path / "algo-1"), tmp_path / "state", tmp_path / "bin" / "docker"
    finished_at = "2026-01-01T00:00:01.123456789Z"
    content = {"Status": status, "Running": status == "running", "ExitCode": exit_code, "FinishedAt": finished_at}
    state.write_text(json.dumps(content))
    docker.parent.mkdir()
    docker.write_text(DOCKER.format(state=state))
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{docker.parent}:{os.environ['PATH']}")
    tree.process_file.write_text(json.dumps({"container": "c0ffee", "exit_file": str(tree.exit_file)}))
    assert ContainerExecutor(Images()).kill_leftover_host(tree.process_file) is (status == "running")
    command_exit = read_command_exit([tree])
    assert (command_exit and command_exit.exit_code) == expected
    if command_exit:
        assert command_exit.ended_at == datetime(2026, 1, 1, 0, 0, 1, 123456, UTC)


def test_reports_a_missing_dockerfile(tmp_path: Path) -> None:
    if find_engine_problem():
        pytest.skip("no container engine, which alone can say that it has no image: apt-get install docker.io")
    with pytest.raises(RunFailed, match=r"cannot read the folder of .*nowhere/Dockerfile"):
        Images(tmp_path / "nowhere" / "Dockerfile").find_image("no-such/image:1")


def test_the_training_image_has_the_versions_of_the_lock() -> None:
    lock = tomllib.loads((REPOSITORY / "uv.lock").read_text(encoding="utf-8"))["package"]
    lines = (TRAINING_IMAGE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    chosen = {
        package["name"]: package
        for package in lock
        if package["name"] in pins and not _is_for_another_python(package.get("resolution-markers", []))
    }
    assert {name: package["version"] for name, package in chosen.items()} == pins
    needed = {
        needs["name"]
        for package in chosen.values()
        for needs in package.get("dependencies", [])
        if not _is_for_another_python([needs.get("marker", "")])
    }
    assert {"numpy", "scipy", "six"} <= needed <= pins.keys()


def _is_for_another_python(markers: list[str]) -> bool:
    return bool(markers) and all(any(other in marker for other in OTHERS) for marker in markers)
