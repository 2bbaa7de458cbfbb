"""Test tools/offline-images with fakes of docker and debootstrap that only record their arguments."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tools import compose
from tests.tools.dockerfile import parse_dockerfile

TOOL = compose.ROOT / "tools/offline-images"
STAND_INS = sorted(path.parent for path in (compose.ROOT / "docker/offline").glob("*/Dockerfile"))
"""Folders of the images that are built in place of external images, where no image can be pulled."""
REAL_PROGRAMS = ("bash", "cat", "cp", "dirname", "env", "grep", "mkdir", "mktemp", "rm", "sed", "sort", "tail", "tar")
FAKES = {
    "id": "echo 0",
    "apt-get": "echo http://mirror.example/debian; echo http://other.example/debian",
    "debootstrap": 'echo "debootstrap $*" >>"$CALLS"; mkdir -p "$4/etc/ssl/certs"',
    "docker": """
        echo "docker $*" >>"$CALLS"
        case "$1 $2" in
            "image inspect") grep -qxF "$3" "$IMAGES" ;;
            "import "*) cat >/dev/null ;;
        esac
    """,
}


class Machine:
    """A machine on which the tool runs: its programs, its images, and the recorded calls."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.calls, self.images = folder / "bin", folder / "calls", folder / "images"
        self.bin.mkdir()
        self.calls.touch()
        self.images.touch()
        for name in REAL_PROGRAMS:
            (self.bin / name).symlink_to(str(shutil.which(name)))
        for name, script in FAKES.items():
            self.write_program(name, script)

    def write_program(self, name: str, script: str) -> None:
        """Write a fake program, replacing the one of that name."""
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the tool with this machine's programs only."""
        env = {"PATH": str(self.bin), "CALLS": str(self.calls), "IMAGES": str(self.images)}
        env["TMPDIR"] = str(self.bin.parent)
        return subprocess.run([str(TOOL), *arguments], env=env, capture_output=True, text=True)

    def list_built(self) -> list[str]:
        """List the names of the images that were built."""
        return re.findall(r"^docker build .*--tag (\S+)", self.calls.read_text(), re.MULTILINE)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return a machine without images."""
    return Machine(tmp_path)


def insert_arguments(image: str, arguments: dict[str, str]) -> str:
    """Replace each ${NAME} in the name of an image."""
    return re.sub(r"\$\{(\w+)\}", lambda match: arguments[match[1]], image)


def list_external_images() -> set[str]:
    """List the images of other projects that the Compose file and the Dockerfiles name."""
    files = [compose.ROOT / "Dockerfile", *(compose.ROOT / "docker").glob("*/Dockerfile")]
    images = {str(service.get("image", "")) for service in compose.load()["services"].values()}
    for file in files:
        arguments, stages = parse_dockerfile(file.read_text())
        bases = {insert_arguments(stage.base, arguments) for stage in stages.values()}
        images |= bases - {name for name, stage in stages.items() if name != stage.base}
    return {image for image in images if not image.startswith("leeway/")}


def test_list_names_every_external_image(machine):
    sources = dict(line.split(": ") for line in machine.run("--list").stdout.splitlines())
    assert set(sources) == list_external_images()
    folders = {str(folder.relative_to(compose.ROOT)) for folder in STAND_INS}
    assert set(sources.values()) - {"no stand-in"} == folders
    assert machine.calls.read_text() == ""


def test_missing_images_are_built(machine):
    result = machine.run()
    assert result.returncode == 0, result.stderr
    assert {image.split(":")[0] for image in machine.list_built()} == {"postgres", "python", "redis"}
    assert set(machine.list_built()) < list_external_images()
    calls = machine.calls.read_text()
    assert re.search(r"^debootstrap .*bookworm \S+ http://mirror.example/debian$", calls, re.MULTILINE)
    assert "grafana" not in "".join(machine.list_built())
    assert [path.name for path in machine.bin.parent.iterdir() if path.name.startswith("tmp.")] == []


def test_existing_images_are_not_built_again(machine):
    machine.images.write_text("\n".join(list_external_images()))
    assert machine.run().returncode == 0
    assert machine.list_built() == []
    assert "debootstrap" not in machine.calls.read_text()


def test_mirror_can_be_named(machine):
    machine.write_program("apt-get", "exit 1")
    assert machine.run("--mirror", "http://mine.example/debian").returncode == 0
    assert "http://mine.example/debian" in machine.calls.read_text()


def test_failure_of_debootstrap_is_reported_and_leaves_no_files(machine):
    machine.write_program("debootstrap", "echo W: no such mirror; exit 1")
    result = machine.run()
    assert result.returncode == 1
    assert "no such mirror" in result.stderr
    assert machine.list_built() == []
    assert [path.name for path in machine.bin.parent.iterdir() if path.name.startswith("tmp.")] == []


@pytest.mark.parametrize(
    ("program", "script", "message"),
    [
        ("id", "echo 1000", "debootstrap needs root"),
        ("debootstrap", None, "no debootstrap here"),
        ("docker", None, "no docker here"),
        ("docker", "exit 1", "no Docker engine answers"),
        ("apt-get", "true", "apt names no mirror"),
    ],
)
def test_unsuitable_machine_is_refused_in_one_line(machine, program, script, message):
    machine.write_program(program, script) if script else (machine.bin / program).unlink()
    result = machine.run()
    assert result.returncode == 2
    assert re.fullmatch(rf"error: {message}[^\n]*\n", result.stderr)
    assert machine.list_built() == []


@pytest.mark.parametrize("arguments", [["--what"], ["--mirror"]])
def test_unknown_or_incomplete_arguments_are_refused(machine, arguments):
    result = machine.run(*arguments)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)


def test_tool_is_executable_and_has_a_help_text(machine):
    assert "usage: tools/offline-images" in machine.run("--help").stdout
    assert os.access(TOOL, os.X_OK)


@pytest.mark.parametrize("folder", STAND_INS, ids=lambda path: path.name)
def test_stand_in_is_based_on_the_image_that_the_tool_makes(folder):
    _, stages = parse_dockerfile((folder / "Dockerfile").read_text())
    (stage,) = stages.values()
    assert f"\nDEBIAN={stage.base} " in TOOL.read_text()
    assert stage.list_arguments("LABEL") == [f"leeway.stand-in={folder.name}"]


def test_entrypoint_of_postgres_has_no_syntax_error():
    script = compose.ROOT / "docker/offline/postgres/entrypoint.sh"
    assert subprocess.run(["/bin/sh", "-n", str(script)]).returncode == 0


def test_stand_in_of_the_s3_store_is_the_image_of_drydock():
    override = compose.load(path=compose.ROOT / "docker/offline/compose.yaml")
    (name,) = override["services"]
    store, drydock = override["services"][name], compose.load()["services"]["drydock"]
    assert name == "s3"
    assert store["image"] == drydock["image"]
    assert store["build"]["target"] == drydock["build"]["target"]
    assert store["command"][0] == drydock["command"][0]
    # The server listens on the port that its clients use. Its volume is mounted at a folder that the image's user owns.
    assert {"--port", "8333"} < set(store["command"])
    (volume,) = store["volumes"]
    assert volume.split(":") == [*override["volumes"], "/var/lib/drydock"]
