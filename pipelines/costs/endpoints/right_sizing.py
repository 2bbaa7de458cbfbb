"""Say which endpoints need only smaller or fewer instances, and which endpoints need larger or more instances."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.costs.endpoints.cheaper_instances import list_cheaper_instances
from pipelines.costs.endpoints.more_instances import describe_larger_type, describe_more_instances
from pipelines.costs.endpoints.running import RunningFleet
from pipelines.costs.endpoints.variant_evidence import MIN_OBSERVED_H, VariantEvidence, collect_rows
from pipelines.costs.usage.data_waits import BUSY_PERCENT
from pipelines.costs.usage.fitting_types import FULL_PERCENT
from pipelines.costs.usage.gpu_use import LOW_PERCENT
from pipelines.costs.usage.task_jobs import MIN_USD
from pipelines.instances.catalogue import find_size

Row = Mapping[str, Any]
LABELS = {"cpu": "CPU", "memory": "memory", "gpu": "GPUs"}


def list_endpoint_size_advice(rows: Sequence[Row], fleets: Sequence[RunningFleet], now: dt.datetime) -> list[str]:
    """List sentences about the size of the variants that run, by the same limits as for jobs.

    A variant that cannot be judged has a sentence that says why. There is no sentence for a variant that needs its
    instances, or for a serverless variant. There is also none for a variant without a request in `MIN_OBSERVED_H` hours
    or more, because other advice names this variant. But a variant whose memory is almost full always has a sentence.

    Args:
        rows: rows of the ledger of endpoints, oldest first.
        fleets: fleets that run, the newest last.
        now: the current moment.
    """
    # During a release, two fleets of a variant run. The newer one stays.
    fleet_by_variant = {(item.fleet.region, item.fleet.endpoint, item.fleet.variant): item.fleet for item in fleets}
    sentences = []
    for _, fleet in sorted(fleet_by_variant.items()):
        if fleet.memory_mb:
            continue
        size = find_size(fleet.instance_type)
        if size is None:
            sentences.append(
                f"The size of endpoint {fleet.endpoint} is not judged, because the size of its instance type "
                f"{fleet.instance_type} is not known."
            )
        else:
            sentences += _advise(VariantEvidence(fleet, size, collect_rows(rows, fleet, now)))
    return sentences


def _advise(evidence: VariantEvidence) -> Iterator[str]:
    memory_peak = evidence.find_peak("memory")
    if memory_peak is not None and memory_peak > FULL_PERCENT:
        yield (
            f"{evidence.describe()} used {memory_peak:.0f}% of its memory ({evidence.describe_observation()}); "
            f"a container that needs more than it has is killed: {describe_larger_type(evidence, 'memory')}."
        )
    elif evidence.has_no_requests and evidence.hours >= MIN_OBSERVED_H:
        return
    elif reason := _find_reason(evidence):
        yield f"The size of {_lower_first_letter(evidence.describe())} is not judged, because {reason}."
    elif evidence.compute_mean("cpu") >= BUSY_PERCENT * evidence.size.vcpus:
        percent = evidence.compute_mean("cpu") / evidence.size.vcpus
        yield (
            f"{evidence.describe()} used {percent:.0f}% of its {evidence.size.vcpus} vCPUs on average "
            f"({evidence.describe_observation()}): {describe_larger_type(evidence, 'cpu')}, or "
            f"{describe_more_instances(evidence)}."
        )
    else:
        yield from _advise_cheaper(evidence)


def _find_reason(evidence: VariantEvidence) -> str:
    """Return why a variant cannot be judged; empty if it can be."""
    if unknown_resources := evidence.unknown_resources:
        names = " and ".join(LABELS[name] for name in unknown_resources)
        return f"CloudWatch has no value of the utilization of its {names}"
    if evidence.observed_h < MIN_OBSERVED_H:
        return (
            f"its utilization is known for only {math.floor(evidence.observed_h)} of the {MIN_OBSERVED_H} hours needed"
        )
    return ""


def _advise_cheaper(evidence: VariantEvidence) -> Iterator[str]:
    """Yield a sentence if cheaper instances would be enough, or if the GPUs are hardly used."""
    choices = list_cheaper_instances(evidence)
    gpus = evidence.size.gpus
    if not choices and gpus and evidence.compute_mean("gpu") < LOW_PERCENT * gpus:
        unused_share = 1 - evidence.compute_mean("gpu") / 100 / gpus
        if unused_share * evidence.cost_usd >= MIN_USD:
            choices = [
                f"more requests or models would use its idle part, which cost {evidence.describe_amount(unused_share)}"
            ]
    if choices:
        yield f"{evidence.describe()} {_describe_use(evidence)}: {'; or '.join(choices)}."


def _describe_use(evidence: VariantEvidence) -> str:
    """Describe the utilization: "used at most 10% (mean 4%) of its 8 vCPUs and ...", with the evidence."""
    size, uses = evidence.size, []
    gpus = f"its {size.gpus} GPUs" if size.gpus > 1 else "its GPU"
    names = {"cpu": f"its {size.vcpus} vCPUs", "memory": "its memory", "gpu": gpus}
    numbers = {"cpu": size.vcpus, "memory": 1, "gpu": size.gpus}
    for resource in evidence.resources:
        peak, mean = evidence.find_peak(resource) or 0.0, evidence.compute_mean(resource)
        number = numbers[resource]
        uses.append(f"{peak / number:.0f}% (mean {mean / number:.0f}%) of {names[resource]}")
    return f"used at most {', '.join(uses[:-1])} and {uses[-1]} ({evidence.describe_observation()})"


def _lower_first_letter(text: str) -> str:
    return text[0].lower() + text[1:]
