"""Test the commands of torchrun and mpirun, which are those of SageMaker's training toolkit."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drydock.errors import RunFailed
from drydock.host import mpi_agent
from drydock.jobs.training.distribution import (
    FIRST_PORT,
    PORT_COUNT,
    LaunchContext,
    build_launch_command,
    build_mpi_command,
    build_torch_command,
    find_distribution_problem,
)

SCRIPT = ["python", "train.py", "--lr", "1"]
TORCH = {"sagemaker_torch_distributed_enabled": "true"}
MPI = {"sagemaker_mpi_enabled": "true"}


def make_launch(folder: Path = Path("/mpi"), host: str = "algo-1", count: int = 2, **fields: Any) -> LaunchContext:
    hosts = [f"algo-{number}" for number in range(1, count + 1)]
    values = {"master": "algo-1", "job_arn": "arn", "folder": folder, "is_container": False, **fields}
    return LaunchContext(hosts=hosts, host=host, **values)


def test_torchrun_gets_the_rank_and_the_first_host() -> None:
    command = build_torch_command({}, make_launch(host="algo-2"), SCRIPT[1:])
    assert command[:7] == ["torchrun", "--nnodes", "2", "--nproc_per_node", "1", "--master_addr", "algo-1"]
    assert command[7] == "--master_port" and FIRST_PORT <= int(command[8]) < FIRST_PORT + PORT_COUNT
    assert command[9:] == ["--node_rank", "1", "train.py", "--lr", "1"]
    assert build_torch_command({}, make_launch(count=1), ["train.py"]) == [
        *("torchrun", "--nnodes", "1", "--nproc_per_node", "1", "train.py")
    ]


def test_mpirun_gets_hosts_processes_and_custom_options() -> None:
    settings = {
        "sagemaker_mpi_num_of_processes_per_host": 4,
        "sagemaker_mpi_custom_mpi_options": "--NCCL_DEBUG WARN -verbose",
    }
    command = build_mpi_command(settings, make_launch(), SCRIPT)
    assert command[:5] == ["mpirun", "--host", "algo-1:4,algo-2:4", "-np", "8"]
    assert "NCCL_DEBUG=WARN" in command and "--NCCL_DEBUG" not in command
    assert command[-7:] == ["-verbose", "python", "-m", "mpi4py", "train.py", "--lr", "1"]
    plain = build_mpi_command({}, make_launch(), SCRIPT)
    assert plain[:5] == ["mpirun", "--host", "algo-1,algo-2", "-np", "2"] and "NCCL_DEBUG=INFO" in plain
    assert "plm_rsh_agent" not in build_mpi_command({}, make_launch(count=1), SCRIPT)
    assert build_mpi_command({"sagemaker_mpi_num_processes": 3}, make_launch(), SCRIPT)[3:5] == ["-np", "3"]


def test_a_script_without_distribution_starts_alone() -> None:
    assert build_launch_command({}, make_launch(), SCRIPT, "") == SCRIPT


@pytest.mark.parametrize(
    ("settings", "fields", "problem"),
    [
        (TORCH, {}, "needs torchrun, which drydock does not find: install torch"),
        (MPI, {}, "needs mpirun, which drydock does not find: install Open MPI"),
        (MPI, {"is_container": True}, "drydock starts MPI on several hosts only with --executor process"),
    ],
)
def test_a_launcher_that_cannot_start_is_named(settings: dict[str, str], fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(RunFailed, match=problem):
        build_launch_command({"HyperParameters": settings}, make_launch(**fields), SCRIPT, "/nonexistent")
    # A container's image has its own programs.
    if "sagemaker_torch_distributed_enabled" in settings:
        launch = make_launch(is_container=True)
        assert build_launch_command({"HyperParameters": settings}, launch, SCRIPT, "")[0] == "torchrun"


def test_torchrun_needs_a_python_script() -> None:
    settings = {"sagemaker_torch_distributed_enabled": "true", "sagemaker_program": "train.sh"}
    assert "needs a Python script" in find_distribution_problem({"HyperParameters": settings})
    assert find_distribution_problem({"HyperParameters": settings | {"sagemaker_program": "train.py"}}) == ""


def test_the_command_for_another_host_runs_there(tmp_path: Path) -> None:
    """mpirun calls the agent as it would call ssh."""
    agent = [sys.executable, mpi_agent.__file__]
    (tmp_path / "wait").mkdir()
    with subprocess.Popen([*agent, "wait", str(tmp_path), "algo-2"], cwd=tmp_path / "wait") as host:
        command = [*agent, "start", str(tmp_path), "algo-2", "pwd", ">", "here;", "exit", "7"]
        assert subprocess.run(command, timeout=180, check=False).returncode == 7
        assert host.wait(60) == 7
    assert (tmp_path / "wait" / "here").read_text().strip() == str((tmp_path / "wait").resolve())
