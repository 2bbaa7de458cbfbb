"""Test the checks of a request: a wrong request is refused before the first call. The error says what to change."""

import copy

import botocore.session
import pytest
from airflow.sdk.exceptions import AirflowFailException
from leeway.hooks.sagemaker import request_checks

POLICIES = ("fail", "next_instance_type", "on_demand")
SHAPE = botocore.session.get_session().get_service_model("sagemaker").operation_model("CreateTrainingJob").input_shape
CHANNEL = {"S3DataType": "S3Prefix", "S3Uri": "s3://b/data/"}
REQUEST = {
    "TrainingJobName": "dag-train-0123-1",
    "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
    "HyperParameters": {"eta": "0.1"},
    "InputDataConfig": [{"ChannelName": "train", "DataSource": {"S3DataSource": CHANNEL}}],
    "RoleArn": "arn:aws:iam::123456789012:role/leeway-training",
    "OutputDataConfig": {"S3OutputPath": "s3://b/leeway/jobs"},
    "CheckpointConfig": {"S3Uri": "s3://b/leeway/checkpoints/dag"},
    "Environment": {"PLACE": "here"},
    "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 30},
    "StoppingCondition": {"MaxRuntimeInSeconds": 60},
    "Tags": [{"Key": "leeway:dag", "Value": "dag"}],
}


def assert_refuses(message, check, *args):
    """Assert that a check fails without a retry, and that its message is one line."""
    with pytest.raises(AirflowFailException, match=message) as error:
        check(*args)
    assert "\n" not in str(error.value)


def test_numbers_may_be_text():
    assert (
        request_checks.parse_count("x", "60")
        == request_checks.parse_count("x", 60)
        == request_checks.parse_count("x", 60.0)
        == 60
    )
    assert request_checks.parse_usd("x", "1.5") == 1.5
    assert (
        request_checks.parse_usd("x", None)
        is request_checks.parse_usd("x", "")
        is request_checks.parse_usd("x", "None")
        is None
    )


@pytest.mark.parametrize("value", ["an hour", None, "", "1.5", 1.5, 0, -1, "0", 11, [1], float("nan"), float("inf")])
def test_refuses_a_value_that_is_no_whole_number_within_bounds(value):
    assert_refuses("max_run_s of the task train", request_checks.parse_count, "max_run_s of the task train", value, 10)


@pytest.mark.parametrize("value", ["much", 0, -1, "nan", float("inf")])
def test_refuses_a_value_that_is_no_amount(value):
    assert_refuses("budget_usd must be an amount of US dollars above 0", request_checks.parse_usd, "budget_usd", value)


def test_accepts_one_or_several_instance_types():
    assert request_checks.check_instance_types("t", "ml.m5.large", None, POLICIES, "fail") == ["ml.m5.large"]
    types = ["ml.p4d.24xlarge", "ml.m7i-flex.large"]
    assert request_checks.check_instance_types("t", "ml.m5.large", types, POLICIES, "on_demand") == types


@pytest.mark.parametrize(
    ("instance_type", "instance_types", "policy", "message"),
    [
        ("m5.large", None, "fail", "not instance types of SageMaker: m5.large"),
        ("ml.m5.large", ["ml.m5.large", 5], "on_demand", "not instance types of SageMaker: 5"),
        ("ml.m5.large", ["ml.m5.large", "ml.m5.xlarge"], "fail", "names 2 instance types, but on_no_capacity='fail'"),
        (
            "ml.m5.large",
            "ml.m5.large",
            "fail",
            "instance_types of t must be a list, such as .* it is 'ml",
        ),
        ("ml.m5.large", 5, "fail", "instance_types of t must be a list, such as .* it is 5"),
        ("ml.m5.large", None, "pray", "on_no_capacity of t is 'pray': give one of fail, next_instance_type, on_demand"),
    ],
)
def test_refuses_wrong_instance_types_and_policies(instance_type, instance_types, policy, message):
    arguments = ("t", instance_type, instance_types, POLICIES, policy)
    assert_refuses(message, request_checks.check_instance_types, *arguments)


