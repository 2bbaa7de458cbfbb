"""The environment of a job's host."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drydock.environment import Place, common, configuration, training
from drydock.training_job import TrainingJob

Make = Callable[..., TrainingJob]


def place(*, here: bool = True, **machine: str) -> Place:
    return Place("/tree", "algo-2", ["algo-1", "algo-2"], 2, machine, here, "http://u")


def test_the_servers_environment_stays_with_the_server() -> None:
    machine = {"PATH": "/bin", "PYTHONPATH": "/p", "LC_ALL": "C", "TOKEN": "secret", "AWS_PROFILE": "prod"}
    machine["OMP_WAIT_POLICY"] = "passive"
    env = common("eu-west-1", place(**machine))
    assert env["PYTHONPATH"] == "/p" and env["LC_ALL"] == "C"
    assert env["OMP_WAIT_POLICY"] == "passive"
    assert not {"TOKEN", "AWS_PROFILE"} & env.keys()
    # An image has its own: of this machine's nothing that names a place.
    assert (
        not {"PATH", "PYTHONPATH", "LC_ALL", "OMP_WAIT_POLICY"}
        & common("eu-west-1", place(here=False, **machine)).keys()
    )


def test_python_of_a_job_here_is_the_servers() -> None:
    own = str(Path(sys.executable).parent)
    assert common("eu-west-1", place(PATH="/a:/b"))["PATH"] == f"{own}:/a:/b"
    assert common("eu-west-1", place(PATH=f"/a:{own}"))["PATH"] == f"{own}:/a"
    assert common("eu-west-1", place())["PATH"] == f"{own}:{os.defpath}"


def test_credentials_are_the_servers_or_dummies() -> None:
    assert common("eu-west-1", place())["AWS_ACCESS_KEY_ID"] == "drydock"
    given = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_SESSION_TOKEN": "c"}
    assert common("eu-west-1", place(**given)).items() >= given.items()
    # A token without its key is nobody's.
    assert "AWS_SESSION_TOKEN" not in common("eu-west-1", place(AWS_SESSION_TOKEN="c"))
    env = common("eu-west-1", place())
    assert env["AWS_ENDPOINT_URL"] == "http://u" and env["AWS_DEFAULT_REGION"] == "eu-west-1"


def test_the_requests_environment_wins(make_job: Make) -> None:
    server = place(MLFLOW_TRACKING_URI="the server's")
    assert training(make_job(Environment={"MLFLOW_TRACKING_URI": "own"}), server)["MLFLOW_TRACKING_URI"] == "own"
    assert training(make_job(), server)["MLFLOW_TRACKING_URI"] == "the server's"


def test_folders_are_those_of_the_tree(make_job: Make) -> None:
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://b/x"}}
    job = make_job(
        InputDataConfig=[{"ChannelName": "train-1", "DataSource": source}],
        CheckpointConfig={"S3Uri": "s3://b/c", "LocalPath": "/opt/ml/kept"},
        HyperParameters={"depth": "3"},
    )
    env = training(job, place())
    assert env["SAGEMAKER_BASE_DIR"] == "/tree" and env["SM_MODEL_DIR"] == "/tree/model"
    assert env["SM_CHANNEL_TRAIN-1"] == "/tree/input/data/train-1"
    assert env["SM_CHECKPOINT_DIR"] == "/tree/kept"
    assert json.loads(env["SM_TRAINING_ENV"])["hyperparameters"] == {"depth": 3}


def test_a_host_knows_itself_and_the_others(make_job: Make) -> None:
    env: dict[str, Any] = training(make_job(), place())
    assert env["SM_CURRENT_HOST"] == "algo-2" and json.loads(env["SM_HOSTS"]) == ["algo-1", "algo-2"]
    resources = configuration(make_job(), place())["resourceconfig.json"]
    assert resources["current_host"] == "algo-2" and resources["hosts"] == ["algo-1", "algo-2"]
