"""The size of an instance type, estimated from its name, so that there is no table of types to maintain."""

import re
from dataclasses import dataclass

# GiB of memory for each vCPU, by the first letter of the instance family.
GIB_PER_VCPU = {"c": 2, "m": 4, "r": 8, "x": 16, "t": 4, "g": 4, "p": 8, "i": 8}
# For all other families.
UNKNOWN_GIB_PER_VCPU = 4


@dataclass(frozen=True)
class MachineSize:
    """A number of vCPUs, and memory in MiB."""

    cores: int
    memory_mib: int

    def limit_to(self, limit: "MachineSize") -> "MachineSize":
        """Return this size, but at most the limit. So even the largest instance type can run on this machine."""
        return MachineSize(min(self.cores, limit.cores), min(self.memory_mib, limit.memory_mib))

    def fits_in(self, free_size: "MachineSize") -> bool:
        """Return whether a machine of this size can run in the free cores and memory."""
        return self.cores <= free_size.cores and self.memory_mib <= free_size.memory_mib

    def __add__(self, other: "MachineSize") -> "MachineSize":
        """Return the sum of both sizes."""
        return MachineSize(self.cores + other.cores, self.memory_mib + other.memory_mib)

    def __sub__(self, other: "MachineSize") -> "MachineSize":
        """Return the difference of both sizes."""
        return MachineSize(self.cores - other.cores, self.memory_mib - other.memory_mib)

    def __mul__(self, count: int) -> "MachineSize":
        """Return the size of `count` machines together."""
        return MachineSize(self.cores * count, self.memory_mib * count)


def parse_instance_type(instance_type: str) -> MachineSize:
    """Return the size of one instance: ml.m5.2xlarge has 8 vCPUs and 32 GiB.

    The memory is computed from the vCPUs and the family. A metal instance counts as 96 vCPUs, an unknown size as 2.
    """
    family, _, size = instance_type.removeprefix("ml.").partition(".")
    cores = _parse_cores(size)
    memory_gib = cores * GIB_PER_VCPU.get(family[:1], UNKNOWN_GIB_PER_VCPU)
    # An instance of size medium has the vCPUs of size large, and half of its memory.
    return MachineSize(cores, (memory_gib // 2 if size == "medium" else memory_gib) * 1024)


def _parse_cores(size: str) -> int:
    if match := re.fullmatch(r"(\d+)xlarge", size):
        return 4 * int(match.group(1))
    return {"xlarge": 4, "large": 2, "medium": 2, "metal": 96}.get(size, 2)
