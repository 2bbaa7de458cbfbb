"""List the instance types on which the jobs of a type could run, with their prices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.costs.prices import list_prices
from pipelines.costs.usage.task_jobs import get_kind
from pipelines.instances.catalogue import Instance, Size, find_size, list_instances

Row = Mapping[str, Any]


@dataclass(frozen=True)
class PricedType:
    """An instance type with a price.

    Attributes:
        instance: the type.
        size: its size.
        price_share: its price relative to that of the present type; 0.5 is half as much.
        is_same_family: whether it is of the family of the present type.
    """

    instance: Instance
    size: Size
    price_share: float
    is_same_family: bool

    def get_rank(self) -> tuple[float, bool, str]:
        """Return the sort key that puts the best type first: the cheapest; at equal prices, one of the same family."""
        return self.price_share, not self.is_same_family, self.instance.name

    def describe(self) -> str:
        """Describe the type: "ml.m5.large (2 vCPUs, 8 GiB)"."""
        return f"{self.instance.name} ({self.instance.describe()})"


def list_other_types(row: Row) -> list[PricedType]:
    """List the types that could replace the type of a job: same use, processor and kind of accelerator, not older.

    Types without a known price in the job's region are left out, and all if the price of the job's own type is not
    known. An older generation is slower, so the jobs would take longer there; a burstable type, too.

    Args:
        row: row of the ledger of jobs.
    """
    prices, instances = list_prices(row["region"]), {instance.name: instance for instance in list_instances()}
    present, price = instances.get(row["instance_type"]), prices.get(row["instance_type"])
    if present is None or price is None:
        return []
    return [
        PricedType(other, size, prices[other.name] / price, other.family == present.family)
        for other in instances.values()
        if other.name in prices and other != present
        if get_kind(row) in other.uses and _is_alike(present, other)
        if (size := find_size(other.name)) is not None
    ]


def _is_alike(present: Instance, other: Instance) -> bool:
    """Return whether the programs of the present type run on another type that is neither older nor burstable.

    Programs for bf16 need it on the other type, too.
    """
    if other.family == present.family:
        return True
    if other.architecture != present.architecture or other.is_burstable:
        return False
    if present.device is None:
        return other.device is None and _get_generation(other) >= _get_generation(present)
    if other.device is None or other.device.is_neuron != present.device.is_neuron:
        return False
    return other.device.has_bf16 or not present.device.has_bf16


def _get_generation(instance: Instance) -> int:
    """Return the generation of a family: 5 of m5d."""
    match = re.search(r"\d+", instance.family)
    return int(match[0]) if match else 0
