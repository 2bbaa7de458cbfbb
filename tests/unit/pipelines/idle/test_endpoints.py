"""Test the sweep of endpoints with clients that only have SageMaker's answers: what drydock does not have, too."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from pipelines.errors import InvalidError
from pipelines.idle.endpoints import EndpointKind
from pipelines.idle.sweep import sweep
from pipelines.serving.undeployment import Endpoints

NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
OURS, KEPT = {"leeway:endpoint": "ours"}, {"leeway:endpoint": "ours", "leeway:keep": ""}
INSTANCES = {"VariantName": "v", "ModelName": "m", "InstanceType": "ml.m5.large", "InitialInstanceCount": 1}
SERVERLESS = {"VariantName": "v", "ModelName": "m", "ServerlessConfig": {"MemorySizeInMB": 2048, "MaxConcurrency": 5}}
PROVISIONED = {**SERVERLESS, "ServerlessConfig": {**SERVERLESS["ServerlessConfig"], "ProvisionedConcurrency": 2}}
COMPONENTS = {name: value for name, value in INSTANCES.items() if name != "ModelName"}


class SageMaker:
    """Answers as SageMaker does with one endpoint, which is two days old.

    Args:
        tags: its tags; a second list is answered from the second request on.
        variant: the variant of its configuration; None: the configuration was deleted.
        shadow: a shadow variant.
        count: number of instances of each variant.
    """

    exceptions = SimpleNamespace(ClientError=ClientError)

    def __init__(
        self,
        *tags: Mapping[str, str],
        variant: Mapping[str, Any] | None = INSTANCES,
        shadow: Mapping[str, Any] | None = None,
        count: int = 2,
    ) -> None:
        self.tags, self.count = list(tags), count
        self.config = variant and {"ProductionVariants": [variant], "ShadowProductionVariants": [shadow] * bool(shadow)}

    def describe_endpoint(self, **_: str) -> dict[str, Any]:
        variants = {
            member: [{"VariantName": item["VariantName"], "CurrentInstanceCount": self.count} for item in items]
            for member, items in (self.config or {"ProductionVariants": [INSTANCES]}).items()
        }
        changed_at = NOW - dt.timedelta(days=2)
        fields = {"EndpointStatus": "InService", "EndpointConfigName": "c", "LastModifiedTime": changed_at}
        return {"EndpointName": "e", "EndpointArn": "arn:e", **fields, **variants}

    def describe_endpoint_config(self, **_: str) -> dict[str, Any]:
        if self.config is None:
            message = "Could not find endpoint configuration 'arn:c'."
            raise ClientError({"Error": {"Code": "ValidationException", "Message": message}}, "DescribeEndpointConfig")
        return dict(self.config)

    def get_paginator(self, operation: str) -> SimpleNamespace:
        pages = {"list_endpoints": self._list_endpoints, "list_tags": self._list_tags}
        return SimpleNamespace(paginate=pages[operation])

    def _list_endpoints(self, **_: str) -> Iterator[dict[str, Any]]:
        yield {"Endpoints": [{"EndpointName": "e"}]}

    def _list_tags(self, **_: str) -> Iterator[dict[str, Any]]:
        tags = self.tags.pop(0) if len(self.tags) > 1 else self.tags[0]
        yield {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}


class FakeEndpoints(Endpoints):
    """The endpoints of an account. It records which ones were deleted.

    Args:
        sagemaker: the client of SageMaker.
        requests: number of requests that CloudWatch has counted.
    """

    def __init__(self, sagemaker: SageMaker, requests: float = 0.0) -> None:
        self.sagemaker = sagemaker
        points = [{"Sum": requests}] if requests else []
        self.cloudwatch = SimpleNamespace(get_metric_statistics=lambda **_: {"Datapoints": points})
        self.deleted: list[str] = []

    def undeploy(self, name: str, why: str, model: str = "") -> bool:
        self.deleted.append(name)
        return True


def run_sweep(endpoints: Endpoints, stop: Sequence[str] = ("endpoint",)) -> list[tuple[str, str, float | None]]:
    findings = sweep([EndpointKind(endpoints)], dt.timedelta(days=1), stop, "us-east-1", lambda: NOW)
    return [(item.label, item.outcome, item.usd_month and round(item.usd_month, 2)) for item in findings]


@pytest.mark.parametrize(
    ("tags", "outcome", "deleted"),
    [({}, "exempt", []), ({"team": "x"}, "exempt", []), (KEPT, "exempt", []), (OURS, "stopped", ["e"])],
    ids=["without tags", "of another team", "kept", "control: of Leeway"],
)
def test_an_endpoint_of_others_is_reported_with_its_cost_and_never_deleted(
    tags: dict[str, str], outcome: str, deleted: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    endpoints = FakeEndpoints(SageMaker(tags))
    assert run_sweep(endpoints) == [("endpoint e", outcome, 2 * 0.115 * 730)]
    assert endpoints.deleted == deleted
    reason = "it has the tag leeway:keep" if tags is KEPT else "Leeway did not create it"
    line = f"endpoint e (2 x ml.m5.large, 167.90 USD a month): nobody used it for 24 h; it stays, because {reason}"
    assert (line in caplog.text) is (outcome == "exempt")


def test_an_endpoint_of_others_that_is_called_is_not_reported() -> None:
    assert run_sweep(FakeEndpoints(SageMaker({}), requests=1.0)) == []


def test_an_endpoint_that_loses_its_tag_before_it_is_deleted_stays() -> None:
    endpoints = FakeEndpoints(SageMaker(OURS, {}))
    assert run_sweep(endpoints) == [("endpoint e", "exempt", 167.9)]
    assert endpoints.deleted == []


@pytest.mark.parametrize(
    ("sagemaker", "outcome", "usd_month"),
    [
        (SageMaker({}, shadow={**INSTANCES, "VariantName": "s", "InstanceType": "ml.m5.xlarge"}), "exempt", 503.7),
        (SageMaker({}, count=0), "exempt", 0.0),
        (SageMaker({}, variant=SERVERLESS, count=0), "exempt", 0.0),
        (SageMaker({}, variant=PROVISIONED, count=0), "exempt", None),
        (SageMaker({}, variant=COMPONENTS), "unknown", 167.9),
        (SageMaker({}, variant=None), "unknown", None),
    ],
    ids=["with a shadow", "scaled to zero", "serverless", "provisioned", "inference components", "without config"],
)
def test_what_is_not_known_of_an_endpoint_of_others_is_not_invented(
    sagemaker: SageMaker, outcome: str, usd_month: float | None
) -> None:
    """Requests to inference components are counted elsewhere; without its configuration, its types are not known."""
    endpoints = FakeEndpoints(sagemaker)
    assert run_sweep(endpoints) == [("endpoint e", outcome, usd_month)]
    assert endpoints.deleted == []


def test_inference_components_without_a_request_are_no_reason_to_delete_an_endpoint_of_leeway() -> None:
    endpoints = FakeEndpoints(SageMaker(OURS, variant=COMPONENTS))
    assert run_sweep(endpoints) == [("endpoint e", "unknown", 167.9)]
    assert endpoints.deleted == []


def test_an_unreadable_table_of_prices_is_reported_before_anything_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result of a sweep that fails after a deletion would lack what was deleted."""

    def fail(*_: object) -> None:
        raise InvalidError("The table of prices is not valid.", "Repair it.")

    monkeypatch.setattr("pipelines.idle.sweep.find_price", fail)
    endpoints = FakeEndpoints(SageMaker(OURS))
    with pytest.raises(InvalidError, match="The table of prices is not valid"):
        run_sweep(endpoints)
    assert endpoints.deleted == []
