"""Build the requests of a transform job and of its model, and compare the job with another one."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from leeway.hooks.sagemaker.aws_errors import call_with_retries
from leeway.hooks.sagemaker.named_jobs import NamedJobs, contains, is_missing

LINES = "application/jsonlines"
"""Content type of rows and scores; `pipelines.container.inference` reads and writes it."""
INPUTS = ("ModelName", "TransformInput")
"""Parts of the request that decide what scores come out."""
EXISTS = "already existing model"
"""Text of SageMaker's refusal of a second model of the same name."""


class TransformJobs(NamedJobs):
    """The transform jobs of one task, and their models."""

    kind = "transform"

    def ensure_model(self, model: Mapping[str, Any]) -> None:
        """Create the model unless it exists. Idempotent: its name is made of its content."""
        try:
            self._call_model("describe", ModelName=model["ModelName"])
        except ClientError as error:
            if not is_missing(error):
                raise
            self._create_model(model)

    def _create_model(self, model: Mapping[str, Any]) -> None:
        try:
            self._call_model("create", **model)
        except ClientError as error:
            if EXISTS not in str(error):
                raise
            return  # another process was first
        self.log.info("created the model %s of %s", model["ModelName"], model["PrimaryContainer"]["ModelDataUrl"])

    def _call_model(self, verb: str, **request: Any) -> Any:
        return call_with_retries(lambda: getattr(self.hook.conn, f"{verb}_model")(**request), self.log)


def build_model(name: str, role: str, container: Mapping[str, Any]) -> dict[str, Any]:
    """Build the request to CreateModel. Equal containers get equal names.

    Args:
        name: registered model and its version, for people.
        role: ARN of the execution role.
        container: PrimaryContainer.
    """
    content = json.dumps([role, container], sort_keys=True).encode()
    slug = re.sub(r"[^a-zA-Z0-9]+", "-", name).strip("-")
    return {
        "ModelName": f"{slug[:46]}-{hashlib.sha256(content).hexdigest()[:16]}".strip("-"),
        "ExecutionRoleArn": role,
        "PrimaryContainer": dict(container),
    }


def build_inputs(model_name: str, rows: str) -> dict[str, Any]:
    """Build the `INPUTS` of a request: equal ones give equal scores.

    Args:
        model_name: name of SageMaker's model.
        rows: s3:// prefix of the rows.
    """
    place = {"S3DataType": "S3Prefix", "S3Uri": rows}
    return {
        "ModelName": model_name,
        "TransformInput": {"DataSource": {"S3DataSource": place}, "ContentType": LINES, "SplitType": "Line"},
    }


def build_output(uri: str) -> dict[str, Any]:
    """Build the part of a request that says where the scores go: a line for each row, in the order of the rows."""
    return {"TransformOutput": {"S3OutputPath": uri, "Accept": LINES, "AssembleWith": "Line"}}


def has_same_inputs(job: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    """Return whether a described job has the inputs of the request."""
    return all(contains(job.get(key), request[key]) for key in INPUTS)
