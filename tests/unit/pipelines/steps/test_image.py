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


@pytest.mark.parametrize("instance_type", ["ml.c7g.large", "ml.c8g.large", "ml.c6gn.large", "ml.g5g.xlarge"])
def test_instance_type_without_an_image_of_its_architecture_is_refused_in_one_line(instance_type: str) -> None:
    text = f"no image of xgboost 3.2-0 for arm64, the architecture of {instance_type}; there is one for x86_64."
    with pytest.raises(SpecError, match=text) as error:
        run(ImageSpec(region="us-east-1", instance_type=instance_type))
    assert "\n" not in str(error.value) and "upgrade" not in str(error.value)


def test_unknown_version_on_arm64_is_an_unknown_version() -> None:
    with pytest.raises(SpecError, match=r"no image of xgboost 0\.0-0 in us-east-1: Unsupported xgboost version"):
        run(ImageSpec(region="us-east-1", instance_type="ml.c7g.large", framework_version="0.0-0"))


def test_finds_the_image_for_arm64_where_there_is_one() -> None:
    result = run(ImageSpec(region="us-east-1", instance_type="ml.c7g.large", framework_version="1.5-1"))
    assert result.image_uri.endswith("sagemaker-xgboost:1.5-1-arm64")


@pytest.mark.parametrize("instance_type", ["ml.g4dn.xlarge", "ml.inf2.xlarge", "ml.p4d.24xlarge"])
def test_a_g_before_the_generation_is_no_architecture(instance_type: str) -> None:
    assert run(ImageSpec(region="us-east-1", instance_type=instance_type)).image_uri.endswith(":3.2-0")


def test_an_image_for_arm64_that_is_only_for_inference_is_refused() -> None:
    spec = ImageSpec(framework="pytorch", framework_version="2.1.0", region="us-east-1", instance_type="ml.m6g.large")
    with pytest.raises(SpecError, match=r"no image of pytorch 2\.1\.0 for arm64"):
        run(spec)
