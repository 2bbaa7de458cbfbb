"""One asynchronous invocation, as it is stored until its answer is in S3."""

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from drydock.transfer.objects import join_uri

DEFAULT_TTL_S, DEFAULT_TIMEOUT_S = 21_600, 900
"""SageMaker's defaults, seconds: how old a request may become in the queue, and how long the model may take."""


@dataclass(frozen=True)
class AsyncRequest:
    """An asynchronous invocation. All fields are stored.

    Attributes:
        endpoint: EndpointName.
        inference_id: InferenceId.
        headers: The headers that the model gets.
        output: S3 URI to which the answer is written.
        failure: S3 URI to which an error is written; "" without S3FailurePath.
        input: S3 URI of the body; "" if the request itself contains the body.
        body: The body, base64; used if `input` is empty.
        ttl_s: Seconds in the queue after which the request expires.
        timeout_s: Seconds within which the model must answer.
        submitted_at: When the request arrived, in seconds since 1970.
        id: Unique id.
    """

    endpoint: str
    inference_id: str
    headers: dict[str, str]
    output: str
    failure: str
    input: str
    body: str
    ttl_s: float
    timeout_s: float
    submitted_at: float = field(default_factory=time.time)
    id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def is_expired(self) -> bool:
        """Whether the request has waited longer than `ttl_s`."""
        return time.time() - self.submitted_at > self.ttl_s

    def dump(self) -> str:
        """Return the request as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> "AsyncRequest":
        """Return the request that `dump` wrote as JSON."""
        return cls(**json.loads(text))


def build_locations(config: Mapping[str, Any], request_id: str, filename: str, extension: str) -> tuple[str, str]:
    """Return the URIs of the answer and of the error; the second is "" if there is no S3FailurePath.

    Args:
        config: AsyncInferenceConfig.
        request_id: Id of the request, used in the names of the objects.
        filename: Filename of the request; "" without one.
        extension: S3OutputPathExtension of the request; "" without one.
    """
    output = config["OutputConfig"]
    folders = [extension] if extension else []
    output_uri = join_uri(output["S3OutputPath"], *folders, filename or f"{request_id}.out")
    failure_path = output.get("S3FailurePath", "")
    stem = filename.partition(".")[0] or request_id
    return output_uri, join_uri(failure_path, *folders, f"{stem}-error.out") if failure_path else ""
