"""MLflow's errors become ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import requests
from mlflow.exceptions import MlflowException
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random

from pipelines.errors import ServiceError, TryAgainError
from pipelines.system.error_translation import translate_error

TRANSIENT = ("INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE", "REQUEST_LIMIT_EXCEEDED", "DEADLINE_EXCEEDED")
"""Codes of what may pass; a server that is away is told as an internal error."""

ATTEMPTS = 5


@contextmanager
def outages() -> Iterator[None]:
    """What MLflow fails with is an outage: a retry can help."""
    try:
        yield
    except MlflowException as error:
        raise ServiceError(f"MLflow failed: {error}.") from None


def put(write: Callable[..., object], *args: str) -> None:
    """Sets an alias or a tag through MLflow's client, while others set the same one.

    MLflow's store looks whether there is one, then inserts it: of two that set a new one at once, the second breaks the
    key, and is told BAD_REQUEST (as of 3.17), though nothing is wrong with the request: again, it is an update.

    Raises:
        ServiceError: MLflow failed. A retry can help.
    """
    again = Retrying(
        retry=retry_if_exception(_collided), stop=stop_after_attempt(ATTEMPTS), wait=wait_random(0, 0.2), reraise=True
    )
    with outages():
        again(write, *args)


def may_pass(error: Exception) -> bool:
    """Whether a retry can help: the server is away or has failed itself, and has not said what is wrong."""
    if isinstance(error, requests.HTTPError):  # MLflow lets those of its artifacts through
        return error.response.status_code >= 500
    transient = isinstance(error, MlflowException) and error.error_code in TRANSIENT
    return transient or isinstance(translate_error(error), TryAgainError)


def _collided(error: BaseException) -> bool:
    """What the server's database did not take; a request that is wrong has INVALID_PARAMETER_VALUE."""
    return isinstance(error, MlflowException) and error.error_code == "BAD_REQUEST"
