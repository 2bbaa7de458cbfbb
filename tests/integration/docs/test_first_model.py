"""Test the tutorial "Your first model": its commands are executed as the page has them."""

import json
import re
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.tools import forking

PAGE = Path(__file__).parents[3] / "docs/tutorial/first-model.md"
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.M | re.S)
TRAINING_SECTION = "## 3."
"""Section from which the page takes minutes."""


@pytest.fixture
def run_page(commands: Any, tmp_path: Path) -> Callable[[str], str]:
    """Return the function that executes the blocks of a text, in one shell, and gives what it printed."""
    folder = tmp_path / "weather"
    folder.mkdir()

    def run_text(text: str) -> str:
        lines = ["set -e"]
        for kind, content in BLOCK.findall(text):
            if kind == "python":
                name = re.match(r"# (\S+\.py)\n", content)
                assert name, "a block of Python begins with the name of its file"
                (folder / name[1]).write_text(content)
            else:
                lines += [line.removeprefix("$ ") for line in content.splitlines() if line.startswith("$ ")]
        # The pages says `python` and `dvc`: of this environment.
        stand_in = Path(forking.ensure_stand_in()).parent
        path = f"{stand_in}:{Path(sys.executable).parent}:{commands.env['PATH']}"
        variables = {"PATH": path, "LEEWAY_HOME": "", "LEEWAY_PROJECT": "", "GIT_CEILING_DIRECTORIES": str(tmp_path)}
        process = commands.run("bash", "-c", "\n".join(lines), env=variables, cwd=folder)
        assert process.code == 0, process.err[-3_000:] + process.out[-1_000:]
        return str(process.out)

    return run_text


def test_the_commands_up_to_the_new_model_work(run_page: Callable[[str], str], tmp_path: Path) -> None:
    text = PAGE.read_text().partition(TRAINING_SECTION)[0]
    out = run_page(text)
    assert "rain: predicts rain (binary)" in out
    assert "precip: it alone tells the label" in out
    named_files = re.findall(r"^\| `(\S+)` \|", text, re.M)
    assert len(named_files) == 6
    for name in named_files:
        assert (tmp_path / "weather" / name).is_file(), name


@pytest.mark.soak
def test_all_commands_of_the_page_work(run_page: Callable[[str], str], tmp_path: Path) -> None:
    out = run_page(PAGE.read_text())
    assert "champion: 1" in out
    drift = json.loads(out[out.rindex("\n{") :])
    assert drift["outcome"] in ("drift", "none"), drift["reasons"]
    with closing(sqlite3.connect(tmp_path / "weather/.leeway/mlflow.db")) as database:
        aliases = database.execute("SELECT alias, version FROM registered_model_aliases").fetchall()
    assert aliases == [("champion", 1)]
