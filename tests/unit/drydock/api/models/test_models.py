"""Test which models are refused, and how models are listed."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from moto.sagemaker.exceptions import AWSValidationException

from drydock.api.endpoints_backend import EndpointsBackend
from drydock.api.listing import NEWEST_FIRST, list_page
from drydock.api.models.responses import ListedModel
from drydock.api.validation import validate_request

CONTAINER = {"Image": "image", "ModelDataUrl": "s3://bucket/model.tar.gz"}
SOURCE = {"S3DataSource": {"S3Uri": "s3://b/m", "S3DataType": "S3Object", "CompressionType": "Gzip"}}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"primary_container": None}, "A model must have PrimaryContainer or Containers."),
        ({"containers": [CONTAINER]}, "A model must have either PrimaryContainer or Containers, not both."),
        ({"primary_container": {"ModelDataUrl": "s3://b/m"}}, "A container must have Image or ModelPackageName."),
        ({"primary_container": None, "containers": [{}]}, "A model must have PrimaryContainer or Containers."),
        (
            {"primary_container": {**CONTAINER, "ModelDataSource": SOURCE}},
            "A container must have either ModelDataUrl or ModelDataSource, not both.",
        ),
    ],
)
def test_model_without_one_kind_of_containers_is_refused(
    backend: EndpointsBackend, create_model: Callable[..., Any], fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(AWSValidationException) as error:
        create_model(backend, "wrong", **fields)
    assert error.value.message == message
    assert [model.model_name for model in backend.list_models()] == ["model"]
    create_model(backend, "right", primary_container=None, containers=[CONTAINER])


@pytest.mark.parametrize(
    ("fields", "member"),
    [
        ({"ExecutionRoleArn": "x"}, "executionRoleArn"),
        ({"PrimaryContainer": {"Image": "image", "ModelDataUrl": "http://foo"}}, "primaryContainer.modelDataUrl"),
        ({"PrimaryContainer": {"Image": "an image"}}, "primaryContainer.image"),
        ({"ModelName": "a_b"}, "modelName"),
    ],
)
def test_request_with_a_wrong_member_names_it(fields: dict[str, Any], member: str) -> None:
    request = {"ModelName": "m", "ExecutionRoleArn": "arn:aws:iam::123456789012:role/r", "PrimaryContainer": CONTAINER}
    assert validate_request("CreateModel", request) == request
    with pytest.raises(AWSValidationException, match=f"at '{member}' failed to satisfy constraint"):
        validate_request("CreateModel", request | fields)


def test_model_data_that_are_not_in_s3_are_refused_when_a_configuration_uses_them(
    backend: EndpointsBackend, create_model: Callable[..., Any]
) -> None:
    create_model(backend, "web", primary_container={**CONTAINER, "ModelDataUrl": "https://host/model.tar.gz"})
    with pytest.raises(AWSValidationException) as error:
        backend.find_container("web")
    assert error.value.message == "ModelDataUrl of model web: https://host/model.tar.gz is not an s3:// URI."


def test_models_are_filtered_sorted_and_split_into_pages(
    backend: EndpointsBackend, create_model: Callable[..., Any]
) -> None:
    for number, name in enumerate(("flights-1", "boats-1", "flights-2"), 1):
        model = create_model(backend, name)
        model.creation_time += timedelta(seconds=number)

    def list_names(**request: Any) -> list[str]:
        models = [ListedModel(model) for model in backend.list_models()]
        names: list[str] = []
        request = NEWEST_FIRST | request
        while True:
            page = list_page(models, request, "Models")
            names += [item["ModelName"] for item in page["Models"]]
            if "NextToken" not in page:
                return names
            request["NextToken"] = page["NextToken"]

    assert list_names() == ["flights-2", "boats-1", "flights-1", "model"]
    assert list_names(MaxResults=1) == list_names()
    assert list_names(NameContains="flights") == ["flights-2", "flights-1"]
    assert list_names(SortBy="Name", SortOrder="Ascending", MaxResults=2) == [
        *("boats-1", "flights-1", "flights-2", "model")
    ]
    boats = next(model for model in backend.list_models() if model.model_name == "boats-1")
    assert list_names(CreationTimeAfter=boats.creation_time.isoformat() + "Z") == ["flights-2"]
