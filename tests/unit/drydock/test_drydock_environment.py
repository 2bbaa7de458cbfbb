"""The script-mode contract: command and environment."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drydock.environment import command, environment, user_arguments
from drydock.errors import JobFailed
from drydock.tree import JobTree

Make = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    ("given", "argument"),
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
def test_values_are_decoded_as_the_toolkit_does(make_request: Make, given: str, argument: str) -> None:
    assert user_arguments(make_request(HyperParameters={"x-y": given})) == ["--x-y", argument]


def test_arguments_are_sorted_and_without_the_toolkits_own(make_request: Make) -> None:
    given = {"b": "1", "alpha": "2", "sagemaker_region": "us-east-1"}
    assert user_arguments(make_request(HyperParameters=given)) == ["--alpha", "2", "-b", "1"]


def test_the_script_is_run_by_this_python(make_request: Make, tmp_path: Path) -> None:
    tree = JobTree(tmp_path)
    tree.create(make_request())
    (tree.code / "train.py").touch()
    (tree.code / "train.sh").touch()
    assert command(make_request(), tree) == [sys.executable, "train.py"]
    assert command(make_request(HyperParameters={"sagemaker_program": '"train.sh"'}), tree)[0] == "/bin/sh"
    with pytest.raises(JobFailed, match=r"no file other\.py"):
        command(make_request(HyperParameters={"sagemaker_program": "other.py"}), tree)


def test_an_entrypoint_goes_before_the_script(make_request: Make, tmp_path: Path) -> None:
    algorithm = {"TrainingInputMode": "File", "ContainerEntrypoint": ["a"], "ContainerArguments": ["b"]}
    assert command(make_request(AlgorithmSpecification=algorithm), JobTree(tmp_path)) == ["a", "b"]


def built(request: dict[str, Any], **server: str) -> dict[str, str]:
    return environment(request, JobTree(Path("/tree")), arn="arn:x", region="eu-west-1", url="http://u", server=server)


def test_the_servers_environment_stays_with_the_server(make_request: Make) -> None:
    env = built(make_request(), PATH="/bin", PYTHONPATH="/p", LC_ALL="C", TOKEN="secret", AWS_PROFILE="prod")
    assert env["PATH"] == "/bin" and env["PYTHONPATH"] == "/p" and env["LC_ALL"] == "C"
    assert "TOKEN" not in env and "AWS_PROFILE" not in env


def test_credentials_are_the_servers_or_dummies(make_request: Make) -> None:
    assert built(make_request())["AWS_ACCESS_KEY_ID"] == "drydock"
    env = built(make_request(), AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b", AWS_SESSION_TOKEN="c")
    assert [env[f"AWS_{name}"] for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")] == [
        "a",
        "b",
        "c",
    ]
    assert env["AWS_ENDPOINT_URL"] == "http://u" and env["AWS_DEFAULT_REGION"] == "eu-west-1"


def test_the_requests_environment_wins(make_request: Make) -> None:
    env = built(make_request(Environment={"MLFLOW_TRACKING_URI": "own"}), MLFLOW_TRACKING_URI="the server's")
    assert env["MLFLOW_TRACKING_URI"] == "own"
    assert built(make_request(), MLFLOW_TRACKING_URI="the server's")["MLFLOW_TRACKING_URI"] == "the server's"


def test_folders_are_those_of_the_tree(make_request: Make) -> None:
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://b/x"}}
    env = built(
        make_request(
            InputDataConfig=[{"ChannelName": "train-1", "DataSource": source}],
            CheckpointConfig={"S3Uri": "s3://b/c", "LocalPath": "/opt/ml/kept"},
            HyperParameters={"depth": "3"},
        )
    )
    assert env["SAGEMAKER_BASE_DIR"] == "/tree" and env["SM_MODEL_DIR"] == "/tree/model"
    assert env["SM_CHANNEL_TRAIN-1"] == "/tree/input/data/train-1"
    assert env["SM_CHECKPOINT_DIR"] == "/tree/kept"
    assert json.loads(env["SM_TRAINING_ENV"])["hyperparameters"] == {"depth": 3}
