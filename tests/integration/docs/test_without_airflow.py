"""Test that the commands of "Without Airflow" bring files of a regression and of several classes to a verdict.

The regression becomes champion, and scores a new day.
The commands are executed as docs/how-to/your-own-data.md has them, in a project that `new` made and nobody edited.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipelines.scaffold.creation import create
from pipelines.scaffold.request import Request, refuse_to_ask
from tests.tools import forking, orders_file

PAGE = Path(__file__).parents[3] / "docs/how-to/your-own-data.md"
SECTION = re.compile(r"^## Without Airflow$.*?^```console\n(.*?)^```$", re.M | re.S)
PAGE_DAY, NEW_DAY = "2026-01-31", "2013-02-04"
"""The new day of the page, and that of the test, which the file does not have at first."""
FIRST_DAYS, ALL_DAYS = 32, 35
"""Days of the file at first, and with the new day. `new` needs 28, and each costs half a second of CPU time."""


def make_minutes(days: int) -> pd.DataFrame:
    """Return orders whose minutes are to be predicted, with dates in two formats."""
    orders = orders_file.make_orders(days).drop(columns="returned").rename(columns={"overdue_min": "minutes"})
    return orders_file.write_dates_in_two_formats(orders)


def make_outcomes(days: int) -> pd.DataFrame:
    """Return orders of three classes, with ids, constants, empty columns and free text: 59 columns."""
    orders = orders_file.add_columns(orders_file.make_orders(days))
    outcome = pd.cut(orders["overdue_min"], [-999, -10, 15, 9_999], labels=["early", "in time", "late"])
    return orders.assign(outcome=outcome).drop(columns=["overdue_min", "returned"])


@dataclass(frozen=True)
class Case:
    """A file: how its rows are made, its label and task, and a metric of the task."""

    make: Callable[[int], pd.DataFrame]
    label: str
    task: str
    metric: str


CASES = {
    "regression, two formats of dates": Case(make_minutes, "minutes", "regression", "rmse"),
    "several classes, 59 columns": Case(make_outcomes, "outcome", "multiclass", "macro_auc"),
}


@pytest.fixture
def run_lines(commands: Any, tmp_path: Path) -> Callable[[str], Any]:
    """Return the function that runs lines of the shell in the project, and gives code, out and err."""

    def run(lines: str) -> Any:
        folders = [Path(forking.ensure_stand_in()).parent, Path(sys.executable).parent]
        path = os.pathsep.join([*map(str, folders), commands.env["PATH"]])
        empty = dict.fromkeys(("LEEWAY_HOME", "LEEWAY_PROJECT"), "")
        variables = {**empty, "PATH": path, "GIT_CEILING_DIRECTORIES": str(tmp_path)}
        return commands.run("bash", "-ec", lines, env=variables, cwd=tmp_path / "project")

    return run


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "name",
    [name if case.task == "regression" else pytest.param(name, marks=pytest.mark.soak) for name, case in CASES.items()],
)
def test_the_commands_of_the_page_work(name: str, run_lines: Callable[[str], Any], tmp_path: Path) -> None:
    case, file, project = CASES[name], tmp_path / "orders.csv", tmp_path / "project"
    project.mkdir()
    case.make(FIRST_DAYS).to_csv(file, index=False)
    plan = create(Request("orders", str(file), label=case.label), project, refuse_to_ask).plan
    assert plan.label.task == case.task
    match = SECTION.search(PAGE.read_text())
    assert match
    setting, repro, promote, *new_day = re.findall(r"^\$ (.*)$", match[1].replace(PAGE_DAY, NEW_DAY), re.M)

    judged = run_lines(f"{setting}\n{repro}")
    assert judged.code == 0, judged.err[-3_000:] + judged.out[-1_000:]
    data = project / "models/orders/data"
    assert case.metric in json.loads((data / "evaluation/metrics.json").read_text())
    verdict = json.loads((data / "verdict.json").read_text())
    assert verdict["outcome"] == "passed", verdict["reason"]
    if case.task != "regression":
        return  # the commands that follow are the same for each task

    promoted = run_lines(f"{setting}\n{promote}")
    assert promoted.code == 0, promoted.err[-3_000:]
    assert promoted.out.splitlines()[-1] == "orders: version 1 is champion: it passed; it replaces no champion"
    registered = json.loads((data / "registered/verdict.json").read_text())
    assert (registered["version"], json.loads((data / "verdict.json").read_text())) == ("1", verdict)
    case.make(ALL_DAYS).to_csv(file, index=False)
    scored = run_lines("\n".join([setting, *new_day]))
    assert scored.code == 0, scored.err[-3_000:]
    results = [json.loads(text) for text in re.findall(r"^\{\n.*?^\}$", scored.out, re.M | re.S)]
    assert [results[1]["scored"], results[2]["rows"]] == [60, 60]
    assert results[3]["missing"] == [], results[3]
