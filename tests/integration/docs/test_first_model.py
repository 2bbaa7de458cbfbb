"""Test the tutorial "Your first model": its commands are executed as the page has them."""

import json
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.tools import forking
from tests.tools.doc_pages import list_commands

PAGE = Path(__file__).parents[3] / "docs/tutorial/first-model.md"
TRAINING_SECTION = "## 3."
"""Section from which the page takes minutes."""
MAX_PAGE_S = 1_500


@pytest.fixture
def run_page(commands: Any, tmp_path: Path) -> Callable[[str], str]:
    """Return the function that executes the blocks of a text, in one shell, and gives what it printed."""
    folder = tmp_path / "weather"
    folder.mkdir()

    def run_text(text: str) -> str:
        lines = ["set -e", *list_commands(text, folder)]
        # The page says `python` and `dvc`: of this environment. The stand-in forks `python`, and the stack finds its
        # processes by their environment, which a forked process does not have.
        stand_in = Path(forking.ensure_stand_in())
        folders = (
            [Path(sys.executable).parent] if "-m stack up" in text else [stand_in.parent, Path(sys.executable).parent]
        )
        path = ":".join([*map(str, folders), commands.env["PATH"]])
        variables = {"PATH": path, "LEEWAY_HOME": "", "LEEWAY_PROJECT": "", "GIT_CEILING_DIRECTORIES": str(tmp_path)}
        variables["LEEWAY_PYTHON"] = str(stand_in)
        process = commands.start("bash", "-c", "\n".join(lines), env=variables, cwd=folder)
        out, err = process.communicate(timeout=MAX_PAGE_S)
        assert process.returncode == 0, err[-3_000:] + out[-1_000:]
        return str(out)

    return run_text


def test_the_commands_up_to_the_new_model_work(run_page: Callable[[str], str], tmp_path: Path) -> None:
    text = PAGE.read_text().partition(TRAINING_SECTION)[0]
    out = run_page(text)
    assert "rain: predicts rain (binary)" in out
    assert "precip: it alone predicts the label" in out
    named_files = re.findall(r"^\| `(\S+)` \|", text, re.M)
    assert len(named_files) == 6
    for name in named_files:
        assert (tmp_path / "weather" / name).is_file(), name


@pytest.fixture
def stop_stack(commands: Any, tmp_path: Path) -> Iterator[None]:
    """Stop the stack that the page starts, also after a failed command."""
    yield
    folder = str(tmp_path / "weather")
    commands.run(sys.executable, "-m", "stack", "down", env={"LEEWAY_PROJECT": folder, "LEEWAY_HOME": ""}, cwd=folder)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("stop_stack")
def test_all_commands_of_the_page_work_from_the_file_to_a_champion_in_airflow_and_drift(
    run_page: Callable[[str], str], tmp_path: Path
) -> None:
    out = run_page(PAGE.read_text())
    results = [json.loads(text) for text in re.findall(r"^\{\n.*?^\}$", out, re.M | re.S)]
    promotion, drift = results[-2:]
    assert promotion["changed"] is True
    assert drift["outcome"] in ("drift", "none"), drift["reasons"]
    assert drift["partition"] == "2013-04-15"
    with closing(sqlite3.connect(tmp_path / "weather/.leeway/mlflow/mlflow.db")) as database:
        aliases = database.execute("SELECT alias, version FROM registered_model_aliases").fetchall()
    assert aliases == [("champion", 1)]
