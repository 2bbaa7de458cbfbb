"""Know how many GPUs an instance type has: 100 percent of a job's GPU metrics is one of them."""

from __future__ import annotations

ONE_GPU = ("g4dn", "g5", "g6", "g6e", "gr6")
"""Families whose types have one GPU, except for those in `COUNTS`."""
COUNTS = {
    **{"g4dn.12xlarge": 4, "g4dn.metal": 8, "g5.12xlarge": 4, "g5.24xlarge": 4, "g5.48xlarge": 8},
    **{"g6.12xlarge": 4, "g6.24xlarge": 4, "g6.48xlarge": 8, "g6e.12xlarge": 4, "g6e.24xlarge": 4, "g6e.48xlarge": 8},
    **{"p2.xlarge": 1, "p2.8xlarge": 8, "p2.16xlarge": 16},
    **{"p3.2xlarge": 1, "p3.8xlarge": 4, "p3.16xlarge": 8, "p3dn.24xlarge": 8},
    **{"p4d.24xlarge": 8, "p4de.24xlarge": 8, "p5.4xlarge": 1, "p5.48xlarge": 8, "p5e.48xlarge": 8, "p5en.48xlarge": 8},
    **{"p6-b200.48xlarge": 8, "p6-b300.48xlarge": 8},
}
"""Type without `ml.` to its number of GPUs. A test compares it with AWS's list, which moto has."""


def find_gpu_count(instance_type: str) -> int | None:
    """Return the number of GPUs of a type such as ml.g5.xlarge; None if it has none, or it is not known."""
    name = instance_type.removeprefix("ml.")
    return COUNTS.get(name, 1 if name.partition(".")[0] in ONE_GPU else None)
