"""Connect the processes of a training with torch, let them make the same decisions, and disconnect them at the end.

torchrun starts the processes, on one host or on several. Without torchrun, the script is one process, and everything
works in the same way.

This module is part of the training job's bundle, so it imports torch, the standard library and files of the bundle.
"""

from __future__ import annotations

import ctypes
import datetime as dt
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import torch
import torch.distributed as dist

from pipelines.container.hosts import HostsError
from pipelines.container.signals import Stopped
from pipelines.errors import DataError, LeewayError

TIMEOUT_S = 600
"""Longest time that a process waits for another one, for example while the other one saves a checkpoint."""
LOST_TEXTS = ("connection", "gloo", "nccl", "timed out", "timeout", "broken pipe", "socket")
"""Words of the errors that torch raises when another process has ended or does not answer. torch has no class for them:
gloo raises a plain RuntimeError (torch 2.13)."""


@dataclass(frozen=True)
class Processes:
    """The processes of a training, and which of them this one is.

    All methods wait for all processes, so each process must call them in the same order.

    Attributes:
        rank: position of this process among all, from 0.
        count: number of all processes.
        local_rank: position of this process among those of its host, from 0.
        device: the GPU of this process, or the CPU.
    """

    rank: int
    count: int
    local_rank: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes the training's record and the model."""
        return self.rank == 0

    @property
    def is_first_on_host(self) -> bool:
        """Whether this is the process that does the work that is done only once on each host."""
        return self.local_rank == 0

    def reduce_max(self, *numbers: int) -> tuple[int, ...]:
        """Return on each process, for each position in `numbers`, the largest number of all processes."""
        values = torch.tensor(numbers, dtype=torch.int64)
        dist.all_reduce(values, dist.ReduceOp.MAX)
        return tuple(values.tolist())

    def reduce_min(self, number: int) -> int:
        """Return on each process the smallest number of all processes."""
        return -self.reduce_max(-number)[0]

    def reduce_sum(self, *numbers: float) -> tuple[float, ...]:
        """Return on each process, for each position in `numbers`, the sum of the numbers of all processes."""
        values = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(values, dist.ReduceOp.SUM)
        return tuple(values.tolist())

    def gather(self, *numbers: int) -> list[list[int]]:
        """Return on each process the numbers of all processes, in the order of their ranks.

        All processes must pass the same count of numbers.
        """
        values = torch.tensor(numbers, dtype=torch.int64)
        all_values = [torch.empty_like(values) for _ in range(self.count)]
        dist.all_gather(all_values, values)
        return [tensor.tolist() for tensor in all_values]

    def share_bytes(self, content: bytes) -> bytes:
        """Return on each process the bytes that the first process passes. Nothing is pickled."""
        (length,) = self.reduce_max(len(content) if self.is_first else 0)
        values = torch.zeros(length, dtype=torch.uint8)
        if self.is_first and length:
            values = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        if length:
            dist.broadcast(values, 0)
        received_bytes: bytes = values.numpy().tobytes()
        return received_bytes

    def wait(self) -> None:
        """Wait until all processes have called this function."""
        self.reduce_max(0)

    def require_equal(self, identity: str) -> None:
        """Check that all processes have the same inputs.

        Args:
            identity: what must be equal, such as a digest of the data and the hyperparameters.

        Raises:
            DataError: a process has other inputs than the first one. A retry cannot help.
        """
        # `gather` sends 64-bit integers, so 7 bytes of the digest are compared.
        number = int.from_bytes(hashlib.sha256(identity.encode()).digest()[:7], "big")
        numbers = [values[0] for values in self.gather(number)]
        other_ranks = [str(rank) for rank, other in enumerate(numbers) if other != numbers[0]]
        if other_ranks:
            names = ", ".join(other_ranks)
            raise DataError(f"the process of rank {names} has other data or other hyperparameters than that of rank 0.")


@contextmanager
def join_processes(timeout_s: float = TIMEOUT_S) -> Iterator[Processes]:
    """Connect this process with the others of the training, until the `with` block ends.

    At the end, and after `Stopped`, a process waits for the others before it leaves. To the others, a host that leaves
    early would look like one that failed.

    Args:
        timeout_s: longest time that a process waits for another one, seconds.

    Raises:
        DataError: the job has several hosts, but torchrun did not start the script. A retry cannot help.
        HostsError: another process ended, or does not answer. A retry can help.
    """
    processes = _connect(timeout_s)
    try:
        yield processes
        processes.wait()
    except Stopped:  # all processes stop after the same step
        with suppress(RuntimeError):  # the checkpoint is saved, so a process that already ended changes nothing
            processes.wait()
        raise
    except RuntimeError as error:
        if processes.count == 1 or not is_lost_connection(error):
            raise
        raise HostsError(
            f"the training in {processes.count} processes ended, perhaps because another host did: "
            f"{describe_error(error)}"
        ) from None
    finally:
        dist.destroy_process_group()


def is_lost_connection(error: BaseException) -> bool:
    """Return whether torch raised this error because another process ended or does not answer."""
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(word in text for word in LOST_TEXTS)


def describe_error(error: BaseException, max_chars: int = 400) -> str:
    """Return the text of an error on one line, without the C++ stack that torch appends."""
    text = str(error).split("Exception raised from")[0].split("\nC++")[0]
    return " ".join(text.split())[:max_chars]


def _connect(timeout_s: float) -> Processes:
    environment = os.environ
    is_started_by_torchrun = "RANK" in environment and "WORLD_SIZE" in environment
    _check_launcher(environment, is_started_by_torchrun)
    _choose_interface()
    rank, count, local_rank = (
        int(environment.get(name, default)) if is_started_by_torchrun else int(default)
        for name, default in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0"))
    )
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
    # The numbers on which the processes agree go through gloo, so that they never wait for the GPU's queue.
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    address = {} if is_started_by_torchrun else {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    try:
        dist.init_process_group(backend, timeout=dt.timedelta(seconds=timeout_s), **address)
    except (RuntimeError, ValueError) as error:
        raise HostsError(f"the processes cannot connect: {describe_error(error)}") from None
    _prevent_destruction(dist.group.WORLD)
    return Processes(rank, count, local_rank, device)


def _prevent_destruction(group: object) -> None:
    """Never free the group of processes: the end of the process closes its connections.

    torch 2.13 frees a group while it holds Python's lock, and waits for gloo's threads. A thread that needs
    this lock at that moment, to free the tensor of the last exchange, waits for ever, and so does the job.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


def _check_launcher(environment: Mapping[str, str], is_started_by_torchrun: bool) -> None:
    hosts = json.loads(environment.get("SM_HOSTS") or "[]")
    if len(hosts) > 1 and not is_started_by_torchrun:
        raise DataError(
            f"the job has {len(hosts)} hosts, but torchrun did not start the script.",
            'Set distribution={"torch_distributed": {"enabled": True}}.',
        )


def _choose_interface() -> None:
    """Let gloo and NCCL use the network interface that SageMaker names; by themselves they may choose another one."""
    interface = os.environ.get("SM_NETWORK_INTERFACE_NAME")
    if interface:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
        os.environ.setdefault("NCCL_SOCKET_IFNAME", interface)


def format_failure(error: BaseException) -> str:
    """Return the one line that a script prints for an error. It names the error's class, unless Leeway raised it."""
    if isinstance(error, LeewayError | HostsError):
        return " ".join(str(error).split())
    return f"{type(error).__name__}: {describe_error(error)}"
