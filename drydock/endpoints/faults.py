"""Make a variant of an endpoint answer with errors or slowly, so that a rollback can be tested."""

import random
import time
from dataclasses import dataclass
from fnmatch import fnmatchcase

from drydock.endpoints.instances.connection_pool import ModelResponse

FAILURE = b'{"error": "drydock makes this variant fail, as its command `variant` requested"}'
"""Body of the error response to a request that fails because of a fault."""


@dataclass(frozen=True)
class VariantFault:
    """A fault of a variant: its answers fail or slow down.

    Attributes:
        variant: VariantName; "" for every variant of the endpoint.
        config_name: Name of the endpoint configuration that has the fault, or a pattern of names, such as
            `flights-2-*`; "" for any. During an update, it says whether the fault is in the old or the new
            configuration: both usually have variants of the same names.
        error_rate: Share of the requests that fail, from 0 to 1.
        error_status: HTTP status of these failures.
        latency_s: Seconds by which each answer is delayed.
        ends_at: When the fault ends, in seconds of `time.monotonic`.
    """

    variant: str
    config_name: str
    error_rate: float
    error_status: int
    latency_s: float
    ends_at: float

    def matches(self, config_name: str) -> bool:
        """Return whether the fault applies to a configuration. The variant is not compared."""
        return fnmatchcase(config_name, self.config_name or "*")


class VariantFaults:
    """The faults of one endpoint. A new fault replaces an earlier one of the same variant and configuration."""

    def __init__(self) -> None:
        self._faults: dict[tuple[str, str], VariantFault] = {}

    def add(self, fault: VariantFault) -> None:
        """Add a fault, which begins at once."""
        self._faults = {**self._faults, (fault.variant, fault.config_name): fault}

    def apply(self, variant: str, config_name: str) -> ModelResponse | None:
        """Delay a request to a variant by its faults. Return the error response if it must fail, else None."""
        for fault in self._faults.values():
            is_match = fault.variant in ("", variant) and fault.matches(config_name)
            if not is_match or time.monotonic() > fault.ends_at:
                continue
            time.sleep(fault.latency_s)
            if random.random() < fault.error_rate:  # noqa: S311  no secret
                return ModelResponse(fault.error_status, FAILURE, "application/json")
        return None
