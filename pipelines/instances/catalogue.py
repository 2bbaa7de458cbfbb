"""Read the table of instance types in instances.json, which `tools/instance_catalogue.py` writes.

docs/reference/instances.md describes the table.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from pipelines.errors import SpecError
from pipelines.instances.accelerators import ACCELERATORS, UNKNOWN_ACCELERATOR, Accelerator

InstanceUse = Literal["training", "hosting", "processing", "transform"]
"""What SageMaker uses an instance type for."""
USES: tuple[InstanceUse, ...] = get_args(InstanceUse)
FILE = Path(__file__).with_name("instances.json")
"""File of the table."""
RETIRED = {
    "ml.p2.xlarge": "ml.g4dn.xlarge",
    "ml.p2.8xlarge": "ml.g5.48xlarge",
    "ml.p2.16xlarge": "ml.p4d.24xlarge",
    "ml.p3.2xlarge": "ml.g5.2xlarge",
    "ml.p3.8xlarge": "ml.g5.12xlarge",
    "ml.p3.16xlarge": "ml.p4d.24xlarge",
}
"""Maps each retired type, which SageMaker's API still names, to the type to use instead. EC2 does not describe them any
more.

The successor is Leeway's choice: a newer type with as many GPUs; for 16 GPUs, one with 8 faster ones."""
GIB = 2**30


@dataclass(frozen=True)
class Instance:
    """An instance type of SageMaker. A figure that is not known is None.

    Attributes:
        name: name, such as ml.g5.xlarge.
        uses: uses for which SageMaker offers it.
        vcpus: number of vCPUs.
        memory_gib: memory, GiB.
        accelerator: name of its GPUs or other accelerators; None if it has none, or if that is not known.
        accelerators: number of accelerators; None if it is not known.
        accelerator_memory_gib: memory of one accelerator, GiB.
        network_gbit_s: bandwidth that the network sustains, Gbit/s.
        network_peak_gbit_s: bandwidth of the network in a burst, Gbit/s.
        efa_interfaces: number of interfaces of the Elastic Fabric Adapter; 0 if it has none.
        disk_gb: size of local disks, GB; 0 if there are only volumes over the network.
        architecture: x86_64 or arm64.
        has_ec2_spot: whether EC2 offers it as spot. SageMaker's managed spot may differ.
    """

    name: str
    uses: tuple[InstanceUse, ...]
    vcpus: int | None = None
    memory_gib: float | None = None
    accelerator: str | None = None
    accelerators: int | None = None
    accelerator_memory_gib: float | None = None
    network_gbit_s: float | None = None
    network_peak_gbit_s: float | None = None
    efa_interfaces: int | None = None
    disk_gb: int | None = None
    architecture: str | None = None
    has_ec2_spot: bool | None = None

    @property
    def device(self) -> Accelerator | None:
        """Figures of one accelerator; None if the instance has none, or if that is not known."""
        return ACCELERATORS.get(self.accelerator, UNKNOWN_ACCELERATOR) if self.accelerator else None

    @property
    def link_gb_s(self) -> float | None:
        """Bandwidth of NVLink or NeuronLink between accelerators of the instance, both directions together, GB/s.

        None if there is no such link, or if that is not known.
        """
        return self.device.link_gb_s if self.device and (self.accelerators or 0) > 1 else None

    @property
    def family(self) -> str:
        """Family, such as g5."""
        return get_family(self.name)

    @property
    def is_burstable(self) -> bool:
        """Whether its CPU is slowed down after some minutes of full load, as that of t3 is."""
        return re.fullmatch(r"t\d\w*", self.family) is not None

    @property
    def is_known(self) -> bool:
        """Whether the table has the vCPUs and the memory of the instance type."""
        return self.vcpus is not None and self.memory_gib is not None

    def describe(self) -> str:
        """Describe the size in a few words: "8 vCPUs, 32 GiB, 1 x A10G with 22 GiB"."""
        if not self.is_known:
            return "size not known"
        devices = ""
        if self.accelerator and self.accelerator_memory_gib is not None:
            devices = f", {self.accelerators} x {self.accelerator} with {self.accelerator_memory_gib:.0f} GiB"
        return f"{self.vcpus} vCPUs, {self.memory_gib:g} GiB{devices}"


