"""Test the configuration of an endpoint with a shadow variant, and the tags by which a later try finds a shadow."""

from __future__ import annotations

from typing import Any

import boto3
from leeway.hooks.endpoint import shadow_requests
from leeway.hooks.endpoint.requests import build_deployment_tag
from leeway.hooks.endpoint.shadow_requests import ShadowRecord
from leeway.hooks.sagemaker.request_checks import check_shape

VARIANT = {
    "VariantName": "AllTraffic",
    "ModelName": "served",
    "InstanceType": "ml.m5.large",
    "InitialInstanceCount": 2,
    "InitialVariantWeight": 1.0,
}
BASE = {"EndpointConfigName": "flights-1-abc", "ProductionVariants": [VARIANT]}


def build(endpoint: str = "flights", base: dict[str, Any] = BASE, model_name: str = "new") -> dict[str, Any]:
    return shadow_requests.build_shadow_request(endpoint, "2", model_name, base, "s3://b/leeway/capture/1", [])


def test_shadow_has_the_instances_and_the_weight_of_the_production_variant() -> None:
    request = build()
    assert request["ProductionVariants"] == [VARIANT]
    assert request["ShadowProductionVariants"] == [{**VARIANT, "VariantName": "shadow-2", "ModelName": "new"}]
    assert {"Key": "leeway:shadow-base", "Value": "flights-1-abc"} in request["Tags"]
    model = boto3.client("sagemaker", region_name="us-east-1").meta.service_model
    for endpoint in ("flights", "e" * 41):
        check_shape(build(endpoint), model.operation_model("CreateEndpointConfig").input_shape)
    update = shadow_requests.build_update_request("flights", build()["EndpointConfigName"])
    check_shape(update, model.operation_model("UpdateEndpoint").input_shape)


def test_name_is_derived_from_the_content() -> None:
    name = build()["EndpointConfigName"]
    assert name == build()["EndpointConfigName"] and name.startswith("flights-2-")
    more = {**BASE, "ProductionVariants": [{**VARIANT, "InitialInstanceCount": 3}]}
    assert len({name, build(base=more)["EndpointConfigName"], build(model_name="other")["EndpointConfigName"]}) == 3


def test_all_requests_are_captured_where_the_endpoint_captures_already() -> None:
    assert build()["DataCaptureConfig"]["DestinationS3Uri"] == "s3://b/leeway/capture/1"
    own_capture = {"DestinationS3Uri": "s3://own", "InitialSamplingPercentage": 10, "EnableCapture": True}
    capture = build(base={**BASE, "DataCaptureConfig": own_capture})["DataCaptureConfig"]
    assert (capture["DestinationS3Uri"], capture["InitialSamplingPercentage"]) == ("s3://own", 100)


def test_a_record_is_read_as_it_was_written_and_fits_into_a_tag() -> None:
    task = {"dag_id": "d" * 250, "run_id": "manual__2026-03-01T10:00:00+00:00", "task_id": "shadow", "map_index": -1}
    variant = shadow_requests.build_variant_name("9" * 80)
    time = "2026-03-01T10:00:00.123456+00:00"
    record = ShadowRecord(build_deployment_tag(variant, task), time, time, "undecided", "12")
    assert ShadowRecord.parse(record.format()) == record and len(record.format()) <= 256 and len(variant) == 63
    assert ShadowRecord.parse(ShadowRecord("task", time).format()) == ShadowRecord("task", time, "")
    assert ShadowRecord.parse(f"task@{time}@") == ShadowRecord("task", time), "a record of an earlier version"
    assert ShadowRecord.parse("") is None and ShadowRecord.parse("made by hand") is None
