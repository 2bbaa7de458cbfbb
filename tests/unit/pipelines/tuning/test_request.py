"""Test the number of rounds that a tuning takes from its plan."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.errors import SpecError
from pipelines.feature_files import FILE_NAME
from pipelines.tuning.plan import PlanSpec
from pipelines.tuning.request import build_request
from pipelines.tuning.rungs import DEFAULT_ROUNDS


@pytest.fixture
def find_num_round(tmp_path: Path, home: Path) -> Any:
    """Return a function that builds a request for a dataset with its own training script."""
    for channel in ("train", "validation"):
        (tmp_path / channel).mkdir()
        (tmp_path / channel / FILE_NAME).touch()
    path = tmp_path / "training.py"
    path.touch()
    dataset: Any = SimpleNamespace(name="orders", find_file=lambda _: path, locate_bundle=dict)

    def find(num_round: Any, hyperparameters: dict[str, Any]) -> int:
        space = {"rate": [0.1, 0.2]} | ({} if num_round is None else {"num_round": num_round})
        return build_request(PlanSpec(space=space, trials=2), dataset, tmp_path, hyperparameters).num_round

    return find


@pytest.mark.parametrize(
    ("num_round", "hyperparameters", "expected"),
    [
        (None, {}, DEFAULT_ROUNDS),
        (None, {"num_round": 90}, 90),
        ([500, 1000, 700], {"num_round": 90}, 1000),
        ({"low": 500, "high": 900, "type": "int"}, {}, 900),
    ],
)
def test_the_largest_number_of_rounds_of_an_own_script_is_that_of_its_space(
    find_num_round: Any, num_round: Any, hyperparameters: dict[str, Any], expected: int
) -> None:
    assert find_num_round(num_round, hyperparameters) == expected


def test_a_number_of_rounds_that_is_no_whole_number_is_refused(find_num_round: Any) -> None:
    with pytest.raises(SpecError, match="num_round is 'many': it must be a whole number"):
        find_num_round([500, "many"], {})