@dataclass(frozen=True)
class Size:
    """The size of an instance type whose vCPUs and memory are known.

    Attributes:
        family: family, such as g5.
        vcpus: number of vCPUs.
        memory_gib: memory, GiB.
        gpus: number of GPUs, without AWS's own accelerators.
        is_accelerated: whether it has GPUs or other accelerators.
    """

    family: str
    vcpus: int
    memory_gib: float
    gpus: int
    is_accelerated: bool


def get_family(name: str) -> str:
    """Return the family of an instance type: g5 of ml.g5.xlarge."""
    return name.removeprefix("ml.").split(".", maxsplit=1)[0]


def find_instance(name: str) -> Instance:
    """Find an instance type.

    Raises:
        SpecError: the type is retired; the message names its successor. A retry cannot help.
        SpecError: SageMaker has no such type. A retry cannot help.
    """
    refuse_retired(name)
    instance = _read_instances().get(name)
    if instance is None:
        close_names = get_close_matches(
            name, [known_name for known_name in _read_instances() if known_name not in RETIRED], 3
        )
        hint = f"Did you mean {' or '.join(close_names)}?" if close_names else "An example is ml.m5.large."
        raise SpecError(f"{name!r} is not an instance type of SageMaker (table of {read_date()}).", hint)
    return instance


def refuse_retired(name: str) -> None:
    """Refuse an instance type that is retired.

    Raises:
        SpecError: the type is retired; the message names its successor. A retry cannot help.
    """
    if name in RETIRED:
        raise SpecError(f"{name} is retired.", f"Use {RETIRED[name]}.")


def find_size(name: str) -> Size | None:
    """Return the size of an instance type; None if it is not known, or if SageMaker has no such type."""
    instance = _read_instances().get(name)
    if instance is None or instance.vcpus is None or instance.memory_gib is None:
        return None
    gpus = 0 if instance.device and instance.device.is_neuron else instance.accelerators or 0
    return Size(instance.family, instance.vcpus, instance.memory_gib, gpus, instance.accelerator is not None)


def list_instances(use: InstanceUse | None = None, patterns: Sequence[str] = ()) -> list[Instance]:
    """List the instance types that are not retired, sorted by name.

    Args:
        use: only types that SageMaker offers for this use; None: for any.
        patterns: only types that one of these patterns matches, such as ml.g5.*; all types if it is empty.

    Raises:
        SpecError: a pattern names a retired type. A retry cannot help.
        SpecError: a pattern matches no type, or the use is unknown. A retry cannot help.
    """
    if use and use not in USES:
        raise SpecError(f"use must be one of {', '.join(USES)}, not {use}.")
    instances = [instance for name, instance in _read_instances().items() if name not in RETIRED]
    for pattern in patterns:
        if not any(fnmatchcase(instance.name, pattern) for instance in instances):
            _refuse_pattern(pattern)
    return [
        instance
        for instance in instances
        if (use is None or use in instance.uses)
        and (not patterns or any(fnmatchcase(instance.name, pattern) for pattern in patterns))
    ]


def read_date() -> dt.date:
    """Return the date of the table."""
    return dt.date.fromisoformat(_read_table()["as_of"])


def read_sources() -> list[str]:
    """Return the sources of the table's figures."""
    return list(_read_table()["sources"])


def _refuse_pattern(pattern: str) -> None:
    """Raise the error about a pattern that matches no type, or only retired types."""
    retired_types = [name for name in RETIRED if fnmatchcase(name, pattern)]
    find_instance(retired_types[0] if retired_types else pattern)


@lru_cache(maxsize=1)
def _read_table() -> dict[str, Any]:
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


@lru_cache(maxsize=1)
def _read_instances() -> dict[str, Instance]:
    field_names = {field.name for field in fields(Instance)}
    rows: dict[str, dict[str, Any]] = _read_table()["instances"]
    return {
        name: Instance(name=name, **{**{key: row[key] for key in row.keys() & field_names}, "uses": tuple(row["uses"])})
        for name, row in rows.items()
    }
