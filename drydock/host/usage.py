"""The CPU and the memory that a host uses, and their measurement for the processes of this machine."""

import time
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Usage:
    """CPU in percent of one core since the last measurement, and memory in percent of the instance's."""

    cpu_percent: float
    memory_percent: float


class UsageMeter:
    """Measures the processes of one host.

    Args:
        memory_mib: Memory of the host in MiB.
    """

    def __init__(self, memory_mib: int) -> None:
        self._memory_mib = memory_mib
        self._last: tuple[int, float, float] | None = None  # process id, moment, CPU seconds

    def measure(self, pid: int) -> Usage | None:
        """Return the usage since the last measurement; None for the first one of a process, or if it has ended.

        Args:
            pid: The process. Its descendants are measured, too.
        """
        try:
            process = psutil.Process(pid)
            processes = [process, *process.children(recursive=True)]
            times = [item.cpu_times() for item in processes]
            memory_bytes = sum(item.memory_info().rss for item in processes)
        except psutil.Error:
            return None
        last, now = self._last, time.monotonic()
        cpu_s = sum(item.user + item.system for item in times)
        self._last = (pid, now, cpu_s)
        if last is None or last[0] != pid or now <= last[1]:
            return None
        memory_percent = 100 * memory_bytes / (self._memory_mib * 2**20)
        return Usage(max(100 * (cpu_s - last[2]) / (now - last[1]), 0.0), memory_percent)
