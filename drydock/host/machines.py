"""What an instance type needs of this machine. AWS's naming scheme says it: no table of types to keep up to date."""

import re
from dataclasses import dataclass

GIB_PER_VCPU = {"c": 2, "m": 4, "r": 8, "x": 16, "t": 4, "g": 4, "p": 8, "i": 8}
UNKNOWN_GIB_PER_VCPU = 4


@dataclass(frozen=True)
class Need:
    """vCPUs, and memory in MiB."""

    cores: int
    memory_mb: int

    def within(self, limit: "Need") -> "Need":
        """Return the need, cut to a limit: the largest instance runs here too, alone."""
        return Need(min(self.cores, limit.cores), min(self.memory_mb, limit.memory_mb))

    def fits(self, free: "Need") -> bool:
        """Return whether free is enough."""
        return self.cores <= free.cores and self.memory_mb <= free.memory_mb

    def __add__(self, other: "Need") -> "Need":
        """Return both together."""
        return Need(self.cores + other.cores, self.memory_mb + other.memory_mb)

    def __sub__(self, other: "Need") -> "Need":
        """Return what is left."""
        return Need(self.cores - other.cores, self.memory_mb - other.memory_mb)

    def __mul__(self, count: int) -> "Need":
        """Return so many times the need."""
        return Need(self.cores * count, self.memory_mb * count)


def need_of(instance_type: str) -> Need:
    """Return what one instance of the type has: ml.m5.2xlarge is 8 vCPUs and 32 GiB. Metal counts as 96 vCPUs."""
    family, _, size = instance_type.removeprefix("ml.").partition(".")
    cores = _cores(size)
    gib = cores * GIB_PER_VCPU.get(family[:1], UNKNOWN_GIB_PER_VCPU)
    return Need(cores, (gib // 2 if size == "medium" else gib) * 1024)


def _cores(size: str) -> int:
    if found := re.fullmatch(r"(\d+)xlarge", size):
        return 4 * int(found.group(1))
    return {"xlarge": 4, "large": 2, "medium": 2, "metal": 96}.get(size, 2)
