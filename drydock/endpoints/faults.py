"""Make a variant of an endpoint answer with errors or slowly, so that a rollback can be rehearsed."""

import random
import time
from dataclasses import dataclass
from fnmatch import fnmatchcase

from drydock.endpoints.instances.connection_pool import Answer

FAILURE = b'{"error": "drydock lets this variant fail, by its command `variant`"}'


@dataclass(frozen=True)
class VariantFault:
    """What is wrong with the answers of a variant.

    Attributes:
        variant: VariantName; "" for every variant of the endpoint.
        config_name: Only while the endpoint serves this configuration, or one whose name matches this pattern, such as
            `flights-2-*`; "" for any. During an update, the old and the new configuration usually have variants of the
            same names.
        error_rate: Share of the requests that fail, from 0 to 1.
        status: HTTP status of these failures.
        latency_s: Seconds that each answer takes longer.
        ends_at: When the fault ends, as `time.monotonic` counts.
    """

    variant: str
    config_name: str
    error_rate: float
    status: int
    latency_s: float
    ends_at: float


class VariantFaults:
    """The faults of one endpoint. A new fault replaces an earlier one of the same variant and configuration."""

    def __init__(self) -> None:
        self._faults: dict[tuple[str, str], VariantFault] = {}

    def add(self, fault: VariantFault) -> None:
        """Begin a fault."""
        self._faults = {**self._faults, (fault.variant, fault.config_name): fault}

    def apply(self, variant: str, config_name: str) -> Answer | None:
        """Wait as long as the faults of a variant say, and return the failure if the request fails."""
        for fault in self._faults.values():
            is_match = fault.variant in ("", variant) and fnmatchcase(config_name, fault.config_name or "*")
            if not is_match or time.monotonic() > fault.ends_at:
                continue
            time.sleep(fault.latency_s)
            if random.random() < fault.error_rate:  # noqa: S311  no secret
                return Answer(fault.status, FAILURE, "application/json")
        return None
