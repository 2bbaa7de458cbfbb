"""tools/offline-images, with an engine and a debootstrap that only write down what they are asked."""

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
REAL = ("bash", "cat", "cp", "dirname", "env", "grep", "mkdir", "mktemp", "rm", "sed", "sort", "tail", "tar")
FAKES = {
    "id": "echo 0",
    "apt-get": "echo http://mirror.example/debian; echo http://other.example/debian",
    "debootstrap": 'echo "debootstrap $*" >>"$CALLS"; mkdir -p "$4/etc/ssl/certs"',
    "docker": """
        echo "docker $*" >>"$CALLS"
        case "$1 $2" in
            "image inspect") grep -qxF "$3" "$THERE" ;;
            "import "*) cat >/dev/null ;;
        esac
    """,
}


class Machine:
    """What the tool finds: its programs, the images that are there, and what was asked."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.calls, self.there = folder / "bin", folder / "calls", folder / "there"
        self.bin.mkdir()
        self.calls.touch()
        self.there.touch()
        for name in REAL:
            (self.bin / name).symlink_to(str(shutil.which(name)))
        for name, script in FAKES.items():
            self.fake(name, script)

    def fake(self, name: str, script: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": str(self.bin), "CALLS": str(self.calls), "THERE": str(self.there)}
        env["TMPDIR"] = str(self.bin.parent)
        return subprocess.run([str(TOOL), *arguments], env=env, capture_output=True, text=True)

    def built(self) -> list[str]:
        return re.findall(r"^docker build .*--tag (\S+)", self.calls.read_text(), re.MULTILINE)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def named() -> set[str]:
    """All images of others, read by the parsers of the rules."""
    files = [compose.ROOT / "Dockerfile", *(compose.ROOT / "docker").glob("*/Dockerfile")]
    images = {str(one.get("image", "")) for one in compose.load()["services"].values()}
    for file in files:
        arguments, found = parse_dockerfile(file.read_text())
        bases = {re.sub(r"\$\{(\w+)\}", lambda match, has=arguments: has[match[1]], one.base) for one in found.values()}
        images |= bases - {name for name, one in found.items() if name != one.base}
    return {image for image in images if not image.startswith("leeway/")}


def test_it_knows_all_that_is_named(machine):
    told = dict(line.split(": ") for line in machine.run("--list").stdout.splitlines())
    assert set(told) == named()
    assert {told[one] for one in told} - {"no stand-in"} == {str(one.relative_to(compose.ROOT)) for one in STAND_INS}
    assert machine.calls.read_text() == ""


def test_it_makes_what_is_lacking(machine):
    answer = machine.run()
    assert answer.returncode == 0, answer.stderr
    assert {one.split(":")[0] for one in machine.built()} == {"postgres", "python", "redis"}
    assert set(machine.built()) < named()
    calls = machine.calls.read_text()
    assert re.search(r"^debootstrap .*bookworm \S+ http://mirror.example/debian$", calls, re.MULTILINE)
    assert "grafana" not in "".join(machine.built())
    assert [one.name for one in machine.bin.parent.iterdir() if one.name.startswith("tmp.")] == []


def test_it_makes_nothing_twice(machine):
    machine.there.write_text("\n".join(named()))
    assert machine.run().returncode == 0
    assert machine.built() == []
    assert "debootstrap" not in machine.calls.read_text()


def test_other_mirror(machine):
    machine.fake("apt-get", "exit 1")
    assert machine.run("--mirror", "http://mine.example/debian").returncode == 0
    assert "http://mine.example/debian" in machine.calls.read_text()


def test_failure_of_debootstrap_is_told_and_leaves_nothing(machine):
    machine.fake("debootstrap", "echo W: no such mirror; exit 1")
    answer = machine.run()
    assert answer.returncode == 1
    assert "no such mirror" in answer.stderr
    assert machine.built() == []
    assert [one.name for one in machine.bin.parent.iterdir() if one.name.startswith("tmp.")] == []


@pytest.mark.parametrize(
    ("program", "script", "told"),
    [
        ("id", "echo 1000", "debootstrap needs root"),
        ("debootstrap", None, "no debootstrap here"),
        ("docker", None, "no docker here"),
        ("docker", "exit 1", "no Docker engine answers"),
        ("apt-get", "true", "apt names no mirror"),
    ],
)
def test_it_refuses_with_a_line(machine, program, script, told):
    machine.fake(program, script) if script else (machine.bin / program).unlink()
    answer = machine.run()
    assert answer.returncode == 2
    assert re.fullmatch(rf"error: {told}[^\n]*\n", answer.stderr)
    assert machine.built() == []


@pytest.mark.parametrize("arguments", [["--what"], ["--mirror"]])
def test_it_refuses_arguments(machine, arguments):
    answer = machine.run(*arguments)
    assert (answer.returncode, answer.stderr.count("\n")) == (2, 1)


def test_help(machine):
    assert "usage: tools/offline-images" in machine.run("--help").stdout
    assert os.access(TOOL, os.X_OK)


@pytest.mark.parametrize("folder", STAND_INS, ids=lambda path: path.name)
def test_stand_ins_begin_with_what_the_tool_makes(folder):
    _, found = parse_dockerfile((folder / "Dockerfile").read_text())
    (stage,) = found.values()
    assert f"\nDEBIAN={stage.base} " in TOOL.read_text()
    assert stage.find_all("LABEL") == [f"leeway.stand-in={folder.name}"]


def test_entrypoint_of_postgres_is_a_script():
    script = compose.ROOT / "docker/offline/postgres/entrypoint.sh"
    assert subprocess.run(["/bin/sh", "-n", str(script)]).returncode == 0


def test_the_store_s_stand_in_is_the_stack_s_drydock():
    merged = compose.load(path=compose.ROOT / "docker/offline/compose.yaml")
    (name,) = merged["services"]
    store, drydock = merged["services"][name], compose.load()["services"]["drydock"]
    assert name == "s3"
    assert store["image"] == drydock["image"]
    assert store["build"]["target"] == drydock["build"]["target"]
    assert store["command"][0] == drydock["command"][0]
    # Where its clients look for it, and on a volume that it may write to: the image's folder is its user's.
    assert {"--port", "8333"} < set(store["command"])
    (volume,) = store["volumes"]
    assert volume.split(":") == [*merged["volumes"], "/var/lib/drydock"]
