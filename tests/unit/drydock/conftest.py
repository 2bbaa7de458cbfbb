"""What the unit tests share: a request, and its job."""

from collections.abc import Callable
from typing import Any

import pytest

from drydock.job import TrainingJob


@pytest.fixture
def make_request() -> Callable[..., dict[str, Any]]:
    """Return a valid CreateTrainingJob request with the given members changed."""

    def make(**more: Any) -> dict[str, Any]:
        return {
            "TrainingJobName": "job",
            "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
            "RoleArn": "arn:aws:iam::123456789012:role/drydock",
            "HyperParameters": {
                "sagemaker_program": "train.py",
                "sagemaker_submit_directory": "s3://b/s.tar.gz",
            },
            "OutputDataConfig": {"S3OutputPath": "s3://b/output"},
            "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": 600},
            **more,
        }

    return make


@pytest.fixture
def job(make_request: Callable[..., dict[str, Any]]) -> TrainingJob:
    """A job that has just been made."""
    return TrainingJob(make_request(), "123456789012", "us-east-1", "arn:job")
