"""Rules for the request of a training job, beyond types and lengths: SageMaker's own, and the limits of drydock."""

import re
from collections.abc import Mapping
from typing import Any

from drydock.host.tree import is_below_container_base
from drydock.jobs.rules import MAX_INSTANCES, check_s3_uri, refuse
from drydock.jobs.training.distribution import find_distribution_problem
from drydock.transfer import channels

# SageMaker's own limit of MaxRuntimeInSeconds and of MaxWaitTimeInSeconds: 28 days.
MAX_SECONDS = 28 * 86_400


def check_request(request: Mapping[str, Any]) -> None:
    """Check that drydock can run the training job that a request describes.

    Args:
        request: A CreateTrainingJob request that has passed `api.validation`.

    Raises:
        AWSValidationException: drydock cannot run the job. The message names the member, and an alternative if there
            is one.
    """
    checks = (
        _check_resources,
        _check_spot_limits,
        _check_algorithm,
        _check_channels,
        _check_output,
        _check_checkpoints,
        _check_metric_regexes,
    )
    for check in checks:
        check(request)


def _check_resources(request: Mapping[str, Any]) -> None:
    if "ServerlessJobConfig" in request:
        refuse("ServerlessJobConfig is not supported: drydock runs a script, a command or an image.")
    if "ResourceConfig" not in request:
        refuse("Value null at 'resourceConfig' failed to satisfy constraint: Member must not be null")
    if "InstanceGroups" in request["ResourceConfig"]:
        refuse("ResourceConfig.InstanceGroups is not supported by drydock: use InstanceType and InstanceCount.")
    missing_members = {"InstanceType", "InstanceCount"} - request["ResourceConfig"].keys()
    if missing_members:
        refuse(f"ResourceConfig must specify {' and '.join(sorted(missing_members))}.")
    if not 1 <= request["ResourceConfig"]["InstanceCount"] <= MAX_INSTANCES:
        # Each instance is a process or a container on this machine.
        refuse(f"ResourceConfig.InstanceCount must be 1 to {MAX_INSTANCES} with drydock.")


def _check_spot_limits(request: Mapping[str, Any]) -> None:
    limits = request.get("StoppingCondition", {})
    max_wait_s, max_runtime_s = limits.get("MaxWaitTimeInSeconds"), limits.get("MaxRuntimeInSeconds")
    for name in ("MaxRuntimeInSeconds", "MaxWaitTimeInSeconds"):
        if limits.get(name, 0) > MAX_SECONDS:
            refuse(f"Invalid {name} {limits[name]}. It must be less than or equal to {MAX_SECONDS} (28 days)")
    if not request.get("EnableManagedSpotTraining", False):
        if max_wait_s is not None:
            refuse("Invalid MaxWaitTimeInSeconds. It is only supported when EnableManagedSpotTraining is set to true")
        return
    if max_wait_s is None or max_runtime_s is None:
        refuse(
            "MaxWaitTimeInSeconds and MaxRuntimeInSeconds must be specified when EnableManagedSpotTraining "
            "is set to true"
        )
    if max_wait_s < max_runtime_s:
        refuse(
            f"Invalid MaxWaitTimeInSeconds {max_wait_s}. It must be above or equal to MaxRuntimeInSeconds "
            f"{max_runtime_s} when EnableManagedSpotTraining is set to true"
        )


def _check_algorithm(request: Mapping[str, Any]) -> None:
    algorithm = request.get("AlgorithmSpecification")
    if algorithm is None:
        refuse("Value null at 'algorithmSpecification' failed to satisfy constraint: Member must not be null")
    if "TrainingImage" not in algorithm and "AlgorithmName" not in algorithm:
        refuse("You must specify either an algorithm name or a training image.")
    if "TrainingImage" in algorithm and "AlgorithmName" in algorithm:
        refuse("You must specify either an algorithm name or a training image, not both.")
    if algorithm["TrainingInputMode"] == "Pipe":
        refuse("TrainingInputMode Pipe is not supported by drydock: use File or FastFile.")
    if problem := find_distribution_problem(request):
        refuse(problem)


def _check_channels(request: Mapping[str, Any]) -> None:
    names = [channel["ChannelName"] for channel in request.get("InputDataConfig", [])]
    if len(names) != len(set(names)) or {".", ".."} & set(names):
        refuse(f"InputDataConfig has invalid or duplicate channel names: {names}")
    for channel in request.get("InputDataConfig", []):
        if problem := channels.find_channel_problem(channel):
            refuse(problem)


def _check_output(request: Mapping[str, Any]) -> None:
    check_s3_uri(request["OutputDataConfig"]["S3OutputPath"], "OutputDataConfig.S3OutputPath")


def _check_checkpoints(request: Mapping[str, Any]) -> None:
    config = request.get("CheckpointConfig")
    if config is None:
        return
    check_s3_uri(config["S3Uri"], "CheckpointConfig.S3Uri")
    local_path = config.get("LocalPath", "/opt/ml/checkpoints")
    if not is_below_container_base(local_path):
        refuse(f"CheckpointConfig.LocalPath must be a folder under /opt/ml (got {local_path}).")


def _check_metric_regexes(request: Mapping[str, Any]) -> None:
    for definition in request["AlgorithmSpecification"].get("MetricDefinitions", []):
        try:
            re.compile(definition["Regex"])
        except re.error as error:
            refuse(f"MetricDefinitions: the Regex of {definition['Name']} is invalid: {error}")
