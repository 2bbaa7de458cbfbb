"""Processing jobs that build features: what goes into one, and what its end means for its task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leeway.hooks.sagemaker.named_jobs import NamedJobs, holds

INPUTS = ("AppSpecification", "ProcessingInputs")
"""Parts of the request that decide what features come out."""
BASE = "/opt/ml/processing"
ARCHIVE = "preprocess.pyz"


class ProcessingJobs(NamedJobs):
    """The processing jobs of one task."""

    kind = "processing"


def inputs(image: str, code: str, window: str, arguments: Sequence[str]) -> dict[str, Any]:
    """`INPUTS` of the request: the same ones give the same features.

    Args:
        image: of the container.
        code: s3:// prefix that has `ARCHIVE`.
        window: s3:// prefix of the packed window.
        arguments: of the step `preprocess`.
    """
    return {
        "AppSpecification": {
            "ImageUri": image,
            "ContainerEntrypoint": ["python3", f"{BASE}/input/code/{ARCHIVE}"],
            "ContainerArguments": list(arguments),
        },
        "ProcessingInputs": [_input("code", code), _input("window", window)],
    }


def output(uri: str) -> dict[str, Any]:
    """The part of the request that says where features and result go."""
    place = {"S3Uri": uri, "LocalPath": f"{BASE}/output", "S3UploadMode": "EndOfJob"}
    return {"ProcessingOutputConfig": {"Outputs": [{"OutputName": "output", "S3Output": place}]}}


def output_of(job: Mapping[str, Any]) -> str:
    """The s3:// prefix, without a slash at its end, where a job's output went."""
    return str(job["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"]).rstrip("/")


def is_same(there: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    """Whether a job had the inputs of the request."""
    return all(holds(there.get(key), request[key]) for key in INPUTS)


def _input(name: str, uri: str) -> dict[str, Any]:
    source = {"S3Uri": uri, "LocalPath": f"{BASE}/input/{name}", "S3DataType": "S3Prefix", "S3InputMode": "File"}
    return {"InputName": name, "S3Input": source}
