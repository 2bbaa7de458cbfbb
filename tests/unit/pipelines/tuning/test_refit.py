"""Test what an evaluation records about the tuning of a training."""

from pathlib import Path
from typing import Any

import pytest

from pipelines.system.files import read_json, write_json
from pipelines.tuning.refit import read_refit_text, write_refit
from tests.unit.pipelines.tuning.test_record import RECORD

METRICS = {"log_loss": 0.43, "auc": 0.7}


def evaluate(folder: Path, section: dict[str, Any]) -> dict[str, Any]:
    write_refit(folder, str(folder / "record"), section, METRICS)
    content: dict[str, Any] = read_json(folder / "tuning.json", "write_refit writes it")
    return content


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """Write the record of a training with the winner's values."""
    write_json(tmp_path / "record/params.json", {**RECORD.hyperparameters, "seed": 13})
    write_json(tmp_path / "record/resources.json", {"best_validation-logloss": 0.4251, "wall_s": 3.0})
    return tmp_path / "record"


def test_the_record_of_the_training_names_the_tuning(tmp_path: Path, record: Path) -> None:
    write_json(record / "tuning.json", {"tuning": RECORD.model_dump()})
    content = evaluate(tmp_path, {})
    assert (content["validation"], content["holdout"], content["changed"]) == (0.4251, 0.43, [])
    assert read_refit_text(tmp_path) == RECORD.describe(0.4251, 0.43, [])


def test_without_it_the_parameters_name_the_tuning(tmp_path: Path, record: Path) -> None:
    assert evaluate(tmp_path, {"tuning": RECORD.model_dump()})["text"] == RECORD.describe(0.4251, 0.43, [])


def test_a_training_with_other_values_is_no_refit(tmp_path: Path, record: Path) -> None:
    write_json(record / "params.json", {**RECORD.hyperparameters, "eta": 0.3})
    content = evaluate(tmp_path, {"tuning": RECORD.model_dump()})
    assert content["changed"] == ["eta"] and "eta changed since" in content["text"]


def test_a_training_without_a_tuning_has_no_text(tmp_path: Path, record: Path) -> None:
    """This is the negative control."""
    assert evaluate(tmp_path, {"hyperparameters": {"eta": 0.1}}) == {}
    assert read_refit_text(tmp_path) == ""
    write_refit(tmp_path, str(tmp_path / "missing"), {}, METRICS)
    assert read_refit_text(tmp_path) == ""
    assert read_refit_text(tmp_path / "an evaluation of an earlier version") == ""
