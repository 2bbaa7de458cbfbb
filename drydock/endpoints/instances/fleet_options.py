"""Options of a fleet of instances, and the errors with which it refuses a request."""

from collections.abc import Callable
from dataclasses import dataclass

from drydock.endpoints.instances.instance import Instance
from drydock.endpoints.records import Variant
from drydock.errors import DrydockError

CreateInstance = Callable[[Variant, str], Instance]


class FleetStopped(DrydockError):
    """The instances were stopped, so they answer no request any more."""


class VariantBusy(DrydockError):
    """A serverless variant already answers MaxConcurrency requests. A retry can help."""


@dataclass(frozen=True)
class FleetOptions:
    """The options with which the instances of a fleet are started and stopped.

    Attributes:
        create_instance: Creates an instance, given its variant and the name of the instance.
        on_restart: Called after an instance's process has ended, before it is started again.
        on_cold_start: Called with the name of a serverless variant and the seconds that a cold start took.
        idle_s: Seconds without a request after which an instance of a serverless variant is stopped.
        max_processes: Largest number of instances of a serverless variant.
    """

    create_instance: CreateInstance
    on_restart: Callable[[], None]
    on_cold_start: Callable[[str, float], None]
    idle_s: float
    max_processes: int
