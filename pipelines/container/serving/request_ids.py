"""Choose the id of a request, which its answer and the log have."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable

INFERENCE_ID = "X-Amzn-SageMaker-Inference-Id"
"""Header with the InferenceId that a client gives to InvokeEndpoint."""
VALID_ID = re.compile(r"[!-~]{1,64}")
"""SageMaker's inference ids have at most 64 characters; spaces and control characters would break log lines."""


def choose_id(names: Iterable[str | None]) -> str:
    """Return the first valid id; a new one if there is none."""
    return next((name for name in names if name and VALID_ID.fullmatch(name)), "") or str(uuid.uuid4())
