"""Build the inputs of a training job, and compare them with the inputs of a job that exists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leeway.hooks.sagemaker.named_jobs import NamedJobs, contains

INPUTS = ("AlgorithmSpecification", "HyperParameters", "InputDataConfig")
"""Parts of the request that decide what model the job trains."""


class TrainingJobs(NamedJobs):
    """The training jobs of one task."""

    kind = "training"


def build_inputs(
    image: str, hyperparameters: Mapping[str, Any], code: str, program: str, channels: Mapping[str, str]
) -> dict[str, Any]:
    """Build the `INPUTS` of a request. Equal inputs give equal models.

    Args:
        image: address of the training image.
        hyperparameters: hyperparameters of the script, name to value.
        code: s3:// address of sourcedir.tar.gz.
        program: name of the script in sourcedir.tar.gz.
        channels: channel name to s3:// prefix.
    """
    script = {"sagemaker_program": program, "sagemaker_submit_directory": code}
    return {
        "AlgorithmSpecification": {"TrainingImage": image, "TrainingInputMode": "File"},
        "HyperParameters": {**{name: str(value) for name, value in sorted(hyperparameters.items())}, **script},
        "InputDataConfig": [_build_channel(name, uri) for name, uri in sorted(channels.items())],
    }


def has_same_inputs(job: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    """Return whether a described job has the inputs of the request."""
    if job.get("HyperParameters") != request["HyperParameters"]:
        return False
    return all(contains(job.get(key), request[key]) for key in ("InputDataConfig", "AlgorithmSpecification"))


def _build_channel(name: str, uri: str) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": uri, "S3DataDistributionType": "FullyReplicated"}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}, "InputMode": "File"}
