"""Transform jobs that score a partition: what goes into one, and the model that it asks."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from leeway.hooks.sagemaker.aws_errors import patiently
from leeway.hooks.sagemaker.named_jobs import NamedJobs, holds, is_missing

LINES = "application/jsonlines"
"""Of requests and answers; `pipelines.container.inference` reads and writes it."""
ASKED = ("ModelName", "TransformInput")
"""Parts of the request that decide what scores come out."""
THERE = "already existing model"
"""How SageMaker refuses a second model of a name."""


class TransformJobs(NamedJobs):
    """The transform jobs of one task, and their models."""

    kind = "transform"

    def demand_model(self, model: Mapping[str, Any]) -> None:
        """There is a model of that request, whose name says all that is in it: one of the name is the same."""
        try:
            self._of_model("describe", ModelName=model["ModelName"])
        except ClientError as error:
            if not is_missing(error):
                raise
            self._made(model)

    def _made(self, model: Mapping[str, Any]) -> None:
        try:
            self._of_model("create", **model)
        except ClientError as error:
            if THERE not in str(error):
                raise
            return  # another process was first
        self.log.info("made the model %s of %s", model["ModelName"], model["PrimaryContainer"]["ModelDataUrl"])

    def _of_model(self, verb: str, **asked: Any) -> Any:
        return patiently(lambda: getattr(self.hook.conn, f"{verb}_model")(**asked), self.log)


def model(name: str, role: str, container: Mapping[str, Any]) -> dict[str, Any]:
    """The request to CreateModel. Equal containers have equal names.

    Args:
        name: for people: the registered model and its version.
        role: execution role, its ARN.
        container: PrimaryContainer.
    """
    told = json.dumps([role, container], sort_keys=True).encode()
    slug = re.sub(r"[^a-zA-Z0-9]+", "-", name).strip("-")
    return {
        "ModelName": f"{slug[:46]}-{hashlib.sha256(told).hexdigest()[:16]}".strip("-"),
        "ExecutionRoleArn": role,
        "PrimaryContainer": dict(container),
    }


def asked(model_name: str, rows: str) -> dict[str, Any]:
    """`ASKED` of the request: the same ones give the same scores.

    Args:
        model_name: of SageMaker's model.
        rows: s3:// prefix of the rows.
    """
    place = {"S3DataType": "S3Prefix", "S3Uri": rows}
    return {
        "ModelName": model_name,
        "TransformInput": {"DataSource": {"S3DataSource": place}, "ContentType": LINES, "SplitType": "Line"},
    }


def output(uri: str) -> dict[str, Any]:
    """The part of the request that says where the scores go: a line for each row, in the order of the rows."""
    return {"TransformOutput": {"S3OutputPath": uri, "Accept": LINES, "AssembleWith": "Line"}}


def is_same(there: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    """Whether a job was asked the same of the same model."""
    return all(holds(there.get(key), request[key]) for key in ASKED)
