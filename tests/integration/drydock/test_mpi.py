"""Test jobs that start by MPI, with the real mpirun and mpi4py. Without them, the tests are skipped."""

import importlib.util
import re
import shutil
from typing import Any

import pytest

MISSING = [name for name in ("mpirun",) if not shutil.which(name)]
MISSING += [name for name in ("mpi4py",) if not importlib.util.find_spec(name)]
pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (apt-get install openmpi-bin, pip install mpi4py)"
)
# Each process adds its rank to the sum of all. The model is the sum. A line is one write, as mpirun mixes the writes of
# the processes.
SUM = """
import os, pathlib, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(world.Get_rank() + 1)
host = os.environ["SM_CURRENT_HOST"]
sys.stdout.write(f"rank {world.Get_rank()} of {world.Get_size()} on {host} sum {total}\\n")
sys.stdout.flush()
if world.Get_rank() == 0:
    pathlib.Path(os.environ["SM_MODEL_DIR"], "sum.txt").write_text(str(total))
"""
# All processes but one wait for a message that never comes.
FAIL = """
import sys
from mpi4py import MPI
world = MPI.COMM_WORLD
if world.Get_rank() == world.Get_size() - 1:
    sys.exit("the last rank gives up")
world.recv(source=world.Get_size() - 1)
"""
WAIT = """
import sys, time
from mpi4py import MPI
sys.stdout.write(f"waiting {MPI.COMM_WORLD.Get_rank()}\\n")
sys.stdout.flush()
time.sleep(600)
"""
SETTINGS = {"sagemaker_mpi_enabled": "true", "sagemaker_mpi_num_of_processes_per_host": "1"}
FIELDS = {
    "HyperParameters": SETTINGS,
    "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 2, "VolumeSizeInGB": 1},
}


def test_processes_of_two_hosts_add_numbers(drydock: Any) -> None:
    job = drydock.run_job("sum", SUM, **FIELDS)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    # mpirun writes the rank and the host in front of each line.
    lines = re.findall(r"rank (\d) of 2 on (\S+) sum (\d)$", "\n".join(drydock.read_full_log("sum")), re.MULTILINE)
    assert sorted(lines) == [("0", "algo-1", "3"), ("1", "algo-2", "3")]
    assert drydock.read_archive(job["ModelArtifacts"]["S3ModelArtifacts"]) == {"sum.txt": b"3"}


def test_job_fails_if_one_process_fails(drydock: Any) -> None:
    job = drydock.run_job("fail", FAIL, **FIELDS)
    assert job["TrainingJobStatus"] == "Failed"
    assert any("the last rank gives up" in line for line in drydock.read_full_log("fail"))


def test_stop_ends_the_processes_of_all_hosts(drydock: Any) -> None:
    drydock.create_job("wait", WAIT, **FIELDS)
    drydock.wait_until("both ranks", lambda: sum("waiting" in line for line in drydock.read_full_log("wait")) == 2)
    drydock.stop_job("wait")
    assert drydock.wait_for_end("wait")["TrainingJobStatus"] == "Stopped"
