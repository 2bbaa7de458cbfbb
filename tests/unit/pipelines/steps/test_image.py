"""Test which container image and how many GPUs a training has."""

import pytest

from pipelines.errors import SpecError
from pipelines.steps.image import ImageSpec, run

VALID = {"region": "us-east-1", "instance_type": "ml.m5.large"}


def test_finds_the_xgboost_container() -> None:
    result = run(ImageSpec(**VALID))
    assert result.image_uri == "683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-xgboost:3.2-0"
    assert result.gpus == 0


def test_finds_the_number_of_gpus() -> None:
    assert run(ImageSpec(region="us-east-1", instance_type="ml.p3.8xlarge")).gpus == 4


@pytest.mark.parametrize(
    "fields",
    [
        {"framework": "nope"},
        {"framework_version": "0.0-0"},
        {"region": "mars-1"},
        {"region": ""},
        {"instance_type": "m5.large"},
        {"instance_type": "ml."},
    ],
)
def test_refuses_values_that_the_sdk_does_not_know(fields: dict[str, str]) -> None:
    with pytest.raises(SpecError):
        run(ImageSpec(**{**VALID, **fields}))
