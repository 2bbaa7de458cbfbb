"""Test the plan of a search: contradictory keys are refused with one line."""

from typing import Any

import pytest

from pipelines.errors import SpecError
from pipelines.tuning.plan import PlanSpec

ETA = {"low": 0.1, "high": 0.3}
CONTRADICTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "hyperband and median": ({"strategy": "hyperband", "early_stopping": "median"}, "hyperband stops trials itself"),
    "hyperband and rounds": (
        {"strategy": "hyperband", "space": {"num_round": [10, 20]}},
        "hyperband decides how many rounds a trial gets",
    ),
    "a continuous grid": ({"strategy": "grid"}, "a grid needs a step, or a list of values, for eta"),
    "a grid of more points than trials": (
        {"strategy": "grid", "space": {"eta": [0.1, 0.2, 0.3], "max_depth": [1, 2]}, "trials": 5},
        "the grid has 6 points, and trials is 5",
    ),
    "a grid with a warm start": (
        {"strategy": "grid", "space": {"eta": [0.1, 0.2]}, "warm_start": "x"},
        "a grid does not learn",
    ),
    "no trials": ({"trials": 0}, "trials"),
    "more hours than SageMaker accepts": ({"max_hours": 4_381}, "max_hours"),
    "an instance type without a budget": ({"instance_type": "ml.m5.xlarge"}, "no effect without budget_usd"),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_a_contradictory_plan_is_refused(case: str) -> None:
    values, text = CONTRADICTIONS[case]
    with pytest.raises(SpecError, match=text):
        PlanSpec.parse({"space": {"eta": ETA}, **values}, "tune")


def test_the_number_of_trials() -> None:
    assert PlanSpec.parse({"space": {"eta": ETA}, "trials": 7}, "tune").count_trials() == 7
    grid = {"strategy": "grid", "space": {"eta": [0.1, 0.2, 0.3], "max_depth": [1, 2]}}
    assert PlanSpec.parse(grid, "tune").count_trials() == 6
