"""Test the hyperparameters that a script gets."""

from collections.abc import Callable
from typing import Any

import pytest

from drydock.host.hyperparameters import build_script_arguments, decode_hyperparameters

Make = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    ("value", "argument"),
    [
        ("3", "3"),
        ("0.10", "0.1"),
        ("true", "True"),
        ("null", "None"),
        ('"text"', "text"),
        ("plain", "plain"),
        ("2013-03-01", "2013-03-01"),
        ("007", "007"),
        ('[1, "a"]', "[1, 'a']"),
        ('{"b": 1, "a": 2}', "a=2,b=1"),
        ("", ""),
    ],
)
def test_values_are_decoded_as_the_sagemaker_toolkit_does(make_request: Make, value: str, argument: str) -> None:
    assert build_script_arguments(make_request(HyperParameters={"x-y": value})) == ["--x-y", argument]


def test_arguments_are_sorted_and_exclude_those_of_the_toolkit(make_request: Make) -> None:
    request = make_request(HyperParameters={"b": "1", "alpha": "2", "sagemaker_region": "us-east-1"})
    assert build_script_arguments(request) == ["--alpha", "2", "-b", "1"]
    assert decode_hyperparameters(request) == {"b": 1, "alpha": 2}
    assert decode_hyperparameters(request, include_toolkit_settings=True)["sagemaker_region"] == "us-east-1"


def test_metric_of_a_tuning_job_is_a_setting_of_the_toolkit(make_request: Make) -> None:
    request = make_request(HyperParameters={"_tuning_objective_metric": "loss", "_other": "1"})
    assert build_script_arguments(request) == ["--_other", "1"]
    assert decode_hyperparameters(request, include_toolkit_settings=True)["_tuning_objective_metric"] == "loss"


def test_request_without_hyperparameters_gives_no_arguments() -> None:
    assert decode_hyperparameters({}) == {} and build_script_arguments({}) == []
