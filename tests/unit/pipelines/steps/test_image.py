import pytest

from pipelines.errors import SpecError
from pipelines.steps.image import ImageSpec, run

GOOD = {"region": "us-east-1", "instance_type": "ml.m5.large"}


def test_the_xgboost_container() -> None:
    told = run(ImageSpec(**GOOD))
    assert told.image_uri == "683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-xgboost:3.2-0"
    assert told.gpus == 0


def test_an_instance_with_gpus_has_them() -> None:
    assert run(ImageSpec(region="us-east-1", instance_type="ml.p3.8xlarge")).gpus == 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"framework": "nope"},
        {"framework_version": "0.0-0"},
        {"region": "mars-1"},
        {"region": ""},
        {"instance_type": "m5.large"},
        {"instance_type": "ml."},
    ],
)
def test_what_the_sdk_does_not_know_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(SpecError):
        run(ImageSpec(**{**GOOD, **wrong}))
