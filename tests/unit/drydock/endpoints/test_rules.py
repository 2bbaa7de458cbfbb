"""Test the rules of endpoints' requests."""

import math
from collections.abc import Sequence

import pytest
from moto.sagemaker.exceptions import AWSValidationException

from drydock.endpoints.rules import MAX_WEIGHT, check_weights


@pytest.mark.parametrize(
    ("weights", "shadow_weights"), [([1.0], []), ([0.0, 0.5], []), ([1.0], [0.0]), ([1.0], [MAX_WEIGHT])]
)
def test_usable_weights(weights: Sequence[float], shadow_weights: Sequence[float]) -> None:
    check_weights(weights, shadow_weights)


@pytest.mark.parametrize(
    ("weights", "shadow_weights", "text"),
    [
        ([0.0], [1.0], "must be greater than 0"),
        ([math.nan], [], "must be a number up to"),
        ([1.0], [math.nan], "must be a number up to"),
        ([1.0], [1e31], "must be a number up to"),
    ],
)
def test_weights_that_are_refused(weights: Sequence[float], shadow_weights: Sequence[float], text: str) -> None:
    with pytest.raises(AWSValidationException, match=text):
        check_weights(weights, shadow_weights)
