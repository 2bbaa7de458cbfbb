"""Training jobs: what goes into one, and whether another had the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leeway.hooks.sagemaker.named_jobs import NamedJobs, holds

INPUTS = ("AlgorithmSpecification", "HyperParameters", "InputDataConfig")
"""Parts of the request that decide what model comes out."""


class TrainingJobs(NamedJobs):
    """The training jobs of one task."""

    kind = "training"


def inputs(
    image: str, hyperparameters: Mapping[str, Any], code: str, program: str, channels: Mapping[str, str]
) -> dict[str, Any]:
    """`INPUTS` of the request: the same ones give the same model."""
    script = {"sagemaker_program": program, "sagemaker_submit_directory": code}
    return {
        "AlgorithmSpecification": {"TrainingImage": image, "TrainingInputMode": "File"},
        "HyperParameters": {**{name: str(value) for name, value in sorted(hyperparameters.items())}, **script},
        "InputDataConfig": [_channel(name, uri) for name, uri in sorted(channels.items())],
    }


def is_same(there: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    """Whether a job had the inputs of the request."""
    if there.get("HyperParameters") != request["HyperParameters"]:
        return False
    return all(holds(there.get(key), request[key]) for key in ("InputDataConfig", "AlgorithmSpecification"))


def _channel(name: str, uri: str) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": uri, "S3DataDistributionType": "FullyReplicated"}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}, "InputMode": "File"}
