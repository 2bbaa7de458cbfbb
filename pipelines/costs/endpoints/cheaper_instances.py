"""List cheaper instances that would be enough for a variant of an endpoint: of another type, fewer, or without GPUs."""

from __future__ import annotations

import math

from pipelines.costs.endpoints.variant_evidence import VariantEvidence
from pipelines.costs.usage.fitting_types import MAX_USED_PERCENT, find_cheaper_gpu_type, find_cheaper_type
from pipelines.costs.usage.gpu_use import LOW_PERCENT
from pipelines.costs.usage.other_types import PricedType, list_other_types, list_types_without_accelerator
from pipelines.costs.usage.task_jobs import MIN_USD
from pipelines.instances.catalogue import find_instance

UNUSED_PERCENT = 5.0
"""Mean utilization of a GPU, percent, up to which a type without a GPU is suggested."""
MAX_CHOICES = 2
"""Largest number of choices in a sentence: a sentence on Leeway's page has at most 500 characters."""


def list_cheaper_instances(evidence: VariantEvidence) -> list[str]:
    """List clauses of a sentence, each with instances that would be enough and the saving, the largest saving first.

    The utilization of the variant must be known.
    """
    choices: list[tuple[float, str]] = []  # saved share of the cost; text, with {} where the saving is inserted
    if other := _find_type(evidence):
        target = ", if the target value of its scaling policy is measured again on it" if evidence.is_scaled else ""
        choices.append((1 - other.price_share, f"{other.describe()} fits{{}}{target}"))
    if other := _find_type_without_gpu(evidence):
        condition = ", if the model answers fast enough without a GPU"
        choices.append((1 - other.price_share, f"{other.describe()} fits{{}}{condition}"))
    if count := _find_smaller_count(evidence):
        instances, verb = ("one instance", "is") if count == 1 else (f"{count} instances", "are")
        risk = ", if the endpoint may be down when its only instance fails" if count == 1 else ""
        choices.append(
            (1 - count / evidence.count, f"{instances} in place of {evidence.count} {verb} enough{{}}{risk}")
        )
    choices = sorted((choice for choice in choices if _is_worthwhile(evidence, choice[0])), reverse=True)
    return [text.format(f", for {evidence.describe_saving(share)}") for share, text in choices[:MAX_CHOICES]]


def _find_type(evidence: VariantEvidence) -> PricedType | None:
    """Return the cheapest type that would be enough. If the present type has GPUs, so has this type; else it has none.

    Return None if there is none, if a peak is not known, if the mean utilization of the GPUs is `LOW_PERCENT` or more,
    or if the present type has accelerators that are not GPUs.
    """
    fleet, size = evidence.fleet, evidence.size
    cpu_peak, memory_peak = evidence.find_peak("cpu"), evidence.find_peak("memory")
    if cpu_peak is None or memory_peak is None:
        return None
    types = list_other_types(fleet.instance_type, fleet.region, "hosting")
    if not size.is_accelerated:
        return find_cheaper_type(types, size, cpu_peak, memory_peak)
    gpu_memory_peak = evidence.find_peak("gpu_memory")
    if gpu_memory_peak is None or not size.gpus or evidence.compute_mean("gpu") >= LOW_PERCENT * size.gpus:
        return None
    used_share = evidence.compute_mean("gpu") / 100 / size.gpus
    peaks = (cpu_peak, memory_peak, gpu_memory_peak)
    return find_cheaper_gpu_type(types, find_instance(fleet.instance_type), size, used_share, peaks)


def _find_type_without_gpu(evidence: VariantEvidence) -> PricedType | None:
    """Return the cheapest type without accelerators that has the CPU and memory that were used.

    Return None if there is none, if the present type has no GPU, if its GPUs were used, or if a peak is not known.
    """
    fleet, size = evidence.fleet, evidence.size
    cpu_peak, memory_peak = evidence.find_peak("cpu"), evidence.find_peak("memory")
    has_unused_gpus = size.gpus > 0 and evidence.compute_mean("gpu") <= UNUSED_PERCENT * size.gpus
    if not has_unused_gpus or cpu_peak is None or memory_peak is None:
        return None
    types = list_types_without_accelerator(fleet.instance_type, fleet.region, "hosting")
    return find_cheaper_type(types, size, cpu_peak, memory_peak)


def _find_smaller_count(evidence: VariantEvidence) -> int:
    """Return the smallest number of instances on which the peaks fit; 0 if it is not smaller than the present number.

    Return 0, too, if a peak is not known, if the peak of the memory is above `MAX_USED_PERCENT`, if the instances have
    accelerators that are not GPUs, or if the number of instances is or may be scaled automatically. The computation
    assumes that all instances had their peaks at the same time. Each instance holds the whole model, so the memory that
    it uses does not depend on the number of instances.
    """
    size, memory_peak = evidence.size, evidence.find_peak("memory")
    if evidence.is_scaled is not False or (size.is_accelerated and not size.gpus):
        return 0
    numbers = {"cpu": size.vcpus, "gpu": size.gpus} if size.gpus else {"cpu": size.vcpus}
    peaks = {name: evidence.find_peak(name) for name in numbers}
    if memory_peak is None or memory_peak > MAX_USED_PERCENT or None in peaks.values():
        return 0
    share = max((peaks[name] or 0.0) / number for name, number in numbers.items()) / MAX_USED_PERCENT
    count = max(1, math.ceil(evidence.count * share))
    return count if count < evidence.count else 0


def _is_worthwhile(evidence: VariantEvidence, share: float) -> bool:
    """Return whether a share of the cost is large enough to be reported."""
    return share * evidence.cost_usd >= MIN_USD
