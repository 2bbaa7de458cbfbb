"""MLflow's errors become ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import requests
from mlflow.exceptions import MlflowException

from pipelines.errors import ServiceError, TryAgainError
from pipelines.outside import translated

TRANSIENT = ("INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE", "REQUEST_LIMIT_EXCEEDED", "DEADLINE_EXCEEDED")
"""Codes of what may pass; a server that is away is told as an internal error."""


@contextmanager
def outages() -> Iterator[None]:
    """What MLflow fails with is an outage: a retry can help."""
    try:
        yield
    except MlflowException as error:
        raise ServiceError(f"MLflow failed: {error}.") from None


def may_pass(error: Exception) -> bool:
    """Whether a retry can help: the server is away or has failed itself, and has not said what is wrong."""
    if isinstance(error, requests.HTTPError):  # MLflow lets those of its artifacts through
        return error.response.status_code >= 500
    transient = isinstance(error, MlflowException) and error.error_code in TRANSIENT
    return transient or isinstance(translated(error), TryAgainError)
