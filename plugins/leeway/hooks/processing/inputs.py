"""Build the inputs of a processing job, and compare them with the inputs of a job that exists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leeway.hooks.sagemaker.named_jobs import NamedJobs, contains

INPUT_MEMBERS = ("AppSpecification", "ProcessingInputs")
"""Parts of the request that decide what features the job builds."""
CONTAINER_FOLDER = "/opt/ml/processing"
"""Folder of inputs and outputs in the job's container."""
ARCHIVE = "preprocess.pyz"
"""Name of the file with the code of the job."""


class ProcessingJobs(NamedJobs):
    """The processing jobs of one task."""

    kind = "processing"


def build_inputs(image: str, code: str, window: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Build the `INPUT_MEMBERS` of a request. Equal inputs give equal features.

    Args:
        image: address of the container's image.
        code: s3:// prefix that contains `ARCHIVE`.
        window: s3:// prefix of the packed window.
        arguments: options of the step `preprocess`.
    """
    return {
        "AppSpecification": {
            "ImageUri": image,
            "ContainerEntrypoint": ["python3", f"{CONTAINER_FOLDER}/input/code/{ARCHIVE}"],
            "ContainerArguments": list(arguments),
        },
        "ProcessingInputs": [_build_input("code", code), _build_input("window", window)],
    }


def build_output(uri: str) -> dict[str, Any]:
    """Build the part of a request that says where the job writes the features and its result.

    Args:
        uri: s3:// prefix of the output.
    """
    target = {"S3Uri": uri, "LocalPath": f"{CONTAINER_FOLDER}/output", "S3UploadMode": "EndOfJob"}
    return {"ProcessingOutputConfig": {"Outputs": [{"OutputName": "output", "S3Output": target}]}}


def get_output_uri(job: Mapping[str, Any]) -> str:
    """Return the s3:// prefix of a described job's output, without a slash at its end."""
    return str(job["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"]).rstrip("/")


def has_same_inputs(job: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    """Return whether a described job has the inputs of the request."""
    return all(contains(job.get(key), request[key]) for key in INPUT_MEMBERS)


def _build_input(name: str, uri: str) -> dict[str, Any]:
    folder = f"{CONTAINER_FOLDER}/input/{name}"
    source = {"S3Uri": uri, "LocalPath": folder, "S3DataType": "S3Prefix", "S3InputMode": "File"}
    return {"InputName": name, "S3Input": source}
