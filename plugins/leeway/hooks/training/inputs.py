"""Build the inputs of a training job, and compare them with the inputs of a job that exists."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from leeway.hooks.sagemaker.named_jobs import NamedJobs, contains

INPUT_MEMBERS = ("AlgorithmSpecification", "HyperParameters", "InputDataConfig")
"""Parts of the request that decide what model the job trains."""


class TrainingJobs(NamedJobs):
    """The training jobs of one task."""

    kind = "training"


def build_inputs(
    image: str,
    hyperparameters: Mapping[str, Any],
    code: str,
    program: str,
    channels: Mapping[str, str],
    sharded_channels: Collection[str] = (),
) -> dict[str, Any]:
    """Build the `INPUT_MEMBERS` of a request.

    Equal inputs, on the same number of instances, give equal models: see `has_same_inputs`.

    Args:
        image: address of the training image.
        hyperparameters: hyperparameters of the script, name to value.
        code: s3:// address of sourcedir.tar.gz.
        program: name of the script in sourcedir.tar.gz.
        channels: channel name to s3:// prefix.
        sharded_channels: names of the channels whose objects are divided among the hosts.
    """
    script = {"sagemaker_program": program, "sagemaker_submit_directory": code}
    return {
        "AlgorithmSpecification": {"TrainingImage": image, "TrainingInputMode": "File"},
        "HyperParameters": {**{name: str(value) for name, value in sorted(hyperparameters.items())}, **script},
        "InputDataConfig": [
            _build_channel(name, uri, is_sharded=name in sharded_channels) for name, uri in sorted(channels.items())
        ],
    }


def has_same_inputs(job: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    """Return whether a described job has the inputs of the request, and the same number of instances.

    With another number of instances, sums are added in another order, so the model may differ in its last digits. But
    the folder of checkpoints does not depend on this number, so a job with another number may resume from them.
    """
    if job.get("ResourceConfig", {}).get("InstanceCount") != request["ResourceConfig"].get("InstanceCount"):
        return False
    if job.get("HyperParameters") != request["HyperParameters"]:
        return False
    return all(contains(job.get(key), request[key]) for key in ("InputDataConfig", "AlgorithmSpecification"))


def _build_channel(name: str, uri: str, *, is_sharded: bool) -> dict[str, Any]:
    distribution = "ShardedByS3Key" if is_sharded else "FullyReplicated"
    source = {"S3DataType": "S3Prefix", "S3Uri": uri, "S3DataDistributionType": distribution}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}, "InputMode": "File"}
