"""Find and delete endpoints that Leeway created and that nobody calls."""

from __future__ import annotations

import datetime as dt

from pipelines.costs.prices import Component
from pipelines.idle.kinds import Resource
from pipelines.idle.names import KindName
from pipelines.serving.undeployment import Endpoint, Endpoints


class EndpointKind:
    """Lists, checks and deletes the endpoints that Leeway created. An endpoint is in use if it gets requests.

    Args:
        endpoints: the endpoints of the region.
    """

    name: KindName = "endpoint"
    component: Component = "Hosting"

    def __init__(self, endpoints: Endpoints) -> None:
        self.endpoints = endpoints

    def list_names(self) -> list[str]:
        """Return the names of the endpoints that Leeway created and that are InService, sorted."""
        return [endpoint.name for endpoint in self.endpoints.list_created_by_leeway()]

    def find(self, name: str) -> Resource | None:
        """Return an endpoint; None if it is not InService."""
        endpoint = self.endpoints.find(name)
        if endpoint is None or endpoint.description["EndpointStatus"] != "InService":
            return None
        description = endpoint.description
        instances = self.endpoints.count_instances(endpoint)
        return Resource(
            name, description["EndpointArn"], instances, description["LastModifiedTime"], endpoint.tags, description
        )

    def is_used(self, resource: Resource, begin: dt.datetime, now: dt.datetime) -> bool | None:
        """Return whether an endpoint got a request."""
        endpoint = Endpoint(resource.name, resource.tags, resource.description)
        return self.endpoints.count_invocations(endpoint, begin, now) > 0

    def stop(self, resource: Resource, why: str) -> bool:
        """Delete an endpoint with its configurations, models and alarms; record the deletion in the model's history."""
        return self.endpoints.undeploy(resource.name, why)
