"""Predict whether a training runs on another instance type, and how fast, from what past jobs used of their type."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from pipelines.instances.catalogue import Instance
from pipelines.planning.recommendation.past_jobs import Row, read_figure
from pipelines.planning.recommendation.workloads import Infeasibility

BUSY_SHARE = 0.8
"""If at least this share of the vCPUs or GPUs was busy, more or faster ones are assumed to make the training faster."""
MEMORY_SHARE = 0.8
"""Share of a smaller type's memory that past peaks may reach. Beyond it, the training is assumed not to fit."""


@dataclass(frozen=True)
class PastUse:
    """What past jobs used of their instances. A value that was not measured is None.

    Attributes:
        past_type: instance type of the past jobs.
        busy_vcpus: mean number of busy vCPUs of an instance.
        memory_gib: highest used memory of an instance.
        busy_gpus: mean number of busy GPUs of an instance.
        gpu_memory_gib: highest used memory of a GPU; of several GPUs of an instance, their mean.
    """

    past_type: Instance
    busy_vcpus: float | None = None
    memory_gib: float | None = None
    busy_gpus: float | None = None
    gpu_memory_gib: float | None = None

    def describe(self) -> str:
        """Return the utilization of vCPUs and memory in words."""
        vcpus = f"{self.busy_vcpus:.1f} busy vCPUs" if self.busy_vcpus is not None else "vCPU utilization not known"
        memory = (
            f"{self.memory_gib:.1f} GiB of memory" if self.memory_gib is not None else "memory utilization not known"
        )
        return f"{vcpus}, {memory}"

    def find_infeasibility(self, instance: Instance) -> Infeasibility | None:
        """Return why the training cannot run on a type; None if it can."""
        if instance.name == self.past_type.name:
            return None
        if not instance.is_known:
            return Infeasibility("unknown", "its size is not known")
        if instance.architecture != self.past_type.architecture:
            return Infeasibility(
                "architecture", f"it is {instance.architecture}, and past jobs ran on {self.past_type.architecture}"
            )
        if self.past_type.device is None and instance.device:
            return Infeasibility("accelerator", f"it has a {instance.accelerator}, and past jobs used none")
        if self.past_type.device and not instance.device:
            return Infeasibility("accelerator", f"it has no GPU, and past jobs ran on {self.past_type.accelerator}")
        return self._check_devices(instance) or self._check_memory(instance)

    def scale(self, instance: Instance) -> tuple[float, float, float]:
        """Return by which factor the past time is multiplied on another type, with the factor's lower and upper end.

        Fewer vCPUs make the training longer only if they are fewer than the busy vCPUs were. More vCPUs make it shorter
        only if most vCPUs were busy. If their utilization is not known, the longer time is the most likely one.
        """
        if self.past_type.device and instance.device:
            return self._scale_by_peak(
                self.past_type.device.flops, instance.device.flops, self._compute_busy_gpu_share()
            )
        if not self.past_type.vcpus or not instance.vcpus:
            return 1.0, 1.0, 1.0
        ratio = self.past_type.vcpus / instance.vcpus
        if self.busy_vcpus is None:
            return (1.0, min(ratio, 1.0), 1.0) if ratio <= 1 else (ratio, 1.0, ratio)
        if ratio >= 1:
            factor = max(1.0, self.busy_vcpus / instance.vcpus)
            return factor, 1.0, ratio
        share = self.busy_vcpus / self.past_type.vcpus
        return (1.0, 1.0, 1.0) if share < BUSY_SHARE else (math.sqrt(ratio), ratio, 1.0)

    def _check_devices(self, instance: Instance) -> Infeasibility | None:
        if self.past_type.device is None or instance.device is None:
            return None
        if instance.device.is_neuron != self.past_type.device.is_neuron:
            return Infeasibility(
                "accelerator", f"programs for {self.past_type.accelerator} do not run on {instance.accelerator}"
            )
        if instance.device.flops is None or self.past_type.device.flops is None:
            return Infeasibility("unknown", f"the peak of its {instance.accelerator} is not known")
        if (instance.accelerators or 0) < (self.past_type.accelerators or 0):
            return Infeasibility(
                "accelerator", f"it has fewer GPUs ({instance.accelerators}) than {self.past_type.name}"
            )
        return None

    def _check_memory(self, instance: Instance) -> Infeasibility | None:
        for needed, total, past_total, text in (
            (self.memory_gib, instance.memory_gib, self.past_type.memory_gib, "memory"),
            # A script may hold the whole model on each GPU, so the memory of several GPUs does not add up.
            (
                self.gpu_memory_gib,
                instance.accelerator_memory_gib,
                self.past_type.accelerator_memory_gib,
                "memory of each GPU",
            ),
        ):
            if total is None or past_total is None:
                continue
            if needed is None and total < past_total:
                return Infeasibility(
                    "memory", f"it has less {text} than {self.past_type.name}, and what past jobs used is not known"
                )
            if needed is not None and total < past_total and needed > MEMORY_SHARE * total:
                return Infeasibility(
                    "memory",
                    f"past jobs used {needed:.1f} GiB of {text}, and {MEMORY_SHARE:.0%} of its {total:.0f} GiB are "
                    f"{MEMORY_SHARE * total:.1f}: would fit with {needed / MEMORY_SHARE:.0f} GiB or more",
                )
        return None

    def _scale_by_peak(
        self, past_flops: float | None, other_flops: float | None, busy_share: float | None
    ) -> tuple[float, float, float]:
        """Scale by the peaks of the GPUs: return the factor, and its lower and upper end.

        A faster GPU shortens the time only if the GPUs are known to be busy. Otherwise only the lower end of the band
        is shorter.
        """
        ratio = past_flops / other_flops if past_flops and other_flops else 1.0
        if ratio > 1:
            return ratio, 1.0, ratio
        if busy_share is not None and busy_share >= BUSY_SHARE:
            return math.sqrt(ratio), ratio, 1.0
        return 1.0, ratio, 1.0

    def _compute_busy_gpu_share(self) -> float | None:
        return None if self.busy_gpus is None else self.busy_gpus / (self.past_type.accelerators or 1)


def summarize_use(jobs: Sequence[Row], past_type: Instance) -> PastUse:
    """Return what past jobs on a type used of their instances.

    Args:
        jobs: rows of the jobs in the ledger.
        past_type: instance type of the jobs.
    """
    return PastUse(
        past_type,
        busy_vcpus=_summarize(jobs, "cpu_mean", 1 / 100, median),
        memory_gib=_summarize(jobs, "memory_peak", (past_type.memory_gib or 0) / 100, max),
        busy_gpus=_summarize(jobs, "gpu_mean", 1 / 100, median),
        gpu_memory_gib=_summarize(jobs, "gpu_memory_peak", _get_gib_per_percent(past_type), max),
    )


def _get_gib_per_percent(instance: Instance) -> float:
    """Return the factor from GPUMemoryUtilization, a sum over all GPUs in percent, to the mean GiB of one GPU."""
    return (instance.accelerator_memory_gib or 0) / (instance.accelerators or 1) / 100


def _summarize(
    jobs: Sequence[Row], column: str, factor: float, summarize: Callable[[list[float]], float]
) -> float | None:
    """Return a figure of the jobs' use; None if one of the jobs lacks it."""
    values = [value for row in jobs if (value := read_figure(row, column)) is not None]
    return float(summarize(values)) * factor if len(values) == len(jobs) else None
