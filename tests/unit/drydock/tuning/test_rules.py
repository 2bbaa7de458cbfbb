"""Test that requests of tuning jobs that cannot run are refused, with a message that says what to do."""

from collections.abc import Callable
from typing import Any

import pytest
from moto.sagemaker.exceptions import AWSValidationException

from drydock.api.validation import validate_request
from drydock.tuning import rules
from drydock.tuning.rules import ResourceLimitExceeded, check_request

RATE = {"Name": "rate", "MinValue": "0.001", "MaxValue": "1"}
DEPTH = {"Name": "depth", "MinValue": "1", "MaxValue": "30"}
KIND = {"Name": "kind", "Values": ["a", "b"]}
INSTANCE = {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1}


def build_integers(**changes: str) -> dict[str, Any]:
    """Return ranges with one integer."""
    return {"ParameterRanges": {"IntegerParameterRanges": [{**DEPTH, **changes}]}}


def build_numbers(**changes: str) -> dict[str, Any]:
    """Return ranges with one number."""
    return {"ParameterRanges": {"ContinuousParameterRanges": [{**RATE, **changes}]}}


HYPERBAND = {"Strategy": "Hyperband"}
ONE_KIND = {"ParameterRanges": {"CategoricalParameterRanges": [KIND]}}
NO_EPOCHS = {"definition": {"StaticHyperParameters": {}}}

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"ParameterRanges": {}}, "ParameterRanges are empty"),
    (build_integers(MinValue="30"), "MinValue 30 must be less than MaxValue 30"),
    (build_integers(MinValue="31"), "MinValue 31 must be less than MaxValue 30"),
    (build_integers(MinValue="1.5"), "MinValue '1.5' is not an integer"),
    (build_numbers(MaxValue="one"), "MaxValue 'one' is not a finite number"),
    (build_numbers(MaxValue="inf"), "MaxValue 'inf' is not a finite number"),
    (build_numbers(MinValue="-1e308", MaxValue="1e308"), "MinValue -1e+308 and MaxValue 1e+308 are too far apart"),
    (build_numbers(MinValue="0", ScalingType="Logarithmic"), "needs a MinValue greater than 0, not 0"),
    (build_integers(MinValue="0", ScalingType="Logarithmic"), "needs a MinValue greater than 0, not 0"),
    (build_numbers(ScalingType="ReverseLogarithmic"), "needs a range within 0 <= x < 1"),
    (build_numbers(MinValue="-1", MaxValue="0.5", ScalingType="ReverseLogarithmic"), "within 0 <= x < 1"),
    (build_integers(ScalingType="ReverseLogarithmic"), "only for continuous ranges, not for the integer depth"),
    ({"ParameterRanges": {"CategoricalParameterRanges": [{**KIND, "Values": ["a", "a"]}]}}, "a value more than once"),
    ({"ParameterRanges": {"ContinuousParameterRanges": [RATE, RATE]}}, "more than one range for the hyperparam"),
    ({"ParameterRanges": {"AutoParameters": [{"Name": "a", "ValueHint": "1"}]}}, "AutoParameters are not supported"),
    ({"definition": {"StaticHyperParameters": {"rate": "1"}}}, "rate is both static and tuned"),
    ({"HyperParameterTuningJobObjective": {"Type": "Minimize", "MetricName": "auc"}}, "A metric is required for this"),
    ({"definition": {"AlgorithmSpecification": {"TrainingImage": "i", "TrainingInputMode": "File"}}}, "A metric"),
    ({"limits": {"MaxParallelTrainingJobs": 11}}, "Invalid MaxParallelTrainingJobs 11"),
    ({"limits": {"MaxNumberOfTrainingJobs": 0}}, "have value greater than or equal to 1"),
    ({"limits": {"MaxRuntimeInSeconds": 60}}, "have value greater than or equal to 120"),
    ({"limits": {"MaxNumberOfTrainingJobs": 3, "MaxParallelTrainingJobs": 1}, **ONE_KIND}, r"provided ranges \[2.0\]"),
    ({**ONE_KIND, "Strategy": "Grid"}, "must equal the number of combinations of the categorical values, 2"),
    ({**build_integers(), "Strategy": "Grid"}, "Grid supports only CategoricalParameterRanges"),
    ({**HYPERBAND, **NO_EPOCHS}, "MaxResource parameter is not provided and could not be inferred"),
    ({**HYPERBAND, "TrainingJobEarlyStoppingType": "Auto"}, "TrainingJobEarlyStoppingType must be Off"),
    ({**HYPERBAND, "StrategyConfig": {"HyperbandStrategyConfig": {"MinResource": 9}}}, "MinResource 9 must be less"),
    ({"StrategyConfig": {"HyperbandStrategyConfig": {"MaxResource": 9}}}, "only supported when Strategy is Hyperband"),
    ({"TuningJobCompletionCriteria": {"ConvergenceDetected": {"CompleteOnConvergence": "Enabled"}}}, "ConvergenceDete"),
    ({"request": {"Autotune": {"Mode": "Enabled"}}}, "Autotune is not supported"),
    ({"definition": {"StoppingCondition": {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 90}}}, "Invalid MaxWait"),
    ({"definition": {"CheckpointConfig": {"S3Uri": "https://b/c"}}}, "CheckpointConfig.S3Uri: https"),
    ({"definition": {"HyperParameterTuningResourceConfig": INSTANCE}}, "either ResourceConfig or HyperParameterTuning"),
]  # fmt: skip


