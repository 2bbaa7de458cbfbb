"""Define the input and the result of the scheduling rules: jobs, capacities of service environments, and plans."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

NUM_INSTANCES = "NUM_INSTANCES"
"""The capacity unit that counts instances of all types. Every other unit is an instance type."""


@dataclass(frozen=True)
class QueueJob:
    """A job of a queue, waiting or running, with what the scheduling rules need of it.

    Attributes:
        id: Id of the job.
        number: Position in the order of the submissions.
        instance_type: Instance type, such as ml.m5.large.
        instances: How many instances the job takes, at least 1.
        share: The share identifier, or the name of the quota share; "" in a queue without shares.
        priority: schedulingPriority: a higher one goes first within its share.
        started_s: When the present attempt began, in seconds since 1970. Set only if the job runs.
        is_stopping: Whether the job is being stopped. It still uses its instances. True only if the job runs.
    """

    id: str
    number: int
    instance_type: str
    instances: int
    share: str = ""
    priority: int = 0
    started_s: float = 0.0
    is_stopping: bool = False


@dataclass(frozen=True)
class Start:
    """A job that must start now, and the service environment that it gets its instances from."""

    job: QueueJob
    environment: str


@dataclass(frozen=True)
class Preemption:
    """A running job that must be stopped, so that another job gets its instances."""

    job: QueueJob
    reason: str


@dataclass
class Plan:
    """The jobs of one queue that must start or be preempted now."""

    starts: list[Start] = field(default_factory=list)
    preemptions: list[Preemption] = field(default_factory=list)


class Capacity:
    """The capacity of one service environment, and how much of it the running jobs use.

    Args:
        name: Name or ARN of the environment.
        limits: The largest number of instances of each capacity unit.
        is_enabled: Whether new jobs may be placed there.
    """

    def __init__(self, name: str, limits: Mapping[str, int], is_enabled: bool = True) -> None:
        self.name, self.limits, self.is_enabled = name, dict(limits), is_enabled
        self._used = dict.fromkeys(self.limits, 0)

    def get_limit(self, instance_type: str) -> int:
        """Return the largest number of instances of a type in the environment; 0 if no unit counts the type."""
        units = self._find_units(instance_type)
        return min(self.limits[unit] for unit in units) if units else 0

    def get_free_instances(self, instance_type: str) -> int:
        """Return how many more instances of a type the environment can have now; 0 if it is disabled."""
        units = self._find_units(instance_type)
        return max(min(self.limits[unit] - self._used[unit] for unit in units), 0) if units and self.is_enabled else 0

    def reserve(self, job: QueueJob) -> None:
        """Count the instances of a job as used."""
        for unit in self._find_units(job.instance_type):
            self._used[unit] += job.instances

    def _find_units(self, instance_type: str) -> list[str]:
        return [unit for unit in (NUM_INSTANCES, instance_type) if unit in self.limits]


def find_environment(job: QueueJob, capacities: Sequence[Capacity]) -> Capacity | None:
    """Return the first of the environments that has room for a job; None if none has."""
    return next((item for item in capacities if item.get_free_instances(job.instance_type) >= job.instances), None)


def can_ever_run(job: QueueJob, capacities: Iterable[Capacity]) -> bool:
    """Return whether an environment, enabled or not, is large enough for a job, once nothing else runs in it."""
    return any(item.get_limit(job.instance_type) >= job.instances for item in capacities)


def sort_by_priority(jobs: Iterable[QueueJob]) -> list[QueueJob]:
    """Return jobs in the order in which they start within a share: by priority, highest first, then as submitted."""
    return sorted(jobs, key=lambda job: (-job.priority, job.number))
