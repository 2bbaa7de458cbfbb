"""The command a job runs, and its environment: SageMaker's script-mode contract."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drydock.errors import JobFailed
from drydock.tree import HOST, JobTree, configuration

# All that a job sees of the server's own environment: a secret of the server is no secret of the job's.
PASSED = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV", "MLFLOW_TRACKING_URI")
PASSED_PREFIXES = ("PYTHON", "LC_")
CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
DUMMY_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "drydock", "AWS_SECRET_ACCESS_KEY": "drydock"}


def hyperparameters(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters; values that are JSON are decoded, as the toolkit does."""
    return {name: _decoded(value) for name, value in request.get("HyperParameters", {}).items()}


def user_arguments(request: Mapping[str, Any]) -> list[str]:
    """Return the script's arguments: every hyperparameter that is not the toolkit's own, sorted by name."""
    arguments: list[str] = []
    for name, value in sorted(hyperparameters(request).items()):
        if not name.startswith("sagemaker_"):
            arguments += [f"--{name}" if len(name) > 1 else f"-{name}", _argument(value)]
    return arguments


def command(request: Mapping[str, Any], tree: JobTree) -> list[str]:
    """Return what to execute: the ContainerEntrypoint if given, else the script, each with its arguments.

    Raises:
        JobFailed: The script is not in the source bundle.
    """
    algorithm = request["AlgorithmSpecification"]
    if "ContainerEntrypoint" in algorithm:
        return [*algorithm["ContainerEntrypoint"], *algorithm.get("ContainerArguments", [])]
    program = str(hyperparameters(request)["sagemaker_program"])
    script = (tree.code / program).resolve()
    if not script.is_relative_to(tree.code.resolve()) or not script.is_file():
        raise JobFailed(f"AlgorithmError: ImportModuleError: no file {program} in sagemaker_submit_directory")
    interpreter = "/bin/sh" if script.suffix == ".sh" else sys.executable
    return [interpreter, program, *user_arguments(request)]


def environment(
    request: Mapping[str, Any], tree: JobTree, *, arn: str, region: str, url: str, server: Mapping[str, str]
) -> dict[str, str]:
    """Return the job's whole environment; what the request's Environment says wins.

    Args:
        request: The CreateTrainingJob request.
        tree: The job's folders.
        arn: The job's ARN.
        region: The job's region.
        url: This server, for the job's own AWS clients.
        server: The server's environment; only what PASSED names gets through.
    """
    return {
        **_from_server(server),
        **_aws(region, url, server),
        # Containers of SageMaker set it: the log is there while the job runs.
        "PYTHONUNBUFFERED": "1",
        **_folders(request, tree),
        **_script_mode(request, tree),
        "TRAINING_JOB_NAME": request["TrainingJobName"],
        "TRAINING_JOB_ARN": arn,
        "SAGEMAKER_REGION": region,
        **request.get("Environment", {}),
    }


def _from_server(server: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in server.items() if name in PASSED or name.startswith(PASSED_PREFIXES)}


def _aws(region: str, url: str, server: Mapping[str, str]) -> dict[str, str]:
    own = {name: server[name] for name in CREDENTIALS if name in server}
    credentials = own if "AWS_ACCESS_KEY_ID" in own else DUMMY_CREDENTIALS
    return {**credentials, "AWS_ENDPOINT_URL": url, "AWS_REGION": region, "AWS_DEFAULT_REGION": region}


def _folders(request: Mapping[str, Any], tree: JobTree) -> dict[str, str]:
    folders: dict[str, Path] = {
        "SAGEMAKER_BASE_DIR": tree.root,
        "SM_MODEL_DIR": tree.model,
        "SM_OUTPUT_DIR": tree.output,
        "SM_OUTPUT_DATA_DIR": tree.output_data,
        "SM_OUTPUT_INTERMEDIATE_DIR": tree.output / "intermediate",
        "SM_INPUT_DIR": tree.root / "input",
        "SM_INPUT_CONFIG_DIR": tree.config,
        # Not SageMaker's: there the folder is /opt/ml/checkpoints, here a script has to be told.
        "SM_CHECKPOINT_DIR": tree.checkpoints(request),
    }
    folders |= {f"SM_CHANNEL_{name.upper()}": tree.channel(name) for name in _channels(request)}
    return {name: str(path) for name, path in folders.items()}


def _script_mode(request: Mapping[str, Any], tree: JobTree) -> dict[str, str]:
    given = hyperparameters(request)
    own = {name: value for name, value in given.items() if not name.startswith("sagemaker_")}
    program = str(given.get("sagemaker_program", ""))
    values: dict[str, Any] = {
        "hosts": [HOST],
        "current_host": HOST,
        "num_gpus": 0,
        "num_cpus": os.cpu_count() or 1,
        "channels": sorted(_channels(request)),
        "hps": own,
        "user_args": user_arguments(request),
        "user_entry_point": program,
        "module_name": program.removesuffix(".py"),
        "module_dir": str(given.get("sagemaker_submit_directory", "")),
        "input_data_config": configuration(request)["inputdataconfig.json"],
        "resource_config": configuration(request)["resourceconfig.json"],
        "current_instance_type": request["ResourceConfig"].get("InstanceType", ""),
    }
    variables = {f"SM_{name.upper()}": _text(value) for name, value in values.items()}
    variables |= {f"SM_HP_{name.upper()}": _text(value) for name, value in own.items()}
    whole = {
        **values,
        **_folders(request, tree),
        "hyperparameters": own,
        "job_name": request["TrainingJobName"],
    }
    return {**variables, "SM_TRAINING_ENV": _text(whole)}


def _channels(request: Mapping[str, Any]) -> list[str]:
    return [channel["ChannelName"] for channel in request.get("InputDataConfig", [])]


def _decoded(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _argument(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in sorted(value.items()))
    return str(value)


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
