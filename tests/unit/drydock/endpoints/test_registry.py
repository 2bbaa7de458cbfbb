"""Test the endpoints that an earlier server has stored."""

from pathlib import Path
from typing import Any, cast

import pytest

from drydock.endpoints.records import EndpointRecord, EndpointStatus, Plan, Variant
from drydock.endpoints.registry import Endpoints
from drydock.jobs.record import get_now
from drydock.resources import Owner, Resources
from drydock.settings import Settings
from drydock.store import Store

OWNER = Owner("123456789012", "us-east-1")


def load(folder: Path, status: EndpointStatus) -> Any:
    """Store an endpoint, and return it as the next server loads it, before it starts anything."""
    store, variant = Store(folder / "db"), Variant("v", {"Image": "i"}, "ml.m5.large", 1, 1.0)
    record = EndpointRecord("e", "arn", Plan("c", [variant]), get_now(), get_now(), status)
    Resources(store, "endpoint").write(OWNER, "e", record.dump())
    settings = Settings(folder, "http://127.0.0.1:1", 1, 1)
    return Endpoints(store, settings, cast(Any, None), cast(Any, None), lambda *_: None).get_endpoints(OWNER)["e"]


@pytest.mark.parametrize("status", ["InService", "Updating", "RollingBack"])
def test_requests_wait_for_the_instances_of_a_stored_endpoint(tmp_path: Path, status: str) -> None:
    endpoint = load(tmp_path, EndpointStatus(status))
    assert endpoint.fleet is not None and endpoint.record.plan.variants == endpoint.fleet.plan.variants


@pytest.mark.parametrize("status", ["Creating", "Failed", "Deleting"])
def test_no_request_waits_for_an_endpoint_that_does_not_serve(tmp_path: Path, status: str) -> None:
    assert load(tmp_path, EndpointStatus(status)).fleet is None
