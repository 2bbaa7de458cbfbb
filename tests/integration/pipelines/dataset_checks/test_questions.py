"""Test `check NAME` as a whole: a model that is ready, and one with no suite, quarantined rows and a broken package."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from pipelines.datasets.flights import DATASET
from tests.tools.policies import EASY_POLICY

DESCRIPTION = f"from pipelines.dataset import Dataset\n\nDATASET = {replace(DATASET, name='arrivals', lookups=())!r}\n"
FILES = {
    "__init__": DESCRIPTION,
    "source": "from pipelines.datasets.flights.source import open_source\n",
    "features": "from pipelines.datasets.flights.features import features\n",
}
PARAMS = {
    "snapshot": {"dataset": "arrivals", "holdout_days": 1, "min_train_days": 1, "label_delay_days": 1},
    "gate": {"policy": EASY_POLICY},
    "drift": {"window_days": 1, "policy": {"min_rows": 100}},
}
QUESTIONS = {
    "suite": "is there a suite of expectations?",
    "quarantine": "are all rows published, none quarantined?",
    "package": "does the model load in a clean process?",
}


def write_suite(project: Path, min_rows: int, max_distance: int) -> None:
    """Write a suite: fewer rows block a day, and rows with a larger distance are quarantined."""
    expectations: list[dict[str, Any]] = [
        {
            "type": "expect_table_row_count_to_be_between",
            "kwargs": {"min_value": min_rows},
            "severity": "critical",
        },
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {"column": "distance", "max_value": max_distance},
            "severity": "warning",
        },
    ]
    (project / "expectations/arrivals.json").write_text(json.dumps({"name": "arrivals", "expectations": expectations}))


@pytest.fixture
def project(tmp_path: Path, trained: SimpleNamespace) -> Path:
    """Return a project with a dataset of its own, and a trained model in its place."""
    folder = tmp_path / "project"
    (folder / "datasets/arrivals").mkdir(parents=True)
    (folder / "expectations").mkdir()
    (folder / "models/arrivals").mkdir(parents=True)
    for name, text in FILES.items():
        (folder / f"datasets/arrivals/{name}.py").write_text(text)
    (folder / "models/arrivals/params.yaml").write_text(yaml.safe_dump(PARAMS))
    shutil.copytree(trained.data, folder / "models/arrivals/data")
    write_suite(folder, min_rows=1, max_distance=9_000)
    return folder


@pytest.fixture
def run(project: Path, commands: Any) -> Callable[..., Any]:
    """Return the function that runs a step in the project."""
    variables = {"LEEWAY_PROJECT": str(project), "LEEWAY_HOME": str(project / ".leeway"), "COLUMNS": "300"}
    return lambda *arguments: commands.run_step(*arguments, env=variables, cwd=project)


def list_answers(out: str) -> dict[str, tuple[str, str]]:
    return {answer["question"]: (answer["outcome"], answer["text"]) for answer in json.loads(out)}


def test_each_failed_check_says_what_to_do_and_the_page_has_exit_code_2(project: Path, run: Callable[..., Any]) -> None:
    backfill = run("backfill", "--dataset", "arrivals", "--first", "2013-01-02", "--last", "2013-01-04")
    assert backfill.code == 0, backfill.err
    ready = run("check", "arrivals", "--json")
    answers = list_answers(ready.out)
    assert ready.code == 0, answers
    assert {outcome for outcome, _ in answers.values()} == {"yes", "not yet"}
    assert [question for question, (outcome, _) in answers.items() if outcome == "not yet"] == [
        "does Airflow load the file of the DAGs?"
    ]
    assert answers[QUESTIONS["suite"]] == ("yes", "2 expectations, 1 of them critical")
    assert answers[QUESTIONS["quarantine"]] == (
        "yes",
        "0 of 2,772 rows are quarantined, 0 ingested days are not published",
    )
    assert answers[QUESTIONS["package"]] == ("yes", "it scored 100 rows in a process without the project's code")

    write_suite(project, min_rows=800, max_distance=4_000)
    for day, code in (("2013-01-05", 2), ("2013-01-06", 0)):  # 720 flights; 832 flights, two of them to Honolulu
        assert run("ingest", "--dataset", "arrivals", "--partition", day).code == 0
        assert run("validate", "--dataset", "arrivals", "--partition", day).code == code
    (project / "expectations/arrivals.json").unlink()
    (project / "datasets/arrivals/model.py").write_text(
        "from pipelines.defaults.model import Model, load\nfrom pipelines.lake import Lake\n"
    )
    broken = run("check", "arrivals", "--json")
    answers = list_answers(broken.out)
    assert broken.code == 2
    assert {question for question, (outcome, _) in answers.items() if outcome == "no"} == set(QUESTIONS.values())
    assert answers[QUESTIONS["suite"]][1] == (
        f"{project}/expectations/arrivals.json does not exist: "
        "`python -m pipelines expectations suggest --table arrivals` drafts a suite."
    )
    assert answers[QUESTIONS["quarantine"]][1] == (
        "2 of 3,604 rows are quarantined, 1 ingested day is not published. "
        "See `python -m pipelines quarantine list --dataset arrivals`."
    )
    problem = answers[QUESTIONS["package"]][1]
    assert problem.startswith("ModuleNotFoundError: No module named 'pipelines.lake'")
    assert problem.endswith("List the files that it needs in bundle.txt of the dataset.")

    page = run("check", "arrivals")
    assert page.code == 2
    assert "Is arrivals ready?" in page.out and "Traceback" not in page.err
    for question in QUESTIONS.values():
        (line,) = [line for line in page.out.splitlines() if question in line]
        assert line.split("│")[2].strip() == "no"
    assert "2 of 3,604 rows are quarantined" in page.out
