"""Define a workload to plan, and its result for some instances: the time that it takes, or why it cannot run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from pipelines.instances.catalogue import Instance

Basis = Literal["formula", "measured", "sized", "scaled"]
"""What a prediction comes from: a formula, past jobs on the same machines without or with the size of their data, or
past jobs on other machines. The error of a past prediction corrects only predictions that have the same basis."""
BASES: tuple[Basis, ...] = get_args(Basis)
ExclusionKind = Literal[
    "memory",
    "accelerator",
    "neuron",
    "architecture",
    "unknown",
    "price",
    "spot",
    "run",
    "deadline",
    "budget",
    "burstable",
    "on demand",
]
"""Why instances are excluded from a recommendation; `KINDS` in report.py has the title of each."""


@dataclass(frozen=True)
class Machines:
    """A number of instances of one type."""

    instance: Instance
    count: int

    @property
    def devices(self) -> int:
        """Number of accelerators of all instances."""
        return (self.instance.accelerators or 0) * self.count

    @property
    def label(self) -> str:
        """Text such as "2 x ml.g5.xlarge"; only the type for one instance."""
        return format_machines(self.instance.name, self.count)


@dataclass(frozen=True)
class Estimate:
    """The time that a workload takes on some machines, seconds.

    Attributes:
        seconds: most likely time.
        low_s: time if all goes well.
        high_s: time if all goes badly.
        basis: what the time comes from.
        setup: how the workload runs, such as its sharding and batch size.
        scaled_from: instance type of the past jobs from which the time was scaled; empty if it was not scaled.
        extrapolation: factors that widen the lower and the upper end of the band if the amount of data is outside of
            the sizes of the past jobs. The errors of past predictions do not include this uncertainty.
        risk: what makes the time uncertain; empty if nothing is known.
    """

    seconds: float
    low_s: float
    high_s: float
    basis: Basis = "formula"
    setup: str = ""
    scaled_from: str = ""
    extrapolation: tuple[float, float] = (1.0, 1.0)
    risk: str = ""


@dataclass(frozen=True)
class Infeasibility:
    """Why a workload cannot run on some machines.

    Attributes:
        kind: kind of the reason.
        reason: the reason in words, and what would help if that is known.
        fitting_count: number of instances that would fit; None if that is not known.
    """

    kind: ExclusionKind
    reason: str
    fitting_count: int | None = None


class Workload(Protocol):
    """A training to plan."""

    @property
    def model(self) -> str:
        """Name of the model, by which past jobs are found; empty if there is none."""

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers of instances on which the training can run."""

    @property
    def is_neuron(self) -> bool:
        """Whether the training is known to use the AWS Neuron SDK, which AWS's own accelerators need."""

    def describe(self) -> str:
        """Return a sentence that describes the workload."""

    def estimate(self, machines: Machines) -> Estimate | Infeasibility:
        """Return the time that the workload takes on the machines, or why it cannot run on them."""


def format_machines(instance_type: str, count: int) -> str:
    """Format a number of instances: "2 x ml.g5.xlarge", or only the type for one."""
    return instance_type if count == 1 else f"{count} x {instance_type}"
