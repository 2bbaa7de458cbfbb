"""What SageMaker asks of a training job's request beyond its shape, and what drydock does not do."""

import re
from collections.abc import Mapping
from typing import Any, NoReturn

from moto.sagemaker.exceptions import AWSValidationException

from drydock import channels
from drydock.tree import inside_container_base

# SageMaker's own limit: 28 days.
MAX_SECONDS = 28 * 86_400
# SageMaker's own quota for one training job, where nobody has had it raised.
MAX_INSTANCES = 20


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
        _refuse("ServerlessJobConfig is not supported: drydock runs a script, a command or an image.")
    if "ResourceConfig" not in request:
        _refuse("Value null at 'resourceConfig' failed to satisfy constraint: Member must not be null")
    if "InstanceGroups" in request["ResourceConfig"]:
        _refuse("ResourceConfig.InstanceGroups is not supported by drydock: use InstanceType and InstanceCount.")
    missing = {"InstanceType", "InstanceCount"} - request["ResourceConfig"].keys()
    if missing:
        _refuse(f"ResourceConfig must specify {' and '.join(sorted(missing))}.")
    if not 1 <= request["ResourceConfig"]["InstanceCount"] <= MAX_INSTANCES:
        # Each is a process of this machine.
        _refuse(f"ResourceConfig.InstanceCount must be 1 to {MAX_INSTANCES} with drydock.")


def _spot(request: Mapping[str, Any]) -> None:
    limits = request.get("StoppingCondition", {})
    wait, runtime = limits.get("MaxWaitTimeInSeconds"), limits.get("MaxRuntimeInSeconds")
    for name in ("MaxRuntimeInSeconds", "MaxWaitTimeInSeconds"):
        if limits.get(name, 0) > MAX_SECONDS:
            _refuse(f"Invalid {name} {limits[name]}. It must be less than or equal to {MAX_SECONDS} (28 days)")
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
    algorithm = request.get("AlgorithmSpecification")
    if algorithm is None:
        _refuse("Value null at 'algorithmSpecification' failed to satisfy constraint: Member must not be null")
    if "TrainingImage" not in algorithm and "AlgorithmName" not in algorithm:
        _refuse("You must specify either an algorithm name or a training image.")
    if "TrainingImage" in algorithm and "AlgorithmName" in algorithm:
        _refuse("You must specify either an algorithm name or a training image, not both.")
    if algorithm["TrainingInputMode"] == "Pipe":
        _refuse("TrainingInputMode Pipe is not supported by drydock: use File or FastFile.")


def _channels(request: Mapping[str, Any]) -> None:
    names = [channel["ChannelName"] for channel in request.get("InputDataConfig", [])]
    if len(names) != len(set(names)) or {".", ".."} & set(names):
        _refuse(f"InputDataConfig has invalid or duplicate channel names: {names}")
    for channel in request.get("InputDataConfig", []):
        if channel.get("InputMode") == "Pipe":
            _refuse(f"Channel {channel['ChannelName']}: InputMode Pipe is not supported by drydock.")
        if problem := channels.check(channel):
            _refuse(f"Channel {channel['ChannelName']}: {problem}")


def _outputs(request: Mapping[str, Any]) -> None:
    s3_uri(request["OutputDataConfig"]["S3OutputPath"], "OutputDataConfig.S3OutputPath")


def _checkpoints(request: Mapping[str, Any]) -> None:
    config = request.get("CheckpointConfig")
    if config is None:
        return
    s3_uri(config["S3Uri"], "CheckpointConfig.S3Uri")
    local = config.get("LocalPath", "/opt/ml/checkpoints")
    if not inside_container_base(local):
        _refuse(f"CheckpointConfig.LocalPath must be a folder under /opt/ml (got {local}).")


def _metric_regexes(request: Mapping[str, Any]) -> None:
    for item in request["AlgorithmSpecification"].get("MetricDefinitions", []):
        try:
            re.compile(item["Regex"])
        except re.error as error:
            _refuse(f"MetricDefinitions: the Regex of {item['Name']} is invalid: {error}")


def s3_uri(uri: str, where: str) -> None:
    """The member is an S3 URI.

    Raises:
        AWSValidationException: It is not.
    """
    if not uri.startswith("s3://"):
        _refuse(f"{where}: {uri} is not an s3:// URI.")
