"""Compare the sizes of the instance types of a family, by AWS's naming scheme."""

from __future__ import annotations

import re
from dataclasses import dataclass

ACCELERATED = re.compile(r"(g\d|p\d|trn|inf|dl)")
"""Start of the families whose instances have GPUs or other accelerators. A smaller type may have fewer of them."""
NAMED_SIZES = {"medium": (2, 1), "large": (2, 2), "xlarge": (4, 4)}
"""Maps each size to its vCPUs, and to its memory as a multiple of that of `medium`."""


@dataclass(frozen=True)
class InstanceSize:
    """The size of an instance type."""

    family: str
    """Family, such as m5."""
    cores: int
    """Number of vCPUs."""
    memory: int
    """Memory, as a multiple of that of the size `medium` of the same family."""

    @property
    def is_accelerated(self) -> bool:
        """Whether the instance has GPUs or other accelerators."""
        return ACCELERATED.match(self.family) is not None


def parse_instance_size(instance_type: str) -> InstanceSize | None:
    """Return the size of an instance type such as ml.m5.2xlarge; None if its name does not say it."""
    match = re.fullmatch(r"ml\.([a-z0-9-]+)\.(?:(medium|large|xlarge)|(\d+)xlarge)", instance_type)
    if match is None:
        return None
    family, name, factor = match.groups()
    if name:
        return InstanceSize(family, *NAMED_SIZES[name])
    return InstanceSize(family, 4 * int(factor), 4 * int(factor))
