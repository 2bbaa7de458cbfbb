"""Test the environment of a job's host."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drydock.jobs.environment import HostContext, build_common_environment
from drydock.jobs.training.environment import build_config_files, build_environment
from drydock.jobs.training.job import TrainingJob

Make = Callable[..., TrainingJob]


def build_context(*, is_container: bool = False, **server_env: str) -> HostContext:
    return HostContext("/tree", "algo-2", ["algo-1", "algo-2"], 2, server_env, is_container, "http://u")


def test_job_does_not_see_the_environment_of_the_server() -> None:
    machine = {"PATH": "/bin", "PYTHONPATH": "/p", "LC_ALL": "C", "TOKEN": "secret", "AWS_PROFILE": "prod"}
    machine["OMP_WAIT_POLICY"] = "passive"
    env = build_common_environment("eu-west-1", build_context(**machine))
    assert env["PYTHONPATH"] == "/p" and env["LC_ALL"] == "C"
    assert env["OMP_WAIT_POLICY"] == "passive"
    assert not {"TOKEN", "AWS_PROFILE"} & env.keys()
    # An image has its own paths. Variables with paths of this machine are left out.
    assert (
        not {"PATH", "PYTHONPATH", "LC_ALL", "OMP_WAIT_POLICY"}
        & build_common_environment("eu-west-1", build_context(is_container=True, **machine)).keys()
    )


def test_python_on_the_path_is_that_of_the_server() -> None:
    own = str(Path(sys.executable).parent)
    assert build_common_environment("eu-west-1", build_context(PATH="/a:/b"))["PATH"] == f"{own}:/a:/b"
    assert build_common_environment("eu-west-1", build_context(PATH=f"/a:{own}"))["PATH"] == f"{own}:/a"
    assert build_common_environment("eu-west-1", build_context())["PATH"] == f"{own}:{os.defpath}"


def test_credentials_are_those_of_the_server_or_dummies() -> None:
    assert build_common_environment("eu-west-1", build_context())["AWS_ACCESS_KEY_ID"] == "drydock"
    credentials = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_SESSION_TOKEN": "c"}
    assert build_common_environment("eu-west-1", build_context(**credentials)).items() >= credentials.items()
    # A token without its key is not used.
    assert "AWS_SESSION_TOKEN" not in build_common_environment("eu-west-1", build_context(AWS_SESSION_TOKEN="c"))
    env = build_common_environment("eu-west-1", build_context())
    assert env["AWS_ENDPOINT_URL"] == "http://u" and env["AWS_DEFAULT_REGION"] == "eu-west-1"


def test_environment_of_the_request_overrides_others(make_job: Make) -> None:
    server = build_context(MLFLOW_TRACKING_URI="the server's")
    assert (
        build_environment(make_job(Environment={"MLFLOW_TRACKING_URI": "own"}), server)["MLFLOW_TRACKING_URI"] == "own"
    )
    assert build_environment(make_job(), server)["MLFLOW_TRACKING_URI"] == "the server's"


def test_folder_variables_point_into_the_job_folder(make_job: Make) -> None:
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://b/x"}}
    job = make_job(
        InputDataConfig=[{"ChannelName": "train-1", "DataSource": source}],
        CheckpointConfig={"S3Uri": "s3://b/c", "LocalPath": "/opt/ml/other"},
        HyperParameters={"depth": "3"},
    )
    env = build_environment(job, build_context())
    assert env["SAGEMAKER_BASE_DIR"] == "/tree" and env["SM_MODEL_DIR"] == "/tree/model"
    assert env["SM_CHANNEL_TRAIN-1"] == "/tree/input/data/train-1"
    assert env["SM_CHECKPOINT_DIR"] == "/tree/other"
    assert json.loads(env["SM_TRAINING_ENV"])["hyperparameters"] == {"depth": 3}


def test_host_knows_all_hosts(make_job: Make) -> None:
    env: dict[str, Any] = build_environment(make_job(), build_context())
    assert env["SM_CURRENT_HOST"] == "algo-2" and json.loads(env["SM_HOSTS"]) == ["algo-1", "algo-2"]
    resources = build_config_files(make_job(), build_context())["resourceconfig.json"]
    assert resources["current_host"] == "algo-2" and resources["hosts"] == ["algo-1", "algo-2"]
    assert env["SM_NETWORK_INTERFACE_NAME"] == resources["network_interface_name"] == "lo"
    assert env["SM_NUM_GPUS"] == "0" and env["SM_CURRENT_INSTANCE_TYPE"] == resources["current_instance_type"]
    group = {"instance_group_name": "homogeneousCluster", "hosts": ["algo-1", "algo-2"]}
    group["instance_type"] = resources["current_instance_type"]
    assert resources["instance_groups"] == [group]
    assert json.loads(env["SM_INSTANCE_GROUPS"]) == ["homogeneousCluster"] and env["SM_IS_HETERO"] == "false"
    assert json.loads(env["SM_INSTANCE_GROUPS_DICT"]) == {"homogeneousCluster": group}
    assert json.loads(env["SM_CURRENT_INSTANCE_GROUP_HOSTS"]) == ["algo-1", "algo-2"]
    training_env = json.loads(env["SM_TRAINING_ENV"])
    assert training_env["master_hostname"] == "algo-1" and training_env["is_master"] is False


def test_settings_of_a_framework_are_apart_from_those_of_the_toolkit(make_job: Make) -> None:
    settings = {"sagemaker_program": "train.py", "sagemaker_mpi_enabled": "true", "depth": "3"}
    env = build_environment(make_job(HyperParameters=settings), build_context())
    assert json.loads(env["SM_FRAMEWORK_PARAMS"]) == {"sagemaker_mpi_enabled": True}
    assert json.loads(env["SM_DISTRIBUTION_INSTANCE_GROUPS"]) == ["homogeneousCluster"]
    assert json.loads(env["SM_HPS"]) == {"depth": 3}
    assert build_environment(make_job(), build_context())["SM_DISTRIBUTION_INSTANCE_GROUPS"] == "[]"
