"""Answer one request to an endpoint, also while an update replaces its instances."""

from drydock.endpoints.endpoint import Endpoint
from drydock.endpoints.instances.fleet import Fleet
from drydock.endpoints.instances.fleet_options import FleetStopped
from drydock.endpoints.invocation import Invocation, InvocationResult, invoke, refuse_invocation


def serve(endpoint: Endpoint | None, request: Invocation, name: str) -> tuple[Fleet, InvocationResult]:
    """Send a request to an instance of an endpoint. Return the fleet of the instance, and the model's response.

    Args:
        endpoint: The endpoint; None if it does not exist.
        request: The request.
        name: The endpoint's name, for messages.

    Raises:
        InvocationError: The endpoint does not serve, or the request is refused.
    """
    while endpoint is not None and (fleet := endpoint.fleet) is not None:
        try:
            with fleet.count_request():
                return fleet, invoke(fleet, endpoint.faults, request, endpoint.name)
        except FleetStopped:  # an update has just ended: other instances answer
            if endpoint.fleet is fleet:
                refuse_invocation("The endpoint's instances were stopped.", 503, "ServiceUnavailable")
    refuse_invocation(f"Endpoint {name} not found.")
