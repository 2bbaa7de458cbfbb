"""Choose the id of a request. The answer and the log lines of the request contain it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable

INFERENCE_ID = "X-Amzn-SageMaker-Inference-Id"
"""Header with the InferenceId that a client gives to InvokeEndpoint."""
VALID_ID = re.compile(r"[!-~]{1,64}")
"""SageMaker's inference ids have at most 64 characters; spaces and control characters would break log lines."""


def choose_id(header_values: Iterable[str | None]) -> str:
    """Return the first header value that is a valid id; a new id if there is none."""
    return next((value for value in header_values if value and VALID_ID.fullmatch(value)), "") or str(uuid.uuid4())