def test_config_overrides_the_request_and_leaves_the_rest():
    request = {"A": {"x": 1, "y": {"z": 2}}, "B": [1], "C": "c"}
    original = copy.deepcopy(request)
    assert request_checks.merge_config(request, {"A": {"y": {"w": 3}}, "B": [2], "D": 4}) == {
        "A": {"x": 1, "y": {"z": 2, "w": 3}}, "B": [2], "C": "c", "D": 4,
    }  # fmt: skip
    assert request == original


@pytest.mark.parametrize("name", ["TrainingJobName", "Tags"])
def test_config_cannot_change_the_fields_that_identify_a_job(name):
    assert_refuses(f"config must not have {name}", request_checks.merge_config, {}, {name: "x"})


def test_config_cannot_change_where_the_output_goes_but_can_set_its_key():
    output = {"S3OutputPath": "s3://all-days", "KmsKeyId": "k"}
    assert_refuses(
        "config must not have TransformOutput.S3OutputPath",
        request_checks.merge_config,
        {},
        {"TransformOutput": output},
    )
    outputs = {"KmsKeyId": "k", "Outputs": []}
    assert_refuses(
        "config must not have ProcessingOutputConfig.Outputs",
        request_checks.merge_config,
        {},
        {"ProcessingOutputConfig": outputs},
    )
    assert request_checks.merge_config({}, {"ProcessingOutputConfig": {"KmsKeyId": "k"}})["ProcessingOutputConfig"] == {
        "KmsKeyId": "k"
    }
    merged = request_checks.merge_config(
        {"TransformOutput": {"S3OutputPath": "s3://own"}}, {"TransformOutput": {"KmsKeyId": "k"}}
    )
    assert merged == {"TransformOutput": {"S3OutputPath": "s3://own", "KmsKeyId": "k"}}


def test_accepts_a_valid_request():
    request_checks.check_shape(REQUEST, SHAPE)
    request_checks.check_checkpoint_folder(REQUEST, "b")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"RoleArn": "leeway-training-role-without-arn"}, "RoleArn .* is not of the form arn:aws"),
        ({"RoleArn": "short"}, "for parameter RoleArn, value: 5, valid min length: 20"),
        ({"HyperParameters": {"eta": "x" * 2501}}, "HyperParameters.eta has 2501 characters"),
        (
            {"HyperParameters": {f"h{n}": "" for n in range(101)}},
            "HyperParameters has 101 entries, and may have 0 to 100",
        ),
        ({"Environment": {"not a name": "x"}}, "a name in Environment 'not a name' is not of the form"),
        ({"InputDataConfig": []}, "InputDataConfig"),
        ({"InputDataConfig": [{**REQUEST["InputDataConfig"][0], "ChannelName": "a b"}]}, "ChannelName 'a b' is not of"),
        ({"RetryStrategy": {"MaximumRetryAttempts": "many"}}, "RetryStrategy.MaximumRetryAttempts"),
        ({"Colour": "red"}, "Colour"),
    ],
)
def test_refuses_a_request_that_sagemaker_would_refuse(fields, message):
    assert_refuses(message, request_checks.check_shape, {**REQUEST, **fields}, SHAPE)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("s3://other/checkpoints", "must be in a folder of s3://b: S3Uri is 's3://other/checkpoints'"),
        ("s3://b/", "must be in a folder of s3://b"),
        ("", "S3Uri is ''"),
        ("s3://b/leeway/jobs/here", "the models' folder s3://b/leeway/jobs overlap"),
        ("s3://b/leeway", "the models' folder"),
        ("s3://b/data", "the channel train s3://b/data/ overlap"),
        ("s3://b/data/x", "the channel train"),
    ],
)
def test_checkpoints_need_their_own_folder_in_the_bucket(uri, message):
    assert_refuses(
        message, request_checks.check_checkpoint_folder, {**REQUEST, "CheckpointConfig": {"S3Uri": uri}}, "b"
    )


def test_folders_with_the_same_prefix_are_separate():
    request_checks.check_checkpoint_folder(
        {**REQUEST, "CheckpointConfig": {"S3Uri": "s3://b/leeway/jobs-checkpoints"}}, "b"
    )
