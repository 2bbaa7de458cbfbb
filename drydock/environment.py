"""The environment of a job's host: SageMaker's script-mode contract."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drydock.executor import Executor
from drydock.hyperparameters import own, user_arguments
from drydock.job import Job
from drydock.settings import Settings
from drydock.training_job import TrainingJob
from drydock.tree import HostTree, host_names

# All that a job sees of the server's own environment: a secret of the server is no secret of the job's.
PASSED = ("LANG", "MLFLOW_TRACKING_URI")
# An image has a place of its own for these.
PASSED_HERE = ("HOME", "TMPDIR", "VIRTUAL_ENV")
PASSED_PREFIXES_HERE = ("PYTHON", "LC_", "OMP_")
CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
DUMMY_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "drydock", "AWS_SECRET_ACCESS_KEY": "drydock"}


@dataclass(frozen=True)
class Place:
    """Where one host of a job runs.

    Attributes:
        base: What the job sees as its tree: /opt/ml, or the tree's own path.
        host: This host.
        hosts: All hosts of the job, algo-1 first.
        cores: vCPUs that the job may use.
        machine: The server's own environment; only what PASSED names gets through.
        here: Whether the job has this machine's Python and files, and not an image's.
        url: This server, for the job's own AWS clients.
        s3_url: Another server for their S3; "" where it is this one.
    """

    base: str
    host: str
    hosts: Sequence[str]
    cores: int
    machine: Mapping[str, str]
    here: bool
    url: str
    s3_url: str = ""


def place_of(job: Job, tree: HostTree, executor: Executor, settings: Settings) -> Place:
    """Return where the host of tree runs."""
    return Place(
        base=executor.base(tree.root),
        host=tree.host,
        hosts=host_names(job.host_count),
        cores=min(job.instance.cores, settings.cores),
        machine=os.environ,
        here=executor.here,
        url=settings.url,
        s3_url=settings.s3_url,
    )


def common(region: str, place: Place) -> dict[str, str]:
    """Return what every job sees, before what its request says."""
    passed = {name: value for name, value in place.machine.items() if _passes(name, place.here)}
    found = {name: place.machine[name] for name in CREDENTIALS if name in place.machine}
    credentials = found if "AWS_ACCESS_KEY_ID" in found else DUMMY_CREDENTIALS
    aws = {**credentials, "AWS_ENDPOINT_URL": place.url, "AWS_REGION": region, "AWS_DEFAULT_REGION": region}
    s3 = {"AWS_ENDPOINT_URL_S3": place.s3_url} if place.s3_url else {}
    # Containers of SageMaker set it: the log is there while the job runs.
    return {**passed, **_programs(place), **aws, **s3, "PYTHONUNBUFFERED": "1"}


def _programs(place: Place) -> dict[str, str]:
    """Return the PATH of a job on this machine: its `python` is the server's own, with all its packages."""
    if not place.here:
        return {}
    own = str(Path(sys.executable).parent)
    rest = [part for part in place.machine.get("PATH", os.defpath).split(os.pathsep) if part != own]
    return {"PATH": os.pathsep.join([own, *rest])}


def _passes(name: str, here: bool) -> bool:
    return name in PASSED or (here and (name in PASSED_HERE or name.startswith(PASSED_PREFIXES_HERE)))


def training(job: TrainingJob, place: Place) -> dict[str, str]:
    """Return the whole environment of a training job's host; what the request's Environment says wins."""
    return {
        **common(job.region, place),
        **_folders(job.request, place.base),
        **_script_mode(job, place),
        "TRAINING_JOB_NAME": job.name,
        "TRAINING_JOB_ARN": job.arn,
        "SAGEMAKER_REGION": job.region,
        **job.request.get("Environment", {}),
    }


def _folders(request: Mapping[str, Any], base: str) -> dict[str, str]:
    local = str(request.get("CheckpointConfig", {}).get("LocalPath", "/opt/ml/checkpoints"))
    folders = {
        "SAGEMAKER_BASE_DIR": base,
        "SM_MODEL_DIR": f"{base}/model",
        "SM_OUTPUT_DIR": f"{base}/output",
        "SM_OUTPUT_DATA_DIR": f"{base}/output/data",
        "SM_OUTPUT_INTERMEDIATE_DIR": f"{base}/output/intermediate",
        "SM_INPUT_DIR": f"{base}/input",
        "SM_INPUT_CONFIG_DIR": f"{base}/input/config",
        # Not SageMaker's: there the folder is /opt/ml/checkpoints, here a script has to be told.
        "SM_CHECKPOINT_DIR": base + local.removeprefix("/opt/ml"),
    }
    return folders | {f"SM_CHANNEL_{name.upper()}": f"{base}/input/data/{name}" for name in _channels(request)}


def _script_mode(job: TrainingJob, place: Place) -> dict[str, str]:
    request, given = job.request, own(job.request, toolkit=True)
    program = str(given.get("sagemaker_program", ""))
    values: dict[str, Any] = {
        "hosts": list(place.hosts),
        "current_host": place.host,
        "num_gpus": 0,
        "num_cpus": place.cores,
        "channels": sorted(_channels(request)),
        "hps": own(request),
        "user_args": user_arguments(request),
        "user_entry_point": program,
        "module_name": program.removesuffix(".py"),
        "module_dir": str(given.get("sagemaker_submit_directory", "")),
        "input_data_config": configuration(job, place)["inputdataconfig.json"],
        "resource_config": configuration(job, place)["resourceconfig.json"],
        "current_instance_type": job.instance_type,
        "network_interface_name": "lo",
    }
    variables = {f"SM_{name.upper()}": _text(value) for name, value in values.items()}
    variables |= {f"SM_HP_{name.upper()}": _text(value) for name, value in own(request).items()}
    whole = {**values, **_folders(request, place.base), "hyperparameters": own(request), "job_name": job.name}
    return {**variables, "SM_TRAINING_ENV": _text(whole)}


def configuration(job: TrainingJob, place: Place) -> dict[str, Any]:
    """Return the files of input/config with their content."""
    return {
        "hyperparameters.json": dict(job.request.get("HyperParameters", {})),
        "inputdataconfig.json": {
            channel["ChannelName"]: {
                "TrainingInputMode": channel.get("InputMode", "File"),
                "S3DistributionType": channel["DataSource"]
                .get("S3DataSource", {})
                .get("S3DataDistributionType", "FullyReplicated"),
                "RecordWrapperType": channel.get("RecordWrapperType", "None"),
                "ContentType": channel.get("ContentType"),
            }
            for channel in job.request.get("InputDataConfig", [])
        },
        "resourceconfig.json": {
            "current_host": place.host,
            "current_instance_type": job.instance_type,
            "current_group_name": "homogeneousCluster",
            "hosts": list(place.hosts),
            "instance_groups": [
                {
                    "instance_group_name": "homogeneousCluster",
                    "instance_type": job.instance_type,
                    "hosts": list(place.hosts),
                }
            ],
            "network_interface_name": "lo",
        },
    }


def _channels(request: Mapping[str, Any]) -> list[str]:
    return [channel["ChannelName"] for channel in request.get("InputDataConfig", [])]


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
