"""Run the page's own tests, ui/tests/*.mjs, which need Node and the packages of ui/package-lock.json."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

UI = Path(__file__).parents[3] / "ui"
REQUIRED_VARIABLE = "REQUIRE_NODE"
"""If this variable is set, missing packages fail the tests, instead of skipping them."""


@pytest.fixture(scope="module")
def node() -> str:
    """Return the program; skip the test where it, or the packages, are missing."""
    program = shutil.which("node")
    missing = "Node" if program is None else "" if (UI / "node_modules/esbuild").is_dir() else "ui/node_modules"
    if program and not missing:
        return program
    text = f"the tests of the page in ui/tests did NOT run: {missing} is missing. Run `npm --prefix ui ci` with Node 20"
    if os.environ.get(REQUIRED_VARIABLE):
        pytest.fail(text)
    pytest.skip(text)


def run_tests(node: str, *files: Path) -> subprocess.CompletedProcess[str]:
    """Run tests with Node's own test runner."""
    command = [node, "--test", *map(str, files)]
    return subprocess.run(command, cwd=UI, capture_output=True, text=True)


def test_tests_of_the_page_pass(node: str) -> None:
    files = sorted((UI / "tests").glob("*.test.mjs"))
    assert files
    result = run_tests(node, *files)
    assert result.returncode == 0, result.stdout[-5_000:] + result.stderr[-2_000:]
    assert "# pass 0\n" not in result.stdout


def test_a_wrong_expectation_fails(node: str, tmp_path: Path) -> None:
    """The negative control: one expectation of a copy of the tests is changed."""
    for name in ("src", "tests"):
        shutil.copytree(UI / name, tmp_path / name)
    (tmp_path / "node_modules").symlink_to(UI / "node_modules")
    file = tmp_path / "tests/evidence.test.mjs"
    text = file.read_text(encoding="utf-8")
    assert '"slope | all"' in text
    file.write_text(text.replace('"slope | all"', '"slope"'), encoding="utf-8")
    result = run_tests(node, file)
    assert result.returncode == 1 and "slope" in result.stdout
