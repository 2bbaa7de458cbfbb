"""Measure what a host uses, as the CloudWatch metrics that SageMaker has of an instance."""

from collections.abc import Mapping
from pathlib import Path

from drydock.host.disk import measure_folder
from drydock.host.executor import RunningHost
from drydock.host.gpu import measure_gpus

SLOW_SAMPLE_S = 15.0
"""Shortest time between two measurements of the disk and the GPUs, seconds: they take longer than the others."""
GIB = 2**30


class HostMeter:
    """Measures the hosts of one job or variant, which have the same size.

    Args:
        instance_mib: Memory of an instance in MiB.
        machine_mib: Memory of this machine that drydock may use, in MiB.
        volume_gib: Size of an instance's volume in GiB (VolumeSizeInGB); 0 if the request does not have it.
    """

    def __init__(self, instance_mib: int, machine_mib: int, volume_gib: int) -> None:
        # An executor measures in percent of the memory that the host gets here, which is at most this machine's. The
        # metric is in percent of the instance's memory.
        self._memory_factor = min(instance_mib, machine_mib) / instance_mib
        self._volume_bytes = volume_gib * GIB

    def measure(self, host: RunningHost, folder: Path, *, is_slow_sample: bool) -> Mapping[str, float]:
        """Return the known metrics in percent, by name; no metric if the host has just started, or has ended.

        Args:
            host: The running host.
            folder: The folder with its files.
            is_slow_sample: Whether the disk and the GPUs are measured, too. That takes longer.
        """
        usage = host.measure_usage()
        if usage is None:
            return {}
        memory_percent = usage.memory_percent * self._memory_factor
        slow_values = self._measure_disk_and_gpus(host, folder) if is_slow_sample else {}
        return {"CPUUtilization": usage.cpu_percent, "MemoryUtilization": memory_percent, **slow_values}

    def _measure_disk_and_gpus(self, host: RunningHost, folder: Path) -> Mapping[str, float]:
        used_bytes = measure_folder(folder) if self._volume_bytes else None
        gpu = measure_gpus(host.list_process_ids())
        values = {
            "DiskUtilization": None if used_bytes is None else 100 * used_bytes / self._volume_bytes,
            "GPUUtilization": gpu.gpu_percent if gpu else None,
            "GPUMemoryUtilization": gpu.memory_percent if gpu else None,
        }
        return {name: value for name, value in values.items() if value is not None}
