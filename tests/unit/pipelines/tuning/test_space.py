"""Test the search space: which ranges and values are accepted, and which are refused with one clear line."""

import re
from typing import Any

import pytest
from pydantic import ValidationError

from pipelines.tuning.plan import PlanSpec
from pipelines.tuning.space import Range, contains, count_points, list_grid_values

WRONG_ITEMS: dict[str, tuple[Any, str]] = {
    "too wide": ({"low": -1e308, "high": 1e308}, "low -1e+308 and high 1e+308 are too far apart"),
    "too fine": ({"low": 0, "high": 1, "step": 1e-300}, "step 1e-300 divides the range into more than 1,000,000,000"),
    "large int": ({"low": 0, "high": 2.0**70, "type": "int"}, "an int is at most 9,007,199,254,740,992"),
    "equal as texts": (["1", 1], "a value occurs twice"),
    "equal as numbers": (["1.0", 1], "a value occurs twice"),
    "low is high": ({"low": 1, "high": 1}, "low 1 must be less than high 1"),
    "low above high": ({"low": 2, "high": 1}, "low 2 must be less than high 1"),
    "log from zero": ({"low": 0, "high": 1, "log": True}, "log needs a low of more than 0"),
    "log with a step": ({"low": 1, "high": 2, "log": True, "step": 0.5}, "log and step exclude each other"),
    "long step": ({"low": 0, "high": 1, "step": 2}, "step 2 is longer than the range"),
    "no whole number": ({"low": 0.5, "high": 2, "type": "int"}, "whole numbers"),
    "not finite": ({"low": 0, "high": float("inf")}, "finite"),
    "truth value": ({"low": True, "high": 2}, "true and false are not numbers"),
    "unknown key": ({"low": 1, "high": 2, "lgo": True}, "lgo"),
    "one value": ([0.1], "at least two"),
    "a value twice": ([1, 1.0], "occurs twice"),
    "truth values": ([True, False], "true and false are not values"),
    "a text": ("banana", "it must be a range, such as {low: 0.01, high: 0.3}, or a list of values"),
    "a mapping as a value": ([0.1, {"low": 1}], "{'low': 1} is not a value; write finite numbers or texts"),
    "a value that is not finite": ([0.1, float("nan")], "nan is not a value"),
    "no value": ([0.1, None], "None is not a value"),
}


@pytest.mark.parametrize("case", WRONG_ITEMS)
def test_a_wrong_item_is_refused(case: str) -> None:
    item, text = WRONG_ITEMS[case]
    with pytest.raises(ValidationError, match=re.escape(text)):
        PlanSpec(space={"eta": item})


def test_an_empty_space_and_a_reserved_name_are_refused() -> None:
    with pytest.raises(ValidationError, match="the space is empty"):
        PlanSpec(space={})
    with pytest.raises(ValidationError, match="folds is set by the search itself"):
        PlanSpec(space={"folds": [1, 2]})


@pytest.mark.parametrize("name", ["", "a b", "--eta", "a,b", "a\nb", "a" * 257])
def test_a_name_that_is_no_argument_of_a_script_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="is not a name of a hyperparameter"):
        PlanSpec(space={name: [1, 2]})


def test_right_items_are_accepted() -> None:
    """This is the negative control."""
    items: dict[str, Any] = {
        "max_depth": {"low": 3, "high": 10, "type": "int"},
        "eta": {"low": 0.01, "high": 0.3, "log": True},
        "booster": ["gbtree", "dart"],
        "seed": [1, 2],
        "reg-lambda.1": ["1", "1.5", "x"],
        "wide": {"low": -(2**53), "high": 2**53, "type": "int"},
        "fine": {"low": 0, "high": 1, "step": 1e-6},
    }
    space = PlanSpec(space=items).space
    assert space["max_depth"] == Range(low=3, high=10, type="int") and space["booster"] == ["gbtree", "dart"]


def test_the_values_of_a_grid() -> None:
    space = {"a": Range(low=1, high=3, type="int"), "b": Range(low=0, high=0.3, step=0.1), "c": ["x", "y"]}
    assert list_grid_values(space) == {"a": [1, 2, 3], "b": [0.0, 0.1, 0.2, 0.3], "c": ["x", "y"]}
    with pytest.raises(ValueError, match="a grid needs a step, or a list of values, for eta"):
        list_grid_values({**space, "eta": Range(low=0, high=1)})
    with pytest.raises(ValueError, match="the grid has"):
        list_grid_values({"a": Range(low=0, high=1e9, type="int")})


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"a": 2, "b": 0.5, "c": "x"}, True),
        ({"a": 2, "b": 0.5, "c": "x", "more": 1}, True),
        ({"a": 2, "b": 0.5}, False),
        ({"a": 2.5, "b": 0.5, "c": "x"}, False),
        ({"a": 4, "b": 0.5, "c": "x"}, False),
        ({"a": 2, "b": 0.6, "c": "x"}, False),
        ({"a": "2", "b": 0.5, "c": "x"}, False),
        ({"a": 2, "b": 0.5, "c": "z"}, False),
    ],
)
def test_which_values_are_inside(values: dict[str, Any], expected: bool) -> None:
    space = {"a": Range(low=1, high=3, type="int"), "b": Range(low=0, high=1, step=0.25), "c": ["x", "y"]}
    assert contains(space, values) is expected


def test_the_number_of_points() -> None:
    space = {"a": Range(low=1, high=3, type="int"), "b": Range(low=0, high=0.3, step=0.1), "c": ["x", "y"]}
    assert count_points(space) == 3 * 4 * 2
    assert count_points({"a": Range(low=0, high=1e9, type="int")}) == 1e9 + 1
    assert count_points({**space, "eta": Range(low=0, high=1)}) == float("inf")
