"""Build the requests of a transform job and its model, and compare the job's inputs with those of an existing job."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from leeway.hooks.sagemaker.aws_errors import call_with_retries
from leeway.hooks.sagemaker.named_jobs import NamedJobs, contains, is_missing

CONTENT_TYPE = "application/jsonlines"
"""Content type of rows and scores; `pipelines.container.inference` reads and writes it."""
INPUT_MEMBERS = ("ModelName", "TransformInput")
"""Parts of the request that decide what scores the job computes."""
MODEL_EXISTS_TEXT = "already existing model"
"""Part of SageMaker's error if a model of this name exists."""


class TransformJobs(NamedJobs):
    """The transform jobs of one task, and their models."""

    kind = "transform"

    def ensure_model(self, request: Mapping[str, Any]) -> None:
        """Create the model of a request to CreateModel unless it exists. Idempotent: equal models have equal names."""
        try:
            self._call_model("describe", ModelName=request["ModelName"])
        except ClientError as error:
            if not is_missing(error):
                raise
            self._create_model(request)

    def _create_model(self, request: Mapping[str, Any]) -> None:
        try:
            self._call_model("create", **request)
        except ClientError as error:
            if MODEL_EXISTS_TEXT not in str(error):
                raise
            return  # another process has created the model
        self.log.info("created the model %s of %s", request["ModelName"], request["PrimaryContainer"]["ModelDataUrl"])

    def _call_model(self, verb: str, **request: Any) -> Any:
        """Call one of SageMaker's operations on a model, such as CreateModel."""
        return call_with_retries(lambda: getattr(self.hook.conn, f"{verb}_model")(**request), self.log)


def build_model_request(name: str, role: str, container: Mapping[str, Any]) -> dict[str, Any]:
    """Build the request to CreateModel. Models with the same role and container have the same name.

    Args:
        name: registered model and its version: the readable part of the model's name.
        role: ARN of the execution role.
        container: PrimaryContainer of the request.
    """
    content = json.dumps([role, container], sort_keys=True).encode()
    slug = re.sub(r"[^a-zA-Z0-9]+", "-", name).strip("-")
    return {
        "ModelName": f"{slug[:46]}-{hashlib.sha256(content).hexdigest()[:16]}".strip("-"),
        "ExecutionRoleArn": role,
        "PrimaryContainer": dict(container),
    }


def build_inputs(model_name: str, rows: str) -> dict[str, Any]:
    """Build the `INPUT_MEMBERS` of a request. Equal inputs give equal scores.

    Args:
        model_name: name of SageMaker's model.
        rows: s3:// prefix of the rows.
    """
    source = {"S3DataType": "S3Prefix", "S3Uri": rows}
    return {
        "ModelName": model_name,
        "TransformInput": {"DataSource": {"S3DataSource": source}, "ContentType": CONTENT_TYPE, "SplitType": "Line"},
    }


def build_output(uri: str) -> dict[str, Any]:
    """Build the part of a request that says where the job writes the scores: a line for each row, in the same order.

    Args:
        uri: s3:// prefix of the output.
    """
    return {"TransformOutput": {"S3OutputPath": uri, "Accept": CONTENT_TYPE, "AssembleWith": "Line"}}


def has_same_inputs(job: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    """Return whether a described job has the inputs of the request."""
    return all(contains(job.get(key), request[key]) for key in INPUT_MEMBERS)
