"""Test the conversion of a plan to a SageMaker tuning job, and of the values of its trials back."""

from typing import Any

import pytest
from botocore.session import Session
from botocore.validate import ParamValidator

from pipelines.errors import SpecError
from pipelines.tuning.plan import PlanSpec
from pipelines.tuning.sagemaker_job import build_parameter_ranges, build_tuning_config, parse_values

SPACE: dict[str, Any] = {
    "max_depth": {"low": 3, "high": 10, "type": "int"},
    "eta": {"low": 0.01, "high": 0.3, "log": True},
    "booster": ["gbtree", "dart"],
}


def build_config(trials: int = 7, **plan: Any) -> dict[str, Any]:
    """Build the configuration of a plan, and check it by the types of boto3."""
    config = build_tuning_config(PlanSpec(**{"space": SPACE, **plan}), {"num_round": 90}, trials, 5)
    shape = Session().get_service_model("sagemaker").shape_for("HyperParameterTuningJobConfig")
    assert not ParamValidator().validate(config, shape).has_errors()
    return config


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
    assert build_parameter_ranges(space, is_grid=True) == {
        "CategoricalParameterRanges": [{"Name": "x", "Values": ["0.0", "0.5", "1.0"]}]
    }


def test_the_configuration_has_all_of_the_plan() -> None:
    config = build_config(strategy="bayesian", parallel=3, early_stopping="median", max_hours=2)
    assert config["Strategy"] == "Bayesian"
    assert config["ResourceLimits"] == {
        "MaxNumberOfTrainingJobs": 7,
        "MaxParallelTrainingJobs": 3,
        "MaxRuntimeInSeconds": 7_200,
    }
    assert config["HyperParameterTuningJobObjective"] == {"Type": "Minimize", "MetricName": "tuning-objective"}
    assert (config["TrainingJobEarlyStoppingType"], config["RandomSeed"]) == ("Auto", 5)
    assert "StrategyConfig" not in config
    assert build_config(1, parallel=3)["ResourceLimits"]["MaxParallelTrainingJobs"] == 1, "SageMaker refuses more"


def test_hyperband_lets_a_script_log_its_last_line() -> None:
    bounds = build_config(strategy="hyperband")["StrategyConfig"]["HyperbandStrategyConfig"]
    assert bounds == {"MinResource": 10, "MaxResource": 91}


def test_sagemaker_counts_the_points_of_a_grid() -> None:
    config = build_config(strategy="grid", space={"max_depth": [3, 4], "booster": ["gbtree", "dart"]}, trials=4)
    assert "MaxNumberOfTrainingJobs" not in config["ResourceLimits"]


def test_values_of_a_trial_get_the_types_of_the_space() -> None:
    space = PlanSpec(space={**SPACE, "n": [1, 2]}).space
    texts = {"max_depth": "5", "eta": "0.05", "booster": "dart", "n": '"2"', "_tuning_objective_metric": "x"}
    assert parse_values(space, texts) == {"max_depth": 5, "eta": 0.05, "booster": "dart", "n": 2}
