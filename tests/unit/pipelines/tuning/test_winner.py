"""Test that the winner is written into the parameters, and all else in the file stays as it was."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from pipelines import params
from pipelines.errors import DataError, SpecError
from pipelines.tuning.winner import apply_winner, read_winner
from tests.unit.pipelines.tuning.test_record import RECORD

ROOT = Path(__file__).parents[4]
WINNER = RECORD.model_copy(update={"hyperparameters": {"eta": 0.123, "max_depth": 6, "reg_lambda": 2.0}})


def test_only_the_values_and_the_record_change(tmp_path: Path) -> None:
    path = tmp_path / "models/flights/params.yaml"
    path.parent.mkdir(parents=True)
    before = (ROOT / "models/flights/params.yaml").read_text()
    path.write_text(before)
    assert apply_winner(path, WINNER) == {"eta": (0.05, 0.123), "reg_lambda": (1.0, 2.0)}
    after = path.read_text()
    removed = [line for line in before.splitlines() if line not in after.splitlines()]
    assert removed == ["    eta: 0.05", "    reg_lambda: 1.0"], "comments, quotes and all other lines stay"
    assert after.count("\n") == before.count("\n") + 10
    section = yaml.safe_load(after)["train"]
    assert section["tuning"] == {**WINNER.model_dump(), "fold_losses": [0.41, 0.42, 0.433]}
    assert params.load(tmp_path, "flights")["train"] == section, "the parameters are valid"
    assert apply_winner(path, WINNER) == {} and path.read_text() == after, "idempotent"
    apply_winner(path, WINNER.model_copy(update={"trials": 60}))
    assert path.read_text() == after.replace("trials: 50", "trials: 60", 1)


def test_a_file_without_the_section_gets_one(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text("gate: {approval: none} # as it was\n")
    apply_winner(path, WINNER)
    assert yaml.safe_load(path.read_text())["train"]["hyperparameters"] == WINNER.hyperparameters
    assert path.read_text().startswith("gate: {approval: none} # as it was\n")


def test_small_and_large_numbers_stay_numbers(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text("train:\n  hyperparameters:\n    gamma: 0.5\n")
    values: dict[str, int | float | str] = {"eta": 1e-05, "gamma": 2e22, "alpha": 1.5e-300, "lambda": 0.1, "depth": 3}
    winner = WINNER.model_copy(update={"hyperparameters": values, "objective": 1e-6, "fold_losses": [1e-6]})
    apply_winner(path, winner)
    section = yaml.safe_load(path.read_text())["train"]
    assert section["hyperparameters"] == section["tuning"]["hyperparameters"] == values
    assert (section["tuning"]["objective"], section["tuning"]["fold_losses"]) == (1e-6, [1e-6])
    assert apply_winner(path, winner) == {}, "idempotent"


@pytest.mark.parametrize("text", ["train:\n", "train: {hyperparameters: }\n", "train:\n  hyperparameters: # none\n"])
def test_an_empty_section_is_filled(tmp_path: Path, text: str) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(text)
    apply_winner(path, WINNER)
    assert yaml.safe_load(path.read_text())["train"]["hyperparameters"] == WINNER.hyperparameters


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("train: 3\n", "is not a mapping"),
        ("train: {hyperparameters: [1]}\n", "is not a mapping"),
        ("- train\n", "is not a mapping"),
        ("just a text\n", "is not a mapping"),
        ("train: [1\n", "is not YAML"),
    ],
)
def test_a_wrong_file_is_refused_and_stays(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(text)
    with pytest.raises(SpecError, match=problem) as error:
        apply_winner(path, WINNER)
    assert "\n" not in str(error.value)
    assert path.read_text() == text
    with pytest.raises(SpecError, match="does not exist"):
        apply_winner(tmp_path / "missing.yaml", WINNER)


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"name": "x"})])
def test_a_damaged_result_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "best.json").write_text(text)
    with pytest.raises(DataError, match=r"best\.json"):
        read_winner(tmp_path)
    shutil.rmtree(tmp_path)
    with pytest.raises(DataError, match="does not exist: the step `tune` writes it"):
        read_winner(tmp_path)
    tmp_path.mkdir()
    (tmp_path / "best.json").write_text(json.dumps({**RECORD.model_dump(), "more": 1}))
    assert read_winner(tmp_path) == RECORD
    (tmp_path / "best.json").write_text(json.dumps(RECORD.model_dump(exclude={"earlier_trials", "stopped"})))
    assert read_winner(tmp_path) == RECORD, "an earlier release wrote no number of earlier trials"
