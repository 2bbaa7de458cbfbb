"""The environment and the input/config files of a training job's host: SageMaker's script-mode contract."""

import json
import logging
from collections.abc import Mapping
from typing import Any

from drydock.host.hyperparameters import TOOLKIT_PREFIX, build_script_arguments, decode_hyperparameters
from drydock.jobs.environment import HostContext, build_common_environment
from drydock.jobs.training.distribution import INTERFACE, MPI
from drydock.jobs.training.job import TrainingJob

INSTANCE_GROUP = "homogeneousCluster"
"""SageMaker's name for the group of instances of a job whose request names no groups."""
TOOLKIT_SETTINGS = {
    *("sagemaker_program", "sagemaker_submit_directory", "sagemaker_container_log_level", "sagemaker_job_name"),
    *("sagemaker_region", "sagemaker_s3_output", "sagemaker_enable_cloudwatch_metrics"),
}
"""Hyperparameters that the toolkit itself uses. All others that begin with `TOOLKIT_PREFIX` are for a framework."""


def build_environment(job: TrainingJob, context: HostContext) -> dict[str, str]:
    """Return all environment variables of a training job's host; those of the request have precedence."""
    return {
        **build_common_environment(job.region, context),
        **_build_folder_variables(job.request, context.base),
        **_build_script_mode_variables(job, context),
        "TRAINING_JOB_NAME": job.name,
        "TRAINING_JOB_ARN": job.arn,
        "SAGEMAKER_REGION": job.region,
        **job.request.get("Environment", {}),
    }


def _build_folder_variables(request: Mapping[str, Any], base: str) -> dict[str, str]:
    checkpoints = str(request.get("CheckpointConfig", {}).get("LocalPath", "/opt/ml/checkpoints"))
    folders = {
        "SAGEMAKER_BASE_DIR": base,
        "SM_MODEL_DIR": f"{base}/model",
        "SM_OUTPUT_DIR": f"{base}/output",
        "SM_OUTPUT_DATA_DIR": f"{base}/output/data",
        "SM_OUTPUT_INTERMEDIATE_DIR": f"{base}/output/intermediate",
        "SM_INPUT_DIR": f"{base}/input",
        "SM_INPUT_CONFIG_DIR": f"{base}/input/config",
        # SageMaker does not set this variable: there the folder is the request's LocalPath. Here the host's own base
        # folder may replace /opt/ml, so the script needs the path.
        "SM_CHECKPOINT_DIR": base + checkpoints.removeprefix("/opt/ml"),
    }
    return folders | {
        f"SM_CHANNEL_{name.upper()}": f"{base}/input/data/{name}" for name in _list_channel_names(request)
    }


def _build_script_mode_variables(job: TrainingJob, context: HostContext) -> dict[str, str]:
    request, hyperparameters = job.request, decode_hyperparameters(job.request)
    all_hyperparameters = decode_hyperparameters(request, include_toolkit_settings=True)
    program = str(all_hyperparameters.get("sagemaker_program", ""))
    config_files = build_config_files(job, context)
    framework_params = _select_framework_params(all_hyperparameters)
    values: dict[str, Any] = {
        "hosts": list(context.hosts),
        "current_host": context.host,
        "num_gpus": 0,
        "num_cpus": context.cores,
        "channels": sorted(_list_channel_names(request)),
        "hps": hyperparameters,
        "user_args": build_script_arguments(request),
        "user_entry_point": program,
        "module_name": program.removesuffix(".py"),
        "module_dir": str(all_hyperparameters.get("sagemaker_submit_directory", "")),
        "input_data_config": config_files["inputdataconfig.json"],
        "resource_config": config_files["resourceconfig.json"],
        "current_instance_type": job.instance_type,
        **_describe_instance_group(config_files["resourceconfig.json"], framework_params.get(MPI) is True),
        "framework_params": framework_params,
        "log_level": all_hyperparameters.get("sagemaker_container_log_level", logging.INFO),
        "network_interface_name": INTERFACE,
    }
    variables = {f"SM_{name.upper()}": _format_value(value) for name, value in values.items()}
    variables |= {f"SM_HP_{name.upper()}": _format_value(value) for name, value in hyperparameters.items()}
    training_env = {
        **values,
        "additional_framework_parameters": framework_params,
        "is_master": context.host == context.hosts[0],
        "master_hostname": context.hosts[0],
        **_build_folder_variables(request, context.base),
        "hyperparameters": hyperparameters,
        "job_name": job.name,
    }
    return {**variables, "SM_TRAINING_ENV": _format_value(training_env)}


def _select_framework_params(all_hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in all_hyperparameters.items()
        if name.startswith(TOOLKIT_PREFIX) and name not in TOOLKIT_SETTINGS
    }


def _describe_instance_group(resource_config: Mapping[str, Any], is_mpi: bool) -> dict[str, Any]:
    """Return the values about groups of instances.

    As in SageMaker's toolkit, `distribution_instance_groups` names the group only if the job uses MPI.
    """
    (group,) = resource_config["instance_groups"]
    return {
        "current_instance_group": INSTANCE_GROUP,
        "current_instance_group_hosts": group["hosts"],
        "instance_groups": [INSTANCE_GROUP],
        "instance_groups_dict": {INSTANCE_GROUP: group},
        "distribution_instance_groups": [INSTANCE_GROUP] if is_mpi else [],
        "is_hetero": False,
    }


def build_config_files(job: TrainingJob, context: HostContext) -> dict[str, Any]:
    """Return the content of the JSON files of input/config, by file name."""
    return {
        "hyperparameters.json": dict(job.request.get("HyperParameters", {})),
        "inputdataconfig.json": {
            channel["ChannelName"]: _describe_channel(channel) for channel in job.request.get("InputDataConfig", [])
        },
        "resourceconfig.json": {
            "current_host": context.host,
            "current_instance_type": job.instance_type,
            "current_group_name": INSTANCE_GROUP,
            "hosts": list(context.hosts),
            "instance_groups": [
                {
                    "instance_group_name": INSTANCE_GROUP,
                    "instance_type": job.instance_type,
                    "hosts": list(context.hosts),
                }
            ],
            "network_interface_name": INTERFACE,
        },
    }


def _describe_channel(channel: Mapping[str, Any]) -> dict[str, Any]:
    source = channel["DataSource"].get("S3DataSource", {})
    return {
        "TrainingInputMode": channel.get("InputMode", "File"),
        "S3DistributionType": source.get("S3DataDistributionType", "FullyReplicated"),
        "RecordWrapperType": channel.get("RecordWrapperType", "None"),
        "ContentType": channel.get("ContentType"),
    }


def _list_channel_names(request: Mapping[str, Any]) -> list[str]:
    return [channel["ChannelName"] for channel in request.get("InputDataConfig", [])]


def _format_value(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
