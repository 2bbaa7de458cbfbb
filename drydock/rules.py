"""What SageMaker asks of a request beyond its shape, and what this version of drydock does not do."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, NoReturn

from moto.sagemaker.exceptions import AWSValidationException

CONTAINER_BASE = PurePosixPath("/opt/ml")


def check(request: Mapping[str, Any]) -> None:
    """The request, of the right shape already, asks for something that this server does.

    Raises:
        AWSValidationException: It does not; the message says which member, and what drydock can do instead.
    """
    for rule in (_resources, _spot, _program, _channels, _outputs, _checkpoints, _metric_regexes):
        rule(request)


def _refuse(message: str) -> NoReturn:
    raise AWSValidationException(message)


def _resources(request: Mapping[str, Any]) -> None:
    if "ServerlessJobConfig" in request:
        _refuse("ServerlessJobConfig is not supported: this version of drydock runs a script or a command.")
    if "ResourceConfig" not in request:
        _refuse("Value null at 'resourceConfig' failed to satisfy constraint: Member must not be null")
    count = request["ResourceConfig"].get("InstanceCount")
    if "InstanceGroups" in request["ResourceConfig"] or count != 1:
        _refuse(f"InstanceCount must be 1 (got {count}): this version of drydock runs one instance.")


def _spot(request: Mapping[str, Any]) -> None:
    limits = request.get("StoppingCondition", {})
    wait, runtime = limits.get("MaxWaitTimeInSeconds"), limits.get("MaxRuntimeInSeconds")
    if not request.get("EnableManagedSpotTraining", False):
        if wait is not None:
            _refuse("Invalid MaxWaitTimeInSeconds. It is only supported when EnableManagedSpotTraining is set to true")
        return
    if wait is None or runtime is None:
        _refuse(
            "MaxWaitTimeInSeconds and MaxRuntimeInSeconds must be specified when EnableManagedSpotTraining "
            "is set to true"
        )
    if wait < runtime:
        _refuse(
            f"Invalid MaxWaitTimeInSeconds {wait}. It must be above or equal to MaxRuntimeInSeconds "
            f"{runtime} when EnableManagedSpotTraining is set to true"
        )


def _program(request: Mapping[str, Any]) -> None:
    algorithm, given = request.get("AlgorithmSpecification"), request.get("HyperParameters", {})
    if algorithm is None:
        _refuse("Value null at 'algorithmSpecification' failed to satisfy constraint: Member must not be null")
    if "TrainingImage" not in algorithm and "AlgorithmName" not in algorithm:
        _refuse("You must specify either an algorithm name or a training image.")
    if algorithm["TrainingInputMode"] == "Pipe":
        _refuse("TrainingInputMode Pipe is not supported by drydock: use File or FastFile.")
    script = {"sagemaker_program", "sagemaker_submit_directory"} <= given.keys()
    if not script and "ContainerEntrypoint" not in algorithm:
        _refuse(
            "drydock's process executor runs no image: give the hyperparameters sagemaker_program and "
            "sagemaker_submit_directory (script mode), or AlgorithmSpecification.ContainerEntrypoint."
        )


def _channels(request: Mapping[str, Any]) -> None:
    names = [channel["ChannelName"] for channel in request.get("InputDataConfig", [])]
    if len(names) != len(set(names)) or {".", ".."} & set(names):
        _refuse(f"InputDataConfig has invalid or duplicate channel names: {names}")
    for channel in request.get("InputDataConfig", []):
        source = channel["DataSource"].get("S3DataSource")
        name = channel["ChannelName"]
        if source is None or source["S3DataType"] != "S3Prefix":
            _refuse(f"Channel {name}: drydock reads S3DataSource with S3DataType S3Prefix only.")
        if channel.get("InputMode") == "Pipe":
            _refuse(f"Channel {name}: InputMode Pipe is not supported by drydock.")
        _s3_uri(source["S3Uri"], f"channel {name}")


def _outputs(request: Mapping[str, Any]) -> None:
    output = request["OutputDataConfig"]
    _s3_uri(output["S3OutputPath"], "OutputDataConfig.S3OutputPath")
    if output.get("CompressionType", "GZIP") != "GZIP":
        _refuse("OutputDataConfig.CompressionType NONE is not supported by drydock: it writes model.tar.gz.")


def _checkpoints(request: Mapping[str, Any]) -> None:
    config = request.get("CheckpointConfig")
    if config is None:
        return
    _s3_uri(config["S3Uri"], "CheckpointConfig.S3Uri")
    local = PurePosixPath(config.get("LocalPath", "/opt/ml/checkpoints"))
    if not local.is_relative_to(CONTAINER_BASE) or ".." in local.parts or local == CONTAINER_BASE:
        _refuse(f"CheckpointConfig.LocalPath must be a folder under {CONTAINER_BASE} (got {local}).")


def _metric_regexes(request: Mapping[str, Any]) -> None:
    for item in request["AlgorithmSpecification"].get("MetricDefinitions", []):
        try:
            re.compile(item["Regex"])
        except re.error as error:
            _refuse(f"MetricDefinitions: the Regex of {item['Name']} is invalid: {error}")


def _s3_uri(uri: str, where: str) -> None:
    if not uri.startswith("s3://"):
        _refuse(f"{where}: {uri} is not an s3:// URI.")
