"""Test the tutorial "Tune flights": its plan, its stages and its DAG are those of the repository.

tests/integration/pipelines/tuning/test_tune.py runs its commands `tune report` and `tune apply`. The searches by DVC
take minutes, so here only their targets and parameters are looked up.
"""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[4]
TEXT = (ROOT / "docs/tutorial/tune-flights.md").read_text()
COMMANDS = re.findall(r"^\$ (dvc .*)$", TEXT, re.MULTILINE)


def find_block(language: str) -> str:
    """Return the content of the first block of code in a language."""
    match = re.search(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert match
    return match[1]


def find_problems(command: str) -> list[str]:
    """Return which targets and parameters of a command of DVC do not exist."""
    words, problems = shlex.split(command), []
    for position, word in enumerate(words):
        if words[position - 1] == "-S":
            file, _, key = word.partition("=")[0].partition(":")
            value: Any = yaml.safe_load((ROOT / file).read_text())
            for name in key.split("."):
                value = value.get(name) if isinstance(value, dict) else None
            problems += [] if value is not None else [word]
        elif "@" in word:
            path, _, target = word.rpartition(":")
            stage, _, model = target.partition("@")
            content = yaml.safe_load((ROOT / (path or "dvc.yaml")).read_text())
            models = next(values["models"] for values in content["vars"] if "models" in values)
            problems += [] if stage in content["stages"] and model in models else [word]
    return problems


@pytest.mark.parametrize("command", COMMANDS)
def test_the_targets_and_parameters_of_the_commands_exist(command: str) -> None:
    assert find_problems(command) == []


def test_wrong_targets_and_parameters_are_found() -> None:
    assert len(COMMANDS) == 3
    command = "dvc exp run -S models/flights/params.yaml:tune.tries=6 models/dvc.yaml:tune@flight_delay gone@flights"
    expected = ["models/flights/params.yaml:tune.tries=6", "models/dvc.yaml:tune@flight_delay", "gone@flights"]
    assert find_problems(command) == expected


def test_the_plan_is_that_of_the_model() -> None:
    section = yaml.safe_load((ROOT / "models/flights/params.yaml").read_text())["tune"]
    assert yaml.safe_load(find_block("yaml"))["tune"] == section


def test_the_operators_of_the_dag_can_be_made() -> None:
    from airflow.sdk import DAG

    values: dict[str, Any] = {"channels": {"train": "data/features/train"}, "workspace": "."}
    with DAG("tutorial") as dag:
        exec(compile(find_block("python"), "tune-flights.md", "exec"), values)
    assert set(dag.task_ids) == {"tune", "train"} and dag.get_task("train").upstream_task_ids == {"tune"}
