"""Estimate a training on other instances from past jobs in the ledger: their times, and what they used."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from pipelines.errors import DataError
from pipelines.instances.catalogue import Instance
from pipelines.planning.recommendation.past_jobs import (
    Row,
    compute_work_s,
    count_gaps,
    find_type,
    get_model_or_task,
    is_usable,
    read_figure,
)
from pipelines.planning.recommendation.workloads import Estimate, Infeasibility, Machines, format_machines

MAX_JOBS = 5
"""Number of past jobs, the newest ones, from which a workload is measured."""
BUSY_SHARE = 0.8
"""If at least this share of the vCPUs or GPUs was busy, more or faster ones are assumed to make the training faster."""
MEMORY_SHARE = 0.8
"""Share of the memory that past peaks may reach, as in the advice about smaller types."""
SPREAD = 1.25
"""Factor between the most likely time and both ends of its band, for a type whose speed was not measured."""


@dataclass(frozen=True)
class MeasuredWorkload:
    """A training as past jobs measured it. What they did not measure is None.

    Attributes:
        model: name of the model.
        base: instance type of the past jobs.
        count: number of instances of the past jobs.
        seconds: median of their training times without the work that interruptions undid, seconds.
        jobs: number of the past jobs.
        busy_vcpus: mean number of busy vCPUs of an instance.
        memory_gib: highest memory of an instance.
        busy_gpus: mean number of busy GPUs of an instance.
        gpu_memory_gib: highest memory of a GPU: the mean of the GPUs of an instance.
        spread: largest factor between the median time and that of a past job.
        known_s: median times on other machines on which the model was trained: type and number to seconds.
    """

    model: str
    base: Instance
    count: int
    seconds: float
    jobs: int
    busy_vcpus: float | None = None
    memory_gib: float | None = None
    busy_gpus: float | None = None
    gpu_memory_gib: float | None = None
    spread: float = 1.0
    known_s: Mapping[tuple[str, int], float] = field(default_factory=dict)

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of instances of the past jobs: how a script scales to more was not measured."""
        return (self.count,)

    @property
    def is_neuron(self) -> bool:
        """Whether past jobs ran on AWS's own accelerators."""
        return bool(self.base.device and self.base.device.is_neuron)

    def describe(self) -> str:
        """Return a sentence that describes the workload."""
        use = [
            f"{self.busy_vcpus:.1f} busy vCPUs" if self.busy_vcpus is not None else "use of vCPUs not known",
            f"{self.memory_gib:.1f} GiB of memory" if self.memory_gib is not None else "use of memory not known",
        ]
        machines = format_machines(self.base.name, self.count)
        return f"{self.model}: {self.jobs} past job(s) of {self.seconds:,.0f} s on {machines}, {', '.join(use)}"

    def estimate(self, machines: Machines) -> Estimate | Infeasibility:
        """Return how long the training takes on the machines, or why it cannot run there."""
        infeasibility = self._check(machines.instance)
        if infeasibility:
            return infeasibility
        known_s = self.known_s.get((machines.instance.name, machines.count))
        if known_s is not None:
            return Estimate(known_s, known_s / self.spread, known_s * self.spread, "measured")
        factor, low, high = self._scale(machines.instance)
        spread = self.spread * SPREAD
        return Estimate(
            self.seconds * factor,
            self.seconds * low / spread,
            self.seconds * high * spread,
            "scaled",
            scaled_from=self.base.name,
        )

    def _check(self, instance: Instance) -> Infeasibility | None:
        if instance.name == self.base.name:
            return None
        if not instance.is_known:
            return Infeasibility("unknown", "its size is not known")
        if instance.architecture != self.base.architecture:
            return Infeasibility(
                "architecture", f"it is {instance.architecture}, and past jobs ran on {self.base.architecture}"
            )
        if self.base.device is None and instance.device:
            return Infeasibility("accelerator", f"it has a {instance.accelerator}, and past jobs used none")
        if self.base.device and not instance.device:
            return Infeasibility("accelerator", f"it has no GPU, and past jobs ran on {self.base.accelerator}")
        return self._check_devices(instance) or self._check_memory(instance)

    def _check_devices(self, instance: Instance) -> Infeasibility | None:
        if self.base.device is None or instance.device is None:
            return None
        if instance.device.is_neuron != self.base.device.is_neuron:
            return Infeasibility(
                "accelerator", f"programs for {self.base.accelerator} do not run on {instance.accelerator}"
            )
        if instance.device.flops is None or self.base.device.flops is None:
            return Infeasibility("unknown", f"the peak of its {instance.accelerator} is not known")
        if (instance.accelerators or 0) < (self.base.accelerators or 0):
            return Infeasibility("accelerator", f"it has fewer GPUs ({instance.accelerators}) than {self.base.name}")
        return None

    def _check_memory(self, instance: Instance) -> Infeasibility | None:
        for needed, total, base_total, text in (
            (self.memory_gib, instance.memory_gib, self.base.memory_gib, "memory"),
            # A script may hold the whole model on each GPU, so the memory of several GPUs does not add up.
            (
                self.gpu_memory_gib,
                instance.accelerator_memory_gib,
                self.base.accelerator_memory_gib,
                "memory of each GPU",
            ),
        ):
            if total is None or base_total is None:
                continue
            if needed is None and total < base_total:
                return Infeasibility(
                    "memory", f"it has less {text} than {self.base.name}, and what past jobs used is not known"
                )
            if needed is not None and total < base_total and needed > MEMORY_SHARE * total:
                return Infeasibility(
                    "memory",
                    f"past jobs used {needed:.1f} GiB of {text}, and {MEMORY_SHARE:.0%} of its {total:.0f} GiB are "
                    f"{MEMORY_SHARE * total:.1f}: would fit with {needed / MEMORY_SHARE:.0f} GiB or more",
                )
        return None

    def _scale(self, instance: Instance) -> tuple[float, float, float]:
        """Return the factor of the time on another type, and the ends of its band.

        Fewer vCPUs make the training longer as far as they are fewer than the busy ones. More vCPUs make it shorter
        only if most vCPUs were busy. If their use is not known, the longer time is the most likely one.
        """
        if self.base.device and instance.device:
            return self._scale_by_peak(self.base.device.flops, instance.device.flops, self._get_gpu_share())
        if not self.base.vcpus or not instance.vcpus:
            return 1.0, 1.0, 1.0
        ratio = self.base.vcpus / instance.vcpus
        if self.busy_vcpus is None:
            return (1.0, min(ratio, 1.0), 1.0) if ratio <= 1 else (ratio, 1.0, ratio)
        if ratio >= 1:
            factor = max(1.0, self.busy_vcpus / instance.vcpus)
            return factor, 1.0, ratio
        share = self.busy_vcpus / self.base.vcpus
        return (1.0, 1.0, 1.0) if share < BUSY_SHARE else (math.sqrt(ratio), ratio, 1.0)

    def _scale_by_peak(
        self, base: float | None, other: float | None, share: float | None
    ) -> tuple[float, float, float]:
        """Scale the time by the peaks of the GPUs. A faster GPU makes it shorter only if the GPUs are known to be busy.

        Otherwise only the lower end of the band is shorter.
        """
        ratio = base / other if base and other else 1.0
        if ratio > 1:
            return ratio, 1.0, ratio
        if share is not None and share >= BUSY_SHARE:
            return math.sqrt(ratio), ratio, 1.0
        return 1.0, ratio, 1.0

    def _get_gpu_share(self) -> float | None:
        return None if self.busy_gpus is None else self.busy_gpus / (self.base.accelerators or 1)


