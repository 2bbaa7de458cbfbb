"""Test which parameters of its model a preprocessing job gets."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from leeway.hooks.processing.task import ProcessingFields, ProcessingTask


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a project with one model, whose validation has five days."""
    (tmp_path / "models/late").mkdir(parents=True)
    (tmp_path / "models/late/params.yaml").write_text("preprocess: {validation_days: 5}\n")
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    return tmp_path


def build_arguments(**values: Any) -> list[str]:
    """Return the arguments of the job of an operator with these fields."""
    empty_fields = {field.name: "" for field in fields(ProcessingFields)}
    task = ProcessingTask.__new__(ProcessingTask)
    task.fields = ProcessingFields(**{**empty_fields, "validation_days": None, **values})
    return task._build_arguments()


@pytest.mark.usefixtures("project")
def test_the_job_gets_the_validation_days_of_its_model() -> None:
    assert build_arguments(model="late") == ["--engine", "spark", "--validation-days", "5"]
    assert build_arguments() == ["--engine", "spark"], "no model is named: the step's default"
    with pytest.raises(AirflowFailException, match=r"there is no model 'lat'.* The models are late\."):
        build_arguments(model="lat")


@pytest.mark.usefixtures("project")
def test_the_argument_of_the_operator_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessingTask, "describe_field", lambda self, field: field)
    assert build_arguments(model="late", validation_days="2") == ["--engine", "spark", "--validation-days", "2"]
