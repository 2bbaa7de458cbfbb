"""Test where a step's request takes its policies and its dataset from, if only the model is given."""

from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.options import find_dataset_of_model
from pipelines.cli.step_commands.request import build_request
from pipelines.errors import SpecError
from pipelines.steps.evaluate import EvaluateSpec

PARAMETERS = """
snapshot: {dataset: flights, train_days: 30}
gate: {policy: {min_rows: 4321}}
drift: {window_days: 3}
guard: {policy: {max_age_days: 44}}
"""
DAY = {"partition": "2013-01-02"}
VERDICT = {"version": "1", "verdict": "v.json"}


@pytest.fixture
def two_models(tmp_path: Path, monkeypatch: Any, fresh_settings: Any) -> Path:
    """Make a project with the models `late`, of flights, and `nameless`, whose parameters name no dataset."""
    for name, text in {"late": PARAMETERS, "nameless": "gate: {}\n"}.items():
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "params.yaml").write_text(text)
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    fresh_settings()
    return tmp_path


@pytest.mark.usefixtures("two_models")
def test_the_name_of_the_model_is_enough_to_find_its_policies_and_its_dataset() -> None:
    gate: Any = build_request("gate", {"model": "late", "version": "1"})
    drift: Any = build_request("drift", {"model": "late", "dataset": "", **DAY})  # as an operator without dataset= asks
    guard: Any = build_request("guard", {"model": "late", "as_of": "2013-02-01"})
    assert (gate.policy.min_rows, drift.window_days, guard.policy.max_age_days) == (4321, 3, 44)
    assert {gate.dataset, drift.dataset, guard.dataset} == {"flights"}
    for step in ("score", "outcomes"):
        assert build_request(step, {"model": "late", **DAY}).model_dump()["dataset"] == "flights"
    assert find_dataset_of_model("late", "").name == "flights"


@pytest.mark.usefixtures("two_models")
@pytest.mark.parametrize("step", ["gate", "evaluate", "drift", "guard", "score", "outcomes", "batch"])
def test_another_dataset_than_that_of_the_model_is_refused(step: str) -> None:
    message = "^the parameters of late name the dataset flights, but weather is given. Correct one"
    with pytest.raises(SpecError, match=message):
        build_request(step, {"model": "late", "dataset": "weather"})
    with pytest.raises(SpecError, match=message):
        find_dataset_of_model("late", "weather")


@pytest.mark.usefixtures("two_models")
def test_a_dataset_is_asked_for_where_the_parameters_name_none() -> None:
    with pytest.raises(
        SpecError, match=r"^no dataset is named. Give one of this project's datasets: .*flights, weather"
    ):
        build_request("score", {"model": "nameless", **DAY})
    with pytest.raises(SpecError, match=r"^no dataset is named"):
        find_dataset_of_model("nameless", "")
    score: Any = build_request("score", {"model": "nameless", "dataset": "weather", **DAY})
    assert score.dataset == "weather"


def test_a_step_in_the_folder_of_a_model_needs_no_model(two_models: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(two_models / "models" / "late")
    gate: Any = build_request("gate", {})
    assert (gate.policy.min_rows, gate.dataset, gate.model) == (4321, "flights", "")


def test_the_address_of_a_trained_model_is_not_the_name_of_a_registered_one() -> None:
    """`--model` of `evaluate` was the folder or address before."""
    for value in ("s3://bucket/model.tar.gz", "data/model"):
        with pytest.raises(
            SpecError,
            match=r"it is not the name of a registered model; give the address of a model as trained_model",
        ):
            EvaluateSpec.parse({"model": value}, "test")
