"""Test the conversion of a space to Optuna's distributions and to the ranges of SageMaker."""

from typing import Any

import pytest
from botocore.session import Session
from botocore.validate import ParamValidator
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from pipelines.errors import SpecError
from pipelines.tuning.distributions import build_distributions, build_parameter_ranges
from pipelines.tuning.plan import PlanSpec

SPACE: dict[str, Any] = {
    "max_depth": {"low": 3, "high": 10, "type": "int"},
    "eta": {"low": 0.01, "high": 0.3, "log": True},
    "booster": ["gbtree", "dart"],
}


def test_optunas_distributions() -> None:
    assert build_distributions(PlanSpec(space=SPACE).space) == {
        "max_depth": IntDistribution(3, 10),
        "eta": FloatDistribution(0.01, 0.3, log=True),
        "booster": CategoricalDistribution(["gbtree", "dart"]),
    }
    (stepped,) = build_distributions(PlanSpec(space={"x": {"low": 0, "high": 1, "step": 0.5}}).space).values()
    assert stepped == FloatDistribution(0, 1, step=0.5)


def test_sagemakers_ranges_are_valid() -> None:
    ranges = build_parameter_ranges(PlanSpec(space=SPACE).space)
    assert ranges == {
        "IntegerParameterRanges": [
            {"Name": "max_depth", "MinValue": "3", "MaxValue": "10", "ScalingType": "Linear"},
        ],
        "ContinuousParameterRanges": [
            {"Name": "eta", "MinValue": "0.01", "MaxValue": "0.3", "ScalingType": "Logarithmic"}
        ],
        "CategoricalParameterRanges": [{"Name": "booster", "Values": ["gbtree", "dart"]}],
    }
    shape = Session().get_service_model("sagemaker").shape_for("ParameterRanges")
    assert not ParamValidator().validate(ranges, shape).has_errors()


def test_a_step_is_only_for_a_grid() -> None:
    space = PlanSpec(space={"x": {"low": 0, "high": 1, "step": 0.5}}).space
    with pytest.raises(SpecError, match=r"space\.x: SageMaker's ranges have no step\. Give a list"):
        build_parameter_ranges(space)
    assert build_parameter_ranges(space, grid=True) == {
        "CategoricalParameterRanges": [{"Name": "x", "Values": ["0.0", "0.5", "1.0"]}]
    }
