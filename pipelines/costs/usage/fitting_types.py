"""Choose the cheapest instance type that is enough for what jobs or endpoints used, or one that is clearly larger."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pipelines.costs.usage.other_types import PricedType
from pipelines.instances.catalogue import Instance, Size

MAX_USED_PERCENT = 80.0
"""Highest peak of each resource, percent, that is accepted on a cheaper type. Of GPUs' FLOP/s: highest mean."""
FULL_PERCENT = 90.0
"""Peak of memory, percent, above which a larger type is suggested."""
LARGER_FACTOR = 1.5
"""Smallest memory, or number of vCPUs, of a larger type, as a multiple of the present type's."""


def find_cheaper_type(
    types: Iterable[PricedType], size: Size, cpu_peak: float, memory_peak: float
) -> PricedType | None:
    """Return the cheapest type that costs less, and on which the peaks fit; None if there is none.

    Args:
        types: the types to choose from.
        size: size of the present type.
        cpu_peak: highest utilization of the CPU, percent; 100 is one core.
        memory_peak: highest utilization of the memory, percent of the memory of the present type.
    """
    fitting_types = [other for other in types if _is_cheaper_and_enough(other, size, cpu_peak, memory_peak)]
    return min(fitting_types, key=PricedType.get_rank, default=None)


def find_cheaper_gpu_type(
    types: Iterable[PricedType],
    present: Instance,
    size: Size,
    used_share: float,
    peaks: tuple[float, float, float],
) -> PricedType | None:
    """Return the cheapest type that costs less, and whose GPUs are enough for what was used; None if there is none.

    Return None, too, if the GPUs were not used, or if the FLOP/s of the present type are not known.

    Args:
        types: the types to choose from.
        present: the present type.
        size: size of the present type.
        used_share: mean utilization of the present GPUs together, from 0 to 1. It is taken as a share of their 16-bit
            FLOP/s.
        peaks: highest utilization of CPU, memory and the memory of the GPUs, percent; 100 is one core, the memory of
            the instance, and the memory of one GPU.
    """
    cpu_peak, memory_peak, gpu_memory_peak = peaks
    flops = used_share * (_sum_flops(present) or 0.0)
    # It is assumed that each GPU holds the whole model, whatever their number.
    gpu_memory_gib = gpu_memory_peak / 100 / size.gpus * (present.accelerator_memory_gib or 0.0)
    max_share = MAX_USED_PERCENT / 100
    fitting_types = [
        other
        for other in types
        if _is_cheaper_and_enough(other, size, cpu_peak, memory_peak)
        and 0 < flops <= max_share * (_sum_flops(other.instance) or 0.0)
        and gpu_memory_gib <= max_share * (other.instance.accelerator_memory_gib or 0.0)
    ]
    return min(fitting_types, key=PricedType.get_rank, default=None)


def find_larger_type(
    types: Iterable[PricedType], size: Size, resource: Literal["memory", "cpu"] = "memory"
) -> PricedType | None:
    """Return the cheapest type with clearly more memory, or clearly more vCPUs; None if there is none.

    Of the resource that is not `resource`, the type has at least as much as the present type. A type that replaces one
    with accelerators is of the same family.

    Args:
        types: the types to choose from.
        size: size of the present type.
        resource: the resource of which the type must have more.
    """
    memory_factor, cpu_factor = (LARGER_FACTOR, 1.0) if resource == "memory" else (1.0, LARGER_FACTOR)
    larger_types = [
        other
        for other in types
        if other.size.memory_gib >= memory_factor * size.memory_gib
        and other.size.vcpus >= cpu_factor * size.vcpus
        and (other.is_same_family or not size.is_accelerated)
    ]
    return min(larger_types, key=PricedType.get_rank, default=None)


def _is_cheaper_and_enough(other: PricedType, size: Size, cpu_peak: float, memory_peak: float) -> bool:
    """Return whether a type costs less than the present one, and the peaks are at most `MAX_USED_PERCENT` of it."""
    return (
        other.price_share < 1
        and cpu_peak <= MAX_USED_PERCENT * other.size.vcpus
        and memory_peak * size.memory_gib <= MAX_USED_PERCENT * other.size.memory_gib
    )


def _sum_flops(instance: Instance) -> float | None:
    """Return the 16-bit peak performance of all GPUs of an instance, FLOP/s; None if it is not known."""
    if instance.device is None or instance.device.flops is None:
        return None
    return instance.device.flops * (instance.accelerators or 0)
