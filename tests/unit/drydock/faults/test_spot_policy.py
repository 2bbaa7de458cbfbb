"""Test how the table [spot] of the configuration file is parsed, and what is refused."""

from typing import Any

import pytest

from drydock.errors import InvalidSetting
from drydock.faults.spot_market import Schedule, SpotPolicy
from drydock.faults.spot_policy import parse_policy


@pytest.mark.parametrize(
    "table",
    [
        {"interruption_probability": 1},
        {"interruption_probability": -0.1},
        {"billable_fraction": 0},
        {"billable_fraction": 1.1},
        {"notice_s": -1},
        {"no_capacity_s": -1},
        {"notice_s": "soon"},
        {"unknown": 1},
        {"notice_s": True},
        {"notice_s": float("inf")},
        {"no_capacity_s": float("nan")},
        {"seed": 1.5},
        {"seed": True},
        {"without_capacity": "ml.m5.large"},
        {"without_capacity": [1]},
        {"interrupt": [{"job": "x"}]},
        {"interrupt": [{"job": "x", "after_s": ["soon"]}]},
        {"interrupt": [{"job": 3, "after_s": [1]}]},
        {"interrupt": [{"job": "x", "after_s": [1], "more": 2}]},
        {"interrupt": ["x"]},
        {"interrupt": 7},
    ],
)
def test_invalid_policy_is_refused(table: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting):
        parse_policy(table)


def test_policy_is_parsed_from_a_table() -> None:
    policy = parse_policy({"seed": 3, "interrupt": [{"job": "a*", "after_s": [1, 2]}]})
    assert policy == SpotPolicy(seed=3, interruptions=[Schedule("a*", [1.0, 2.0])])
