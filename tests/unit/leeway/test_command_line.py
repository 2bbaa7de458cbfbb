"""Test the command `leeway`: each part of Leeway is reached, and what is missing or hidden is named on one line."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import typer
from leeway import __version__
from leeway.command_line import STACK_COMMANDS

from stack.cli import app as stack_app
from tests.tools import slim

ROOT = Path(__file__).parents[3]
LEEWAY = Path(sysconfig.get_path("scripts")) / "leeway"
# The command of an environment that has only the base of Leeway.
BASE = "import leeway.command_line as c, sys; sys.argv[0] = 'leeway'; c.main()"


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the console script in a folder."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(LEEWAY), *arguments], cwd=folder, env={**environment, **variables}, capture_output=True, text=True
    )


def test_version(tmp_path):
    assert run(tmp_path, "--version").stdout == f"leeway {__version__}\n"


def test_all_commands_of_the_stack_are_known():
    group: Any = typer.main.get_command(stack_app)
    assert set(group.commands) == set(STACK_COMMANDS)


@pytest.mark.parametrize("arguments", [["--help"], pytest.param([], marks=pytest.mark.soak)])
def test_help_lists_the_commands_of_all_parts(arguments, tmp_path):
    process = run(tmp_path, *arguments)
    assert process.returncode == 0, process.stderr
    names = {line.split()[0] for line in process.stdout.splitlines() if line.startswith("  ")}
    assert {"up", "restore", "drydock", "ingest", "check_lake", "registry"} <= names


def test_step_is_run_as_by_python_m_pipelines(tmp_path):
    process = run(tmp_path, "train", "--schema")
    command = [sys.executable, "-m", "pipelines", "train", "--schema"]
    assert process.stdout == subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout != ""
    refused = run(tmp_path, "ingest", "--partition", "yesterday", "--dataset", "flights")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert refused.stderr.startswith("error: ingest: partition")


@pytest.mark.parametrize(
    ("arguments", "text"), [(["up", "--help"], "python -m stack up"), (["drydock", "--help"], "--executor")]
)
def test_other_parts_are_run(arguments, text, tmp_path):
    process = run(tmp_path, *arguments, COLUMNS="200", NO_COLOR="1")
    assert (process.returncode, text in process.stdout) == (0, True), process.stderr


@pytest.mark.parametrize(("command", "name"), [("ingest", "pipelines"), ("up", "stack"), ("drydock", "drydock")])
def test_package_of_the_user_in_the_working_directory_is_named(command, name, tmp_path):
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("raise SystemExit('imported')")
    process = run(tmp_path, command)
    assert process.returncode == 2
    assert process.stderr.startswith(f"error: {tmp_path / name} hides Leeway's package '{name}'")
    assert process.stderr.count("\n") == 1


@pytest.fixture(scope="module")
def base_site(tmp_path_factory):
    """Return the folder that hides all modules but those of Leeway's base."""
    return slim.write_site(tmp_path_factory.mktemp("base") / "site", "base")


@pytest.mark.parametrize(
    ("command", "extra", "package"),
    [("ingest", "pipelines", "typer"), ("up", "local", "typer"), ("drydock", "drydock", "typer")],
)
def test_missing_package_is_named_with_its_extra(command, extra, package, base_site, tmp_path):
    path = os.pathsep.join(map(str, [base_site, ROOT, ROOT / "plugins"]))
    process = subprocess.run(
        [sys.executable, "-c", BASE, command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 2, process.stderr
    assert f'run `pip install "leeway[{extra}]"`.' in process.stderr
    assert package in process.stderr and process.stderr.count("\n") == 1


def test_help_without_the_steps_says_what_they_need(base_site, tmp_path):
    path = os.pathsep.join(map(str, [base_site, ROOT, ROOT / "plugins"]))
    process = subprocess.run(
        [sys.executable, "-c", BASE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert 'this list needs the package typer: run `pip install "leeway[pipelines]"`.' in process.stdout
