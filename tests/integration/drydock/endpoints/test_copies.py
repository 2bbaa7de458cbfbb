"""Test what is copied of requests: to a shadow variant, and to S3 by data capture."""

import base64
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

CAPTURE = {"EnableCapture": True, "InitialSamplingPercentage": 100, "DestinationS3Uri": "s3://bucket/captured"}
CAPTURE |= {"CaptureOptions": [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}]}
CAPTURE |= {"CaptureContentTypeHeader": {"JsonContentTypes": ["application/json"], "CsvContentTypes": ["text/csv"]}}


def read_captured(drydock: Any, prefix: str) -> list[dict[str, Any]]:
    """Return the captured events below a prefix."""
    texts = [drydock.get(f"s3://bucket/{key}").decode() for key in drydock.list_keys(prefix)]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def create_shadowed(endpoints: Any, name: str, weight: float, **fields: Any) -> None:
    """Create an endpoint with a production variant `main` and a shadow variant `shadow`."""
    for model in ("main", "shadow"):
        endpoints.create_model(f"{name}-{model}")
    endpoints.sagemaker.create_endpoint_config(
        EndpointConfigName=name,
        ProductionVariants=[endpoints.build_variant(f"{name}-main")],
        ShadowProductionVariants=[endpoints.build_variant(f"{name}-shadow", "shadow", weight)],
        **fields,
    )
    endpoints.sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    endpoints.wait_for_status(name, "InService")


def test_shadow_gets_every_request_and_nobody_sees_or_waits_for_its_answers(endpoints: Any, drydock: Any) -> None:
    create_shadowed(endpoints, "watched", 1.0, DataCaptureConfig=CAPTURE)
    drydock.send_command("variant", endpoint="watched", variant="shadow", error_rate=1, latency_s=0.3)
    assert set(endpoints.invoke_often("watched", 10)) == {"watched-main"}
    with pytest.raises(ClientError, match=r"ValidationError.*Variant shadow not found"):
        endpoints.invoke("watched", TargetVariant="shadow")
    (shadow,) = endpoints.describe("watched")["ShadowProductionVariants"]
    assert (shadow["VariantName"], shadow["CurrentInstanceCount"]) == ("shadow", 1)
    drydock.wait_until("the copies", lambda: len(read_captured(drydock, "captured/watched/shadow/")) == 10)
    drydock.send_command("variant", endpoint="watched", variant="shadow")
    endpoints.invoke("watched", "last")

    def find_answer_of_shadow() -> bool:
        outputs = [
            event["captureData"]["endpointOutput"]["data"]
            for event in read_captured(drydock, "captured/watched/shadow/")
        ]
        return any("watched-shadow" in output and "last" in output for output in outputs)

    drydock.wait_until("its answer", find_answer_of_shadow)


def test_captured_events_have_the_form_of_sagemaker(endpoints: Any, drydock: Any) -> None:
    endpoints.create_model("seen")
    endpoints.sagemaker.create_endpoint_config(
        EndpointConfigName="seen", ProductionVariants=[endpoints.build_variant("seen")], DataCaptureConfig=CAPTURE
    )
    endpoints.sagemaker.create_endpoint(EndpointName="seen", EndpointConfigName="seen")
    summary = endpoints.wait_for_status("seen", "InService")["DataCaptureConfig"]
    assert (summary["CaptureStatus"], summary["CurrentSamplingPercentage"]) == ("Started", 100)
    endpoints.invoke("seen", "1,2", InferenceId="id-1", CustomAttributes="trace=9", Accept="application/json")
    endpoints.invoke("seen", "text", ContentType="text/plain")
    drydock.wait_until("the events", lambda: len(read_captured(drydock, "captured/seen/main/")) == 2)
    first, second = read_captured(drydock, "captured/seen/main/")
    sent = first["captureData"]["endpointInput"]
    assert sent == {"observedContentType": "text/csv", "mode": "INPUT", "data": "1,2", "encoding": "CSV"}
    answered = first["captureData"]["endpointOutput"]
    assert (answered["mode"], answered["encoding"]) == ("OUTPUT", "JSON")
    assert json.loads(answered["data"])["model"] == "seen"
    assert first["eventMetadata"]["inferenceId"] == "id-1"
    assert first["eventMetadata"]["customAttributes"] == ["trace=9"] and first["eventVersion"] == "0"
    assert base64.b64decode(second["captureData"]["endpointInput"]["data"]) == b"text"
    key = drydock.list_keys("captured/seen/main/")[0]
    assert key.count("/") == 7 and key.endswith(".jsonl")


def test_without_capture_nothing_is_written(endpoints: Any, drydock: Any) -> None:
    create_shadowed(endpoints, "unseen", 0.0, DataCaptureConfig={**CAPTURE, "EnableCapture": False})
    assert set(endpoints.invoke_often("unseen", 3)) == {"unseen-main"}
    assert endpoints.describe("unseen")["DataCaptureConfig"]["CaptureStatus"] == "Stopped"
    assert read_captured(drydock, "captured/unseen/") == []


def test_two_production_variants_with_a_shadow_are_refused(endpoints: Any) -> None:
    endpoints.ensure_endpoint("single")
    variants = [endpoints.build_variant("single-main", name) for name in "abc"]
    with pytest.raises(ClientError, match="must have one production variant and one shadow variant"):
        endpoints.sagemaker.create_endpoint_config(
            EndpointConfigName="two", ProductionVariants=variants[:2], ShadowProductionVariants=variants[2:]
        )
