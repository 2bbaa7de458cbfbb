"""Test `python -m pipelines new NAME --update`: templates that changed, files that a person changed, and both."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipelines.errors import SpecError
from pipelines.scaffold.creation import Creation
from pipelines.scaffold.updating import RECORD, update

PARAMS, TEST, RUFF = "models/orders/params.yaml", "tests/test_orders.py", "ruff.toml"


@pytest.fixture
def age(make: Callable[..., Creation], project: Path, orders: pd.DataFrame) -> Callable[[str, str, str], None]:
    """Make a model; return the function that makes a file as if an older template had written a text in it."""
    make(orders)
    record_file = project / RECORD.format(name="orders")

    def age_file(name: str, text: str, older_text: str) -> None:
        record = json.loads(record_file.read_text())
        assert text in record["files"][name]
        record["leeway"] = "0.0.1"
        record["files"][name] = record["files"][name].replace(text, older_text)
        (project / name).write_text((project / name).read_text().replace(text, older_text))
        record_file.write_text(json.dumps(record))

    return age_file


def read_files(project: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(project)): path.read_bytes()
        for path in project.rglob("*")
        if path.is_file() and ".git/" not in str(path)
    }


def edit(path: Path, text: str, new_text: str) -> None:
    assert text in path.read_text()
    path.write_text(path.read_text().replace(text, new_text))


def test_equal_templates_change_nothing(make: Callable[..., Creation], project: Path, orders: pd.DataFrame) -> None:
    make(orders)
    edit(project / PARAMS, "eta: 0.05", "eta: 0.1")
    before = read_files(project)
    assert update("orders", project).changed_files == []
    assert read_files(project) == before


def test_a_changed_template_is_merged_and_edits_stay(age: Callable[[str, str, str], None], project: Path) -> None:
    made = read_files(project)
    age(PARAMS, "approval: none", "approve: none")
    age(RUFF, "line-length = 120", "line-length = 100")
    age(TEST, "NAME = ", "DATASET = ")
    edit(project / PARAMS, "eta: 0.05", "eta: 0.1")
    (project / TEST).unlink()
    result = update("orders", project)
    assert (result.old_version, set(result.changed_files), result.conflicts) == ("0.0.1", {PARAMS, RUFF}, [])
    assert (project / PARAMS).read_bytes() == made[PARAMS].replace(b"eta: 0.05", b"eta: 0.1")
    assert (project / RUFF).read_bytes() == made[RUFF]
    assert not (project / TEST).exists(), "a person removed it"
    assert update("orders", project).changed_files == [], "the record has the new texts"


def test_a_file_that_only_new_templates_have_is_added(age: Callable[[str, str, str], None], project: Path) -> None:
    record_file = project / RECORD.format(name="orders")
    record = json.loads(record_file.read_text())
    del record["files"][RUFF]
    record_file.write_text(json.dumps(record))
    (project / RUFF).unlink()
    assert update("orders", project).changed_files == [RUFF]


def test_the_same_line_changed_twice_is_a_conflict(
    age: Callable[[str, str, str], None], project: Path, commands: Any
) -> None:
    age(PARAMS, "approval: none", "approve: none")
    edit(project / PARAMS, "approve: none", "approve: required")
    process = commands.run_step("new", "orders", "--update", env={"LEEWAY_PROJECT": str(project)}, cwd=project)
    assert process.code == 2, process.err
    assert process.err.startswith(f"error: {PARAMS}: you and the templates changed the same lines.")
    text = (project / PARAMS).read_text()
    assert text.index("<<<<<<< yours") < text.index("approve: required") < text.index("=======")
    process = commands.run_step("new", "orders", "--update", "--key", "km", env={"LEEWAY_PROJECT": str(project)})
    assert (process.code, process.err[:37]) == (2, "error: --update takes no other option")
    before = read_files(project)
    with pytest.raises(SpecError, match="has conflicts"):
        update("orders", project)
    assert read_files(project) == before


def test_a_model_without_a_record_is_refused(age: Callable[[str, str, str], None], project: Path) -> None:
    record_file = project / RECORD.format(name="orders")
    with pytest.raises(SpecError, match="does not exist, so parcels cannot be updated"):
        update("parcels", project)
    record_file.write_text("{")
    with pytest.raises(SpecError, match="cannot be read"):
        update("orders", project)


def test_templates_that_need_what_was_not_recorded_are_refused(
    age: Callable[[str, str, str], None], project: Path
) -> None:
    record_file = project / RECORD.format(name="orders")
    record = json.loads(record_file.read_text())
    del record["values"]["about"]
    record_file.write_text(json.dumps(record))
    before = read_files(project)
    with pytest.raises(SpecError, match=r"need a value that .* did not record: 'about' is undefined"):
        update("orders", project)
    assert read_files(project) == before
