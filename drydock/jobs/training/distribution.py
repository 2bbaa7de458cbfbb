"""Build the commands that start a script on several hosts: torchrun and mpirun, as SageMaker's training toolkit does.

The SDK's `distribution` becomes hyperparameters: sagemaker_torch_distributed_enabled, sagemaker_mpi_enabled and others.
The command lines are those of github.com/aws/sagemaker-training-toolkit (torch_distributed.py and mpi.py).
"""

import importlib.util
import os
import shutil
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drydock.errors import RunFailed
from drydock.host import mpi_agent
from drydock.host.hyperparameters import decode_hyperparameters

TORCH, MPI = "sagemaker_torch_distributed_enabled", "sagemaker_mpi_enabled"
UNSUPPORTED = (
    *("sagemaker_parameter_server_enabled", "sagemaker_distributed_dataparallel_enabled"),
    *("sagemaker_pytorch_ddp_enabled", "sagemaker_pytorch_xla_multi_worker_enabled"),
    "sagemaker_multi_worker_mirrored_strategy_enabled",
)
"""Hyperparameters of other kinds of distribution. Most kinds need libraries that only SageMaker's images have."""
FIRST_PORT, PORT_COUNT = 7777, 10_000
"""The first of torchrun's ports, and their number. SageMaker uses the first port only. Here all jobs share the ports of
this machine, so each job gets one by its ARN."""
INTERFACE = "lo"
"""The network interface by which the hosts reach each other: loopback."""


@dataclass(frozen=True)
class LaunchContext:
    """The facts about a job and its hosts that torchrun and mpirun need.

    Attributes:
        hosts: Names of all hosts, algo-1 first.
        host: Name of this host.
        master: Name or address at which the other hosts reach the first one.
        job_arn: ARN of the job.
        folder: Folder that all hosts can read and write, for the commands of MPI.
        is_container: Whether the hosts are containers.
    """

    hosts: Sequence[str]
    host: str
    master: str
    job_arn: str
    folder: Path
    is_container: bool

    @property
    def is_first(self) -> bool:
        """Whether this is the first host."""
        return self.host == self.hosts[0]


def find_distribution_problem(request: Mapping[str, Any]) -> str:
    """Return why drydock cannot distribute a training job as its hyperparameters say; "" if it can."""
    settings = decode_hyperparameters(request, include_toolkit_settings=True)
    for name in UNSUPPORTED:
        if settings.get(name) is True:
            return f"The hyperparameter {name} is not supported by drydock: use torch_distributed or mpi."
    if settings.get(TORCH) is True and settings.get(MPI) is True:
        return f"The hyperparameters {TORCH} and {MPI} exclude each other: enable one of them."
    if settings.get(TORCH) is True and not str(settings.get("sagemaker_program", "")).endswith(".py"):
        return f"The hyperparameter {TORCH} needs a Python script as sagemaker_program."
    for name in ("sagemaker_mpi_num_of_processes_per_host", "sagemaker_mpi_num_processes"):
        if not _is_count(settings.get(name, 1)):
            return f"The hyperparameter {name} must be a whole number of 1 or more, but is {settings[name]!r}."
    return ""


def build_launch_command(
    request: Mapping[str, Any], launch: LaunchContext, command: Sequence[str], path: str
) -> list[str]:
    """Return the command of a host: `command` itself, or the torchrun or mpirun command that starts it.

    Args:
        request: A CreateTrainingJob request.
        launch: The job and the host.
        command: The interpreter, the script and its arguments.
        path: PATH of the job, in which torchrun or mpirun is looked for.

    Raises:
        RunFailed: torchrun, mpirun or mpi4py is not installed, or cannot be used with this executor. A retry cannot
            help.
    """
    settings = decode_hyperparameters(request, include_toolkit_settings=True)
    if settings.get(TORCH) is True:
        _require_program("torchrun", "torch", launch, path)
        return build_torch_command(settings, launch, command[1:])
    if settings.get(MPI) is True:
        if launch.is_container and len(launch.hosts) > 1:
            raise RunFailed("ClientError: drydock starts MPI on several hosts only with --executor process")
        _require_program("mpirun", "Open MPI", launch, path)
        is_python = command[0] != "/bin/sh"
        if is_python and not launch.is_container and importlib.util.find_spec("mpi4py") is None:
            raise RunFailed("ClientError: MPI needs the package mpi4py in drydock's Python, as in SageMaker's images")
        launch.folder.mkdir(exist_ok=True)
        return build_mpi_command(settings, launch, command)
    return list(command)


