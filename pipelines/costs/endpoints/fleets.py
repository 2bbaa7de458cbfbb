"""Define what SageMaker bills for an endpoint, and compute instance hours while the number of instances changes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

HOUR_S = 3_600
MB_PER_GB = 1_024


@dataclass(frozen=True)
class Fleet:
    """The instances of one variant of one endpoint configuration, or the requests of a serverless variant."""

    region: str
    endpoint: str
    config: str
    """Name of SageMaker's endpoint configuration."""
    variant: str
    instance_type: str = ""
    """Empty if the variant is serverless."""
    memory_mb: int = 0
    """Memory of a serverless variant, MB; 0 if the variant has instances."""
    model: str = ""
    """Registered model that the endpoint serves; empty if it is not known."""
    project: str = ""
    """Project that pays."""

    @property
    def key(self) -> Key:
        """Region, endpoint, configuration and variant, which identify the fleet."""
        return self.region, self.endpoint, self.config, self.variant

    @property
    def machine(self) -> str:
        """The instance type, or the memory of a serverless variant, for people."""
        return self.instance_type or f"serverless {self.memory_mb / MB_PER_GB:g} GB"


Key = tuple[str, str, str, str]
"""Region, endpoint, configuration and variant."""


@dataclass(frozen=True)
class CountChange:
    """A change of the number of instances."""

    at: dt.datetime
    count: int
    """Number of instances from then on."""


@dataclass(frozen=True)
class Usage:
    """Instance hours and requests of a fleet in a period."""

    instance_h: float = 0.0
    """Instance hours: two instances that run for an hour use two."""
    zero_h: float = 0.0
    """Hours without any instance."""
    instance_count: int = 0
    """Number of instances at the end."""
    requests: int = 0
    """Requests that the fleet answered."""
    busy_s: float = 0.0
    """Seconds in which a serverless variant worked on requests; the times of simultaneous requests are added."""


def compute_serverless_usd_h(price_usd_h: float, memory_mb: int, load: float) -> float:
    """Compute the cost of an hour of a serverless variant, USD.

    Args:
        price_usd_h: price of an hour of work with 1 GB, USD.
        memory_mb: memory of the variant, MB.
        load: number of requests that it works on at a time, on average.
    """
    return price_usd_h * memory_mb / MB_PER_GB * load


def compute_instance_usage(begin: dt.datetime, end: dt.datetime, count: int, changes: Iterable[CountChange]) -> Usage:
    """Compute the instance hours between two moments.

    Args:
        begin: the first moment.
        end: the last moment.
        count: number of instances at `begin`.
        changes: changes of the number, in any order; those outside of the period have no effect.
    """
    instance_s = zero_s = 0.0
    for change in (*sorted(changes, key=lambda item: item.at), None):  # None: no change until the end
        until = min(change.at, end) if change else end
        if until > begin:
            elapsed_s = (until - begin).total_seconds()
            instance_s += count * elapsed_s
            zero_s += elapsed_s if count == 0 else 0.0
            begin = until
        if change and begin == change.at:
            count = change.count
    return Usage(instance_h=instance_s / HOUR_S, zero_h=zero_s / HOUR_S, instance_count=count)


def split_by_day(begin: dt.datetime, end: dt.datetime) -> Iterator[tuple[dt.datetime, dt.datetime]]:
    """Split a period at each midnight UTC; a period without length is one part."""
    while True:
        midnight = begin.astimezone(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0) + dt.timedelta(days=1)
        if midnight >= end:
            break
        yield begin, midnight
        begin = midnight
    yield begin, end
