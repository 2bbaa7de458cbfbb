"""Define what a workload says about instances: how long it takes on them, or why it cannot run there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from pipelines.instances.catalogue import Instance

Basis = Literal["formula", "measured", "scaled"]
"""What a prediction comes from: a formula, past jobs on the same machines, or past jobs on other machines. Each has
errors of its own, and is corrected by its own."""
BASES: tuple[Basis, ...] = get_args(Basis)
Reason = Literal[
    "memory", "accelerator", "neuron", "architecture", "unknown", "price", "spot", "run", "deadline", "budget"
]
"""Kind of reason for which instances are left out."""


@dataclass(frozen=True)
class Candidate:
    """A number of instances of one type."""

    instance: Instance
    count: int

    @property
    def devices(self) -> int:
        """Number of accelerators of all instances."""
        return (self.instance.accelerators or 0) * self.count

    @property
    def label(self) -> str:
        """Short text: "2 x ml.g5.xlarge"."""
        return format_machines(self.instance.name, self.count)


@dataclass(frozen=True)
class Estimate:
    """The time that a workload takes on a candidate, seconds.

    Attributes:
        seconds: most likely time.
        low_s: time if all goes well.
        high_s: time if all goes badly.
        basis: what the time comes from.
        setup: how it runs: sharding, batch.
        scaled_from: instance type from whose past jobs the time was scaled; empty if none was.
    """

    seconds: float
    low_s: float
    high_s: float
    basis: Basis = "formula"
    setup: str = ""
    scaled_from: str = ""


@dataclass(frozen=True)
class Misfit:
    """Why a workload cannot run on a candidate.

    Attributes:
        kind: kind of the reason.
        reason: a sentence that says what would help.
        fitting_count: number of instances that would fit; None if that is not known.
    """

    kind: Reason
    reason: str
    fitting_count: int | None = None


class Workload(Protocol):
    """A training that is planned."""

    @property
    def model(self) -> str:
        """Name of the model, by which past jobs are found; empty if there is none."""

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers of instances that are possible."""

    @property
    def is_neuron(self) -> bool:
        """Whether it is known that the training has the AWS Neuron SDK, so that AWS's own accelerators are possible."""

    def describe(self) -> str:
        """Return a sentence that describes the workload."""

    def estimate(self, candidate: Candidate) -> Estimate | Misfit:
        """Return how long the workload takes, or why it cannot run there."""


def format_machines(instance_type: str, count: int) -> str:
    """Format a number of instances: "2 x ml.g5.xlarge", or only the type for one."""
    return instance_type if count == 1 else f"{count} x {instance_type}"
