"""Find endpoints that nobody calls, and delete those that Leeway created."""

from __future__ import annotations

import datetime as dt

from pipelines.costs.prices import Component
from pipelines.idle.kinds import Resource
from pipelines.idle.names import KindName
from pipelines.serving.undeployment import Endpoint, Endpoints


class EndpointKind:
    """Lists and checks all endpoints, and deletes those that Leeway created. An endpoint is in use if it gets requests.

    Idle endpoints that Leeway did not create are reported, because they cost money, too; they are never deleted.

    Args:
        endpoints: the endpoints of the region.
    """

    name: KindName = "endpoint"
    component: Component = "Hosting"

    def __init__(self, endpoints: Endpoints) -> None:
        self.endpoints = endpoints

    def list_names(self) -> list[str]:
        """Return the names of all endpoints that are InService, sorted."""
        return self.endpoints.list_names()

    def find(self, name: str) -> Resource | None:
        """Return an endpoint; None if it is not InService."""
        endpoint = self.endpoints.find(name)
        if endpoint is None or endpoint.description["EndpointStatus"] != "InService":
            return None
        return Resource(
            name=name,
            arn=endpoint.description["EndpointArn"],
            instances=self.endpoints.count_instances(endpoint),
            changed_at=endpoint.description["LastModifiedTime"],
            tags=endpoint.tags,
            description=endpoint.description,
            reason_to_keep="" if endpoint.is_created_by_leeway else "Leeway did not create it",
        )

    def is_used(self, resource: Resource, begin: dt.datetime, now: dt.datetime) -> bool | None:
        """Return whether an endpoint got a request; None if its metrics show none, but do not count all requests."""
        endpoint = Endpoint(resource.name, resource.tags, resource.description)
        if self.endpoints.count_invocations(endpoint, begin, now) > 0:
            return True
        return False if self.endpoints.are_all_requests_counted(endpoint) else None

    def stop(self, resource: Resource, why: str) -> bool:
        """Delete an endpoint with its configurations, models and alarms, and wait until it is deleted.

        The deletion is recorded in the history of the endpoint's model, if it has one. Return False if there was no
        such endpoint.
        """
        return self.endpoints.undeploy(resource.name, why)
