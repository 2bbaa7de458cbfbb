"""The CPU and the memory that a host uses, and their measurement for the processes of this machine."""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import psutil

ProcessKey = tuple[int, float]
"""Id and creation time of a process. An id alone can belong to another process later."""
MIN_SHARING_PROCESSES = 3
"""Smallest number of processes whose shared memory is measured. Two, the launcher and the command, share nothing."""


@dataclass(frozen=True)
class Usage:
    """CPU in percent of one core since the last measurement, and memory in percent of the host's memory.

    The host's memory is that of its instance, but at most that of this machine: `HostPlan.memory_mib`.
    """

    cpu_percent: float
    memory_percent: float


@dataclass(frozen=True)
class _Sample:
    """The CPU seconds of the processes of a host at a moment, including those of their ended children."""

    moment: float
    cpu_s: Mapping[ProcessKey, float]
    orphans: frozenset[ProcessKey]
    """Processes whose parent is not a process of the host."""


class UsageMeter:
    """Measures the processes of one host.

    Args:
        memory_mib: The host's memory in MiB: that of its instance, but at most that of this machine.
    """

    def __init__(self, memory_mib: int) -> None:
        self._memory_mib = memory_mib
        self._leader: ProcessKey | None = None
        self._last_sample: _Sample | None = None

    def measure(self, pid: int) -> Usage | None:
        """Return the usage since the last measurement; None at the first one of a process, or if the process has ended.

        The CPU includes that of processes that began and ended between two measurements, if their parent has waited
        for them. Memory that several processes share is counted once if the system reports it (Linux).

        Args:
            pid: The process. Its descendants and its process group are measured, too.
        """
        try:
            leader = psutil.Process(pid)
            leader_key = (pid, leader.create_time())
            if leader.status() == psutil.STATUS_ZOMBIE:
                return None
            processes = list_processes(leader)
        except psutil.Error:
            return None
        sample = _sample_cpu(processes)
        last_sample = self._last_sample if self._leader == leader_key else None
        self._leader, self._last_sample = leader_key, sample
        if last_sample is None or sample.moment <= last_sample.moment or leader_key not in sample.cpu_s:
            return None
        is_sharing = len(processes) >= MIN_SHARING_PROCESSES
        memory_bytes = sum(_measure_memory(process, is_sharing=is_sharing) for process in processes)
        cpu_percent = 100 * _compute_cpu_s(last_sample, sample) / (sample.moment - last_sample.moment)
        return Usage(cpu_percent, 100 * memory_bytes / (self._memory_mib * 2**20))


def list_processes(leader: psutil.Process) -> list[psutil.Process]:
    """Return a process, its descendants, and the other processes of its group, whose parents have ended.

    Raises:
        psutil.Error: The process has ended.
    """
    processes = {process.pid: process for process in (leader, *leader.children(recursive=True))}
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, OSError):
            if pid not in processes and os.getpgid(pid) == leader.pid:
                processes[pid] = psutil.Process(pid)
    return list(processes.values())


def _sample_cpu(processes: list[psutil.Process]) -> _Sample:
    values = dict(_read_processes(processes))
    pids = {pid for pid, _ in values}
    orphans = frozenset(key for key, (_, parent) in values.items() if parent not in pids)
    return _Sample(time.monotonic(), {key: cpu_s for key, (cpu_s, _) in values.items()}, orphans)


def _read_processes(processes: list[psutil.Process]) -> Iterator[tuple[ProcessKey, tuple[float, int]]]:
    """Yield each process with its CPU seconds and the id of its parent."""
    for process in processes:
        with contextlib.suppress(psutil.Error), process.oneshot():  # it has just ended
            times = process.cpu_times()
            # An ended child's seconds are in its parent's `children` as soon as the parent has waited for it.
            cpu_s = times.user + times.system + times.children_user + times.children_system
            yield (process.pid, process.create_time()), (cpu_s, process.ppid())


def _compute_cpu_s(last_sample: _Sample, sample: _Sample) -> float:
    """Return the CPU seconds between two samples.

    The seconds of an orphan that has ended are in no process of the second sample. So they are left out of the first
    sample, too.
    """
    ended_orphans = {key for key in last_sample.orphans if key not in sample.cpu_s}
    before_s = sum(cpu_s for key, cpu_s in last_sample.cpu_s.items() if key not in ended_orphans)
    return max(sum(sample.cpu_s.values()) - before_s, 0.0)


def _measure_memory(process: psutil.Process, *, is_sharing: bool) -> int:
    """Return the bytes of memory of a process.

    If `is_sharing`, a page that N processes share counts as 1/N of a page, where the system reports that (Linux).
    """
    with contextlib.suppress(psutil.Error):
        if is_sharing:
            with contextlib.suppress(psutil.AccessDenied, AttributeError):  # macOS has no such number
                return int(process.memory_full_info().pss)
        return int(process.memory_info().rss)
    return 0
