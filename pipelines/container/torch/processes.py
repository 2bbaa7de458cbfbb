"""Join the processes of a training: those that torchrun starts on one or several hosts, or one process alone.

The module is part of a training job's source bundle, so it imports only torch, numpy and the standard library.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist

TIMEOUT = dt.timedelta(minutes=10)
"""Longest time that a process waits for the others in one exchange, such as the end of a slow save."""


class ProcessesError(Exception):
    """A process of the training ended; the text says what this one saw. A retry can help."""


@dataclass(frozen=True)
class Processes:
    """The processes of a training. Each of them calls the same methods in the same order.

    Attributes:
        rank: number of this process, from 0.
        count: number of processes on all hosts.
        local_rank: number of this process on its host.
        local_count: number of processes on its host.
        device: what this process computes on.
    """

    rank: int
    count: int
    local_rank: int
    local_count: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this process writes the record and the model."""
        return self.rank == 0

    def find_largest(self, numbers: Sequence[int]) -> list[int]:
        """Return for each position the largest number that a process has."""
        tensor = torch.tensor(list(numbers), dtype=torch.int64, device=self.device)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return [int(number) for number in tensor.tolist()]

    def add_up(self, numbers: Sequence[float]) -> list[float]:
        """Return for each position the sum over all processes."""
        tensor = torch.tensor(list(numbers), dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor)
        return [float(number) for number in tensor.tolist()]

    def share_text(self, text: str) -> str:
        """Return on each process the text that the first process has."""
        return self.gather_texts(text)[0]

    def gather_texts(self, text: str) -> list[str]:
        """Return on each process the texts of all processes, in the order of their ranks.

        torch's own functions for objects unpickle what they receive. These texts stay texts.
        """
        content = text.encode()
        (size,) = self.find_largest([len(content)])
        row = np.zeros(8 + size, np.uint8)
        row[:8] = np.frombuffer(len(content).to_bytes(8, "big"), np.uint8)
        row[8 : 8 + len(content)] = np.frombuffer(content, np.uint8)
        own = torch.from_numpy(row).to(self.device)
        rows = [torch.empty_like(own) for _ in range(self.count)]
        dist.all_gather(rows, own)
        contents = [other.cpu().numpy().tobytes() for other in rows]
        return [content[8 : 8 + int.from_bytes(content[:8], "big")].decode() for content in contents]


@contextmanager
def join() -> Iterator[Processes]:
    """Connect the processes of the training until the `with` block ends.

    Raises:
        ProcessesError: another process ended during the training, or did not come. A retry can help.
    """
    local_rank, is_gpu = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.is_available()
    device = torch.device("cuda", local_rank) if is_gpu else torch.device("cpu")
    if is_gpu:
        torch.cuda.set_device(device)
    try:
        _connect("nccl" if is_gpu else "gloo")
        processes = Processes(
            dist.get_rank(), dist.get_world_size(), local_rank, int(os.environ.get("LOCAL_WORLD_SIZE", "1")), device
        )
        yield processes
        dist.barrier()  # no process leaves while another one still needs it
    except (RuntimeError, dist.DistError) as error:
        if not _is_of_connection(error):
            raise
        text = " ".join(str(error).split())[:300]
        raise ProcessesError(f"the training ended, perhaps because another process or host did: {text}") from None
    finally:
        with suppress(RuntimeError, ValueError, AssertionError):
            dist.destroy_process_group()


def _connect(backend: str) -> None:
    if "RANK" not in os.environ:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
        return
    # SageMaker names the interface between the hosts; without it, gloo and NCCL guess one.
    if interface := os.environ.get("SM_NETWORK_INTERFACE_NAME"):
        os.environ.setdefault(f"{backend.upper()}_SOCKET_IFNAME", interface)
    dist.init_process_group(backend, timeout=TIMEOUT)


def _is_of_connection(error: Exception) -> bool:
    """Return whether the exchange between processes failed. gloo's errors have no type of their own (torch 2.13)."""
    return isinstance(error, dist.DistError) or any(word in str(error) for word in ("gloo", "NCCL", "TCPStore"))