def build_torch_command(settings: Mapping[str, Any], launch: LaunchContext, script: Sequence[str]) -> list[str]:
    """Return the torchrun command of a host. By default, a host has one process: SM_NUM_GPUS is 0 in drydock.

    Args:
        settings: The hyperparameters of the training toolkit.
        launch: The job and the host.
        script: The script and its arguments, without the interpreter.
    """
    processes = str(settings.get("sagemaker_mpi_num_of_processes_per_host", 1))
    command = ["torchrun", "--nnodes", str(len(launch.hosts)), "--nproc_per_node", processes]
    if len(launch.hosts) > 1:
        port = FIRST_PORT + zlib.crc32(launch.job_arn.encode()) % PORT_COUNT
        command += ["--master_addr", launch.master, "--master_port", str(port)]
        command += ["--node_rank", str(list(launch.hosts).index(launch.host))]
    return [*command, *script]


def build_mpi_command(settings: Mapping[str, Any], launch: LaunchContext, host_command: Sequence[str]) -> list[str]:
    """Return the command of a host: mpirun on the first host; on the others, an agent that waits for its command.

    Args:
        settings: The hyperparameters of the training toolkit.
        launch: The job and the host.
        host_command: The interpreter, the script and its arguments.
    """
    agent = [sys.executable, mpi_agent.__file__]
    if not launch.is_first:
        return [*agent, "wait", str(launch.folder), launch.host]
    per_host = int(settings.get("sagemaker_mpi_num_of_processes_per_host", 1))
    total = int(settings.get("sagemaker_mpi_num_processes") or per_host * len(launch.hosts))
    slots = [host if per_host == 1 else f"{host}:{per_host}" for host in launch.hosts]
    options, debug_level = _split_custom_options(str(settings.get("sagemaker_mpi_custom_mpi_options", "")))
    agent_options = [
        "-mca",
        "plm_rsh_agent",
        " ".join([*agent, "start", str(launch.folder)]),
        "--leave-session-attached",
    ]
    command = [
        *("mpirun", "--host", ",".join(slots), "-np", str(total)),
        *("--allow-run-as-root", "--display-map", "--tag-output"),
        *("-mca", "btl_tcp_if_include", INTERFACE, "-mca", "oob_tcp_if_include", INTERFACE),
        *("-mca", "plm_rsh_no_tree_spawn", "1", *(agent_options if len(launch.hosts) > 1 else [])),
        # Hosts share the cores of this machine, so mpirun binds no process to a core or a CPU socket.
        *("-bind-to", "none", "-map-by", "slot", "-mca", "pml", "ob1", "-mca", "btl", "^openib"),
        *("-mca", "orte_abort_on_non_zero_status", "1", "-x", "NCCL_MIN_NRINGS=4"),
        *("-x", f"NCCL_SOCKET_IFNAME={INTERFACE}", "-x", f"NCCL_DEBUG={debug_level}"),
        *("-x", "LD_LIBRARY_PATH", "-x", "PATH"),
        *options,
    ]
    interpreter, *script_arguments = host_command
    return [*command, interpreter, *(["-m", "mpi4py"] if interpreter != "/bin/sh" else []), *script_arguments]


def _split_custom_options(text: str) -> tuple[list[str], str]:
    """Return the options of a request, and the value of --NCCL_DEBUG, which is not an option of mpirun."""
    words, options, debug_level = iter(text.split()), [], "INFO"
    for word in words:
        if word == "--NCCL_DEBUG":
            debug_level = next(words, debug_level)
        elif word.startswith("--NCCL_DEBUG="):
            debug_level = word.partition("=")[2]
        else:
            options.append(word)
    return options, debug_level


def _require_program(program: str, package: str, launch: LaunchContext, path: str) -> None:
    if not launch.is_container and shutil.which(program, path=path or os.defpath) is None:
        raise RunFailed(
            f"ClientError: the job's distribution needs {program}, which drydock does not find: install {package} "
            "where drydock runs, or use --executor docker with an image that has it"
        )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
