"""Test that empty structures are left out of responses, and nothing else."""

import json

import pytest

from drydock.api.absent_structures import remove_absent_structures

SUBNETS = {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]}


@pytest.mark.parametrize(
    ("operation", "response", "expected"),
    [
        ("DescribeModel", {"ModelName": "m", "VpcConfig": {}}, {"ModelName": "m"}),
        ("DescribeEndpointConfig", {"DataCaptureConfig": {}, "ProductionVariants": []}, {"ProductionVariants": []}),
        ("DescribeEndpoint", {"DataCaptureConfig": {}, "EndpointName": "e"}, {"EndpointName": "e"}),
        (
            "ListTrainingJobs",
            {"TrainingJobSummaries": [{"TrainingJobName": "j", "WarmPoolStatus": {}}]},
            {"TrainingJobSummaries": [{"TrainingJobName": "j"}]},
        ),
    ],
)
def test_leaves_out_empty_structures_that_need_members(operation: str, response: object, expected: object) -> None:
    assert json.loads(remove_absent_structures(operation, json.dumps(response))) == expected


@pytest.mark.parametrize(
    "response",
    [
        {"VpcConfig": SUBNETS, "Containers": [], "EnableNetworkIsolation": False},
        # An empty map is a value, and a structure without required members may be empty.
        {"PrimaryContainer": {"Image": "image", "Environment": {}, "MultiModelConfig": {}}},
        {"UnknownMember": {}},
        {},
    ],
)
def test_keeps_everything_else(response: dict[str, object]) -> None:
    assert json.loads(remove_absent_structures("DescribeModel", json.dumps(response))) == response


def test_response_without_a_body_stays_empty() -> None:
    assert remove_absent_structures("DeleteModel", "") == ""
