"""Test which images of the engine are used: those for the architecture of the machine. The engine is a script."""

import os
import sys
from pathlib import Path

import pytest

from drydock.errors import RunFailed
from drydock.execution import image as image_module
from drydock.execution.image import Images

# The machine is amd64. The name of an image is its architecture, and the image `missing` does not exist.
DOCKER = """#!/bin/sh
if [ "$1" = version ]; then echo amd64; exit; fi
for image; do :; done
if [ "$image" = missing ]; then echo "Error response from daemon: No such image: missing" >&2; exit 1; fi
echo "$image"
"""


@pytest.fixture(autouse=True)
def set_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the script on the path; return the folder of the machine's emulators, which is empty."""
    docker, emulators = tmp_path / "bin" / "docker", tmp_path / "emulators"
    docker.parent.mkdir()
    emulators.mkdir()
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{docker.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(image_module, "EMULATORS_FOLDER", emulators)
    monkeypatch.setattr(sys, "platform", "linux")
    return emulators


@pytest.mark.parametrize("architecture", ["amd64", "386"])
def test_image_that_the_machine_can_run_is_used(architecture: str) -> None:
    assert Images().find_image(architecture) == architecture


@pytest.mark.parametrize("architecture", ["arm64", "arm", "riscv64"])
def test_image_for_another_architecture_is_refused_in_one_line(architecture: str) -> None:
    with pytest.raises(RunFailed) as error:
        Images().find_image(architecture)
    assert error.value.reason == (
        f"ClientError: the image {architecture} is for {architecture}, and this machine's architecture is amd64: "
        "build or pull it for linux/amd64."
    )


def test_image_that_an_emulator_runs_is_used(set_engine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (set_engine / "qemu-aarch64").touch()
    assert Images().find_image("arm64") == "arm64"
    (set_engine / "qemu-aarch64").unlink()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert Images().find_image("arm64") == "arm64", "the engine's virtual machine has emulators"


def test_missing_image_is_no_matter_of_the_architecture() -> None:
    with pytest.raises(RunFailed, match="the container engine has no image missing"):
        Images().find_image("missing")