def measure(rows: Sequence[Row], name: str) -> MeasuredWorkload:
    """Measure a workload from the newest jobs on the same machines as the newest usable one.

    Args:
        rows: rows of the ledger of one model or job, oldest first.
        name: name of the model or of the job, for errors.

    Raises:
        DataError: no row is a completed training with a time and a known instance type. A retry cannot help.
    """
    usable_rows = [row for row in rows if is_usable(row)]
    if not usable_rows:
        raise DataError(
            f"the ledger has no completed training of {name} with a time and a known type ({count_gaps(rows)}).",
            "Give --params and --tokens, or train it once.",
        )
    newest_row = usable_rows[-1]
    instance = find_type(newest_row)
    assert instance
    machine = (newest_row["instance_type"], newest_row["instance_count"])
    jobs = [row for row in usable_rows if (row["instance_type"], row["instance_count"]) == machine][-MAX_JOBS:]
    times = [compute_work_s(row) for row in jobs]
    median_s = median(times)
    return MeasuredWorkload(
        model=get_model_or_task(newest_row),
        base=instance,
        count=int(newest_row["instance_count"]),
        seconds=median_s,
        jobs=len(jobs),
        busy_vcpus=_summarize(jobs, "cpu_mean", 1 / 100, median),
        memory_gib=_summarize(jobs, "memory_peak", (instance.memory_gib or 0) / 100, max),
        busy_gpus=_summarize(jobs, "gpu_mean", 1 / 100, median),
        gpu_memory_gib=_summarize(jobs, "gpu_memory_peak", _get_memory_of_percent(instance), max),
        spread=max(max(seconds / median_s, median_s / seconds) for seconds in times),
        known_s=_measure_machines(usable_rows),
    )


def _measure_machines(rows: Sequence[Row]) -> dict[tuple[str, int], float]:
    """Return the median time of the newest jobs on each type and number of instances."""
    times: dict[tuple[str, int], list[float]] = defaultdict(list)
    for row in rows:
        times[row["instance_type"], int(row["instance_count"])].append(compute_work_s(row))
    return {machine: median(seconds[-MAX_JOBS:]) for machine, seconds in times.items()}


def _get_memory_of_percent(instance: Instance) -> float:
    """Return the GiB of each GPU for one percent of CloudWatch's GPUMemoryUtilization, which adds up the GPUs."""
    return (instance.accelerator_memory_gib or 0) / (instance.accelerators or 1) / 100


def _summarize(jobs: Sequence[Row], column: str, factor: float, summarize: Any) -> float | None:
    """Return a figure of the jobs' use; None if one of them does not have it."""
    values = [read_figure(row, column) for row in jobs]
    return None if None in values else float(summarize(values)) * factor