def check(request: dict[str, Any]) -> None:
    """Check a request as the API does."""
    check_request(validate_request("CreateHyperParameterTuningJob", request))


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_request_that_cannot_run_is_refused(
    make_tuning_request: Callable[..., dict[str, Any]], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(AWSValidationException, match=message):
        check(make_tuning_request(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {**ONE_KIND, "limits": {"MaxNumberOfTrainingJobs": 2}, "Strategy": "Grid"},
        {**ONE_KIND, "limits": {"MaxNumberOfTrainingJobs": 2}},
        HYPERBAND,
        {**HYPERBAND, **NO_EPOCHS, "StrategyConfig": {"HyperbandStrategyConfig": {"MaxResource": 9}}},
        build_numbers(MinValue="0", MaxValue="0.999", ScalingType="ReverseLogarithmic"),
        build_integers(ScalingType="Logarithmic"),
        {"TuningJobCompletionCriteria": {"ConvergenceDetected": {"CompleteOnConvergence": "Disabled"}}},
        {"definition": {"RetryStrategy": {"MaximumRetryAttempts": 1}}},
    ],
)
def test_request_that_can_run_is_accepted(
    make_tuning_request: Callable[..., dict[str, Any]], changes: dict[str, Any]
) -> None:
    check(make_tuning_request(**changes))


@pytest.mark.parametrize(
    "limits",
    [
        {"MaxNumberOfTrainingJobs": 200, "MaxParallelTrainingJobs": rules.MAX_PARALLEL_TRIALS + 1},
        {"MaxNumberOfTrainingJobs": rules.MAX_TRIALS + 1},
    ],
)
def test_more_than_the_quota_is_refused(
    make_tuning_request: Callable[..., dict[str, Any]], limits: dict[str, int]
) -> None:
    with pytest.raises(ResourceLimitExceeded, match="The account-level service limit"):
        check(make_tuning_request(limits=limits))


def test_one_of_several_resources_and_definitions_is_accepted(
    make_tuning_request: Callable[..., dict[str, Any]],
) -> None:
    request = make_tuning_request()
    definition = request.pop("TrainingJobDefinition")
    with pytest.raises(AWSValidationException, match="You must specify a TrainingJobDefinition"):
        check(request)
    with pytest.raises(AWSValidationException, match="Several TrainingJobDefinitions are not supported"):
        check({**request, "TrainingJobDefinitions": [definition, definition]})
    check({**request, "TrainingJobDefinitions": [definition]})
    del definition["ResourceConfig"]
    with pytest.raises(AWSValidationException, match="Value null at 'resourceConfig'"):
        check({**request, "TrainingJobDefinition": definition})
    for config in (INSTANCE, {"AllocationStrategy": "Prioritized", "InstanceConfigs": [INSTANCE]}):
        check({**request, "TrainingJobDefinition": {**definition, "HyperParameterTuningResourceConfig": config}})
    several = {"InstanceConfigs": [INSTANCE, {**INSTANCE, "InstanceType": "ml.m5.xlarge"}]}
    with pytest.raises(AWSValidationException, match="with several InstanceConfigs is not supported"):
        check({**request, "TrainingJobDefinition": {**definition, "HyperParameterTuningResourceConfig": several}})


def test_missing_library_is_named(
    make_tuning_request: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(AWSValidationException, match=r"pip install 'leeway\[drydock\]'"):
        check(make_tuning_request())
