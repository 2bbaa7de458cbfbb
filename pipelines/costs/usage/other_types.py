"""List the instance types that could replace the type of a job or of an endpoint, with their prices."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipelines.costs.prices import list_prices
from pipelines.instances.catalogue import Instance, Size, find_size, list_instances

OLDEST_GENERATION = 5
"""Oldest generation (5 is m5) of a type without accelerators that may replace a type with accelerators."""


@dataclass(frozen=True)
class PricedType:
    """An instance type with a price.

    Attributes:
        instance: the type.
        size: its size.
        usd_h: its price, USD an hour.
        present_usd_h: price of the present type, USD an hour.
        is_same_family: whether it is of the family of the present type.
    """

    instance: Instance
    size: Size
    usd_h: float
    present_usd_h: float
    is_same_family: bool

    @property
    def price_share(self) -> float:
        """Price of this type / price of the present type."""
        return self.usd_h / self.present_usd_h

    def get_rank(self) -> tuple[float, bool, str]:
        """Return a sort key. The cheapest type comes first; at equal prices, a type of the same family."""
        return self.price_share, not self.is_same_family, self.instance.name

    def describe(self) -> str:
        """Describe the type: "ml.m5.large (2 vCPUs, 8 GiB)"."""
        return f"{self.instance.name} ({self.instance.describe()})"

    def describe_price(self) -> str:
        """Describe its price beside the present one: "0.115 USD an hour in place of 0.23"."""
        return f"{self.usd_h:g} USD an hour in place of {self.present_usd_h:g}"


def list_other_types(name: str, region: str, use: str) -> list[PricedType]:
    """List the types that could replace a type: those of its family, and those of other families that are alike.

    A type of another family is alike if it has the same processor architecture and kind of accelerator, and is not
    burstable. Without an accelerator, it must not be of an older generation; with one, it must have bf16 if the present
    type has it. Types for another use, or without a known price in the region, are left out. If the price of the
    present type is not known, the list is empty.

    Args:
        name: the present type.
        region: AWS region.
        use: training, processing, transform or hosting.
    """
    return [other for other, present in _list_priced_types(name, region, use) if _is_alike(present, other.instance)]


def list_types_without_accelerator(name: str, region: str, use: str) -> list[PricedType]:
    """List the types without accelerators that could replace a type with GPUs.

    They have the same use and processor architecture, are not burstable, and are not older than `OLDEST_GENERATION`.
    The arguments are those of `list_other_types`.
    """
    return [
        other
        for other, present in _list_priced_types(name, region, use)
        if other.instance.device is None and other.instance.architecture == present.architecture
        if _get_generation(other.instance) >= OLDEST_GENERATION  # leaves out the burstable ones, too: t2, t3, t4g
    ]


def _list_priced_types(name: str, region: str, use: str) -> list[tuple[PricedType, Instance]]:
    """Return the other types of a use whose size and price are known, each with the present type."""
    # Training stands for all kinds of jobs.
    prices = list_prices(region, "Hosting" if use == "hosting" else "Training")
    instances = {instance.name: instance for instance in list_instances()}
    present, usd_h = instances.get(name), prices.get(name)
    if present is None or usd_h is None:
        return []
    return [
        (PricedType(other, size, prices[other.name], usd_h, other.family == present.family), present)
        for other in instances.values()
        if other.name in prices and other != present and use in other.uses
        if (size := find_size(other.name)) is not None
    ]


def _is_alike(present: Instance, other: Instance) -> bool:
    """Return whether another type is alike, as `list_other_types` says.

    If the present type has bf16, programs may use it, so the other type must have it, too. Jobs would take longer on an
    older or a burstable processor.
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
