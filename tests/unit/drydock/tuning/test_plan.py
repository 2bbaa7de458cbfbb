"""Test the requests of trials: their hyperparameters, resources and folders of checkpoints."""

from collections.abc import Callable
from typing import Any

import pytest

from drydock.tuning.plan import TuningPlan, build_trial_name
from drydock.tuning.ranges import choose_scale, read_ranges

INSTANCE = {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1}


def test_trial_has_the_definition_with_its_own_values_and_checkpoints(make_tuning_request: Callable[..., Any]) -> None:
    definition = {
        "CheckpointConfig": {"S3Uri": "s3://b/c/", "LocalPath": "/opt/ml/checkpoints"},
        "Environment": {"A": "1"},
        "RetryStrategy": {"MaximumRetryAttempts": 2},
    }
    plan = TuningPlan(make_tuning_request(definition=definition))
    request = plan.build_trial_request("tuning-001-1a2b", {"rate": "0.5"}, [{"Key": "k", "Value": "v"}])
    assert request["HyperParameters"] == {"_tuning_objective_metric": "loss", "epochs": "9", "rate": "0.5"}
    assert request["CheckpointConfig"] == {"S3Uri": "s3://b/c/tuning-001-1a2b", "LocalPath": "/opt/ml/checkpoints"}
    assert request["Environment"] == {"A": "1"} and request["Tags"] == [{"Key": "k", "Value": "v"}]
    assert plan.max_retries == 2 and "StaticHyperParameters" not in request and "DefinitionName" not in request
    assert "Tags" not in plan.build_trial_request("t", {}, [])


@pytest.mark.parametrize("config", [INSTANCE, {"AllocationStrategy": "Prioritized", "InstanceConfigs": [INSTANCE]}])
def test_trial_gets_the_resources_of_either_structure(make_tuning_request: Any, config: dict[str, Any]) -> None:
    request = make_tuning_request(definition={"HyperParameterTuningResourceConfig": config})
    del request["TrainingJobDefinition"]["ResourceConfig"]
    assert TuningPlan(request).build_trial_request("t", {}, [])["ResourceConfig"] == INSTANCE


def test_largest_resource_is_given_or_a_static_hyperparameter(make_tuning_request: Any) -> None:
    assert TuningPlan(make_tuning_request(Strategy="Hyperband")).resource_bounds == (1, 9)
    bounds = {"HyperbandStrategyConfig": {"MinResource": 2, "MaxResource": 20}}
    assert TuningPlan(make_tuning_request(Strategy="Hyperband", StrategyConfig=bounds)).resource_bounds == (2, 20)


def test_names_of_trials_are_valid_and_differ_for_equal_names_of_tuning_jobs() -> None:
    name = build_trial_name("t" * 32, "arn", "2026-01-01", 7)
    assert name.startswith("t" * 32 + "-007-") and len(name) <= 63
    assert name == build_trial_name("t" * 32, "arn", "2026-01-01", 7) != build_trial_name("t" * 32, "arn", "2027", 7)


def test_values_of_ranges_survive_as_text() -> None:
    ranges = {
        "ContinuousParameterRanges": [
            {"Name": "momentum", "MinValue": "0", "MaxValue": "0.999", "ScalingType": "ReverseLogarithmic"}
        ],
        "IntegerParameterRanges": [{"Name": "depth", "MinValue": "1", "MaxValue": "9"}],
        "CategoricalParameterRanges": [{"Name": "kind", "Values": ['"a b"', "1"]}],
    }
    depth, momentum, kind = read_ranges(ranges)
    assert [depth.format(depth.parse("3")), kind.format(kind.parse('"a b"'))] == ["3", '"a b"']
    assert float(momentum.format(momentum.parse("0.9"))) == pytest.approx(0.9)
    for item, text in ((depth, "10"), (depth, "x"), (momentum, "1"), (kind, "c")):
        with pytest.raises(ValueError, match=r"\S"):
            item.parse(text)


@pytest.mark.parametrize(
    ("low", "high", "scale"), [("0.001", "1", "Logarithmic"), ("0.1", "1", "Linear"), ("0", "100000", "Linear")]
)
def test_automatic_scale_depends_on_the_ends(low: str, high: str, scale: str) -> None:
    assert choose_scale({"MinValue": low, "MaxValue": high}) == scale
    assert choose_scale({"MinValue": low, "MaxValue": high, "ScalingType": "Linear"}) == "Linear"
