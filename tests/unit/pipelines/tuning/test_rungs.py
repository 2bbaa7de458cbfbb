"""Test the largest number of rounds, and the first rung of Hyperband."""

from typing import Any

import pytest

from pipelines.errors import SpecError
from pipelines.tuning.rungs import DEFAULT_ROUNDS, compute_first_rung, get_num_round


@pytest.mark.parametrize(
    ("values", "num_round"), [({"num_round": 9}, 9), ({"num_round": "90"}, 90), ({}, DEFAULT_ROUNDS)]
)
def test_num_round_may_be_a_text(values: dict[str, Any], num_round: int) -> None:
    assert get_num_round(values) == num_round


@pytest.mark.parametrize("value", [0, -1, "many", 1.5, "", None, [4], True, "1e2"])
def test_what_is_no_number_of_rounds_is_refused(value: Any) -> None:
    with pytest.raises(SpecError, match=r"num_round is .* whole number of at least 1"):
        get_num_round({"num_round": value})


@pytest.mark.parametrize(("num_round", "rung"), [(1, 1), (8, 1), (9, 1), (18, 2), (400, 44)])
def test_the_first_rung_has_at_least_one_round(num_round: int, rung: int) -> None:
    assert compute_first_rung(num_round) == rung
