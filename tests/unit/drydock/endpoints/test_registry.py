"""Test the endpoints that an earlier server has stored, and the counts of their requests."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from drydock.endpoints.instances.connection_pool import ModelResponse
from drydock.endpoints.invocation import Invocation, InvocationResult
from drydock.endpoints.records import EndpointRecord, EndpointStatus, ServedConfig, Variant
from drydock.endpoints.registry import Endpoints
from drydock.jobs.record import get_now
from drydock.resources import Owner, Resources
from drydock.settings import Settings
from drydock.store import Store

OWNER = Owner("123456789012", "us-east-1")


def load(folder: Path, status: EndpointStatus) -> Any:
    """Store an endpoint, and return it as the next server loads it, before it starts anything."""
    store, variant = Store(folder / "db"), Variant("v", {"Image": "i"}, "ml.m5.large", 1, 1.0)
    record = EndpointRecord("e", "arn", ServedConfig("c", [variant]), get_now(), get_now(), status)
    Resources(store, "endpoint").write(OWNER, "e", record.dump())
    settings = Settings(folder, "http://127.0.0.1:1", 1, 1)
    return Endpoints(store, settings, cast(Any, None), cast(Any, None), lambda *_: None).get_endpoints(OWNER)["e"]


@pytest.mark.parametrize("status", ["InService", "Updating", "RollingBack"])
def test_requests_wait_for_the_instances_of_a_stored_endpoint(tmp_path: Path, status: str) -> None:
    endpoint = load(tmp_path, EndpointStatus(status))
    assert endpoint.fleet is not None and endpoint.record.plan.variants == endpoint.fleet.config.variants


@pytest.mark.parametrize("status", ["Creating", "Failed", "Deleting"])
def test_no_request_waits_for_an_endpoint_that_does_not_serve(tmp_path: Path, status: str) -> None:
    assert load(tmp_path, EndpointStatus(status)).fleet is None


@pytest.mark.parametrize("duration_s", [0.0, 3_600.0])
def test_a_captured_request_has_the_time_at_which_it_came(tmp_path: Path, duration_s: float) -> None:
    """A slow model answers later than that."""
    settings, capture = Settings(tmp_path, "http://127.0.0.1:1", 1, 1), {"EnableCapture": True}
    capture |= {"InitialSamplingPercentage": 100, "DestinationS3Uri": "s3://b/c", "CaptureOptions": []}
    endpoints = Endpoints(Store(tmp_path / "db"), settings, cast(Any, None), cast(Any, None), lambda *_: None)
    endpoint, fleet = SimpleNamespace(owner=OWNER, name="e"), SimpleNamespace(config=ServedConfig("c", [], capture))
    result = InvocationResult("v", ModelResponse(200, b"1", "text/csv"), duration_s, 1)
    begin = datetime.now(UTC).replace(microsecond=0)
    endpoints.record(cast(Any, endpoint), cast(Any, fleet), Invocation(b"1", {}), result, duration_s)
    ((line,),) = endpoints.capture._lines.values()
    requested_at = datetime.fromisoformat(json.loads(line)["eventMetadata"]["inferenceTime"])
    assert begin <= requested_at + timedelta(seconds=duration_s) <= datetime.now(UTC)


def test_the_removal_of_an_endpoint_leaves_a_new_one_of_the_same_name(tmp_path: Path) -> None:
    """moto's reset frees the name of an endpoint that waits for its last requests."""
    endpoint = load(tmp_path, EndpointStatus("Deleting"))
    settings, discarded = Settings(tmp_path, "http://127.0.0.1:1", 1, 1), []
    endpoints = Endpoints(Store(tmp_path / "other"), settings, cast(Any, None), cast(Any, None), lambda *_: None)
    endpoints.async_invocations.discard = lambda *names: discarded.append(names)
    endpoints.get_endpoints(OWNER)["e"] = SimpleNamespace(owner=OWNER, name="e")
    endpoints._delete_record(endpoint)
    assert list(endpoints.get_endpoints(OWNER)) == ["e"] and discarded == []
    endpoints._delete_record(endpoints.get_endpoints(OWNER)["e"])
    assert list(endpoints.get_endpoints(OWNER)) == [] and discarded == [(OWNER, "e")]
