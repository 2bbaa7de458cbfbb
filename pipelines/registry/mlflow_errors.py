"""Translate MLflow's errors into errors of the step contract, and retry writes that collide with other writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import requests
from mlflow.exceptions import MlflowException
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random

from pipelines.errors import RetryableError, ServiceError
from pipelines.system.error_translation import translate_error

NOT_FOUND = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
"""MLflow's codes for a model, version or alias that does not exist, or whose name is not valid."""
TRANSIENT = ("INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE", "REQUEST_LIMIT_EXCEEDED", "DEADLINE_EXCEEDED")
"""MLflow's codes for failures after which a retry can help. Its client uses INTERNAL_ERROR if no server answers."""
ATTEMPTS = 5
"""Largest number of attempts of a write, if other processes make the same write at the same time."""


@contextmanager
def translate_mlflow_errors() -> Iterator[None]:
    """Raise ServiceError instead of any MLflow error that the block raises. A retry can help."""
    try:
        yield
    except MlflowException as error:
        raise ServiceError(f"MLflow failed: {error}.") from None


def write_with_retries(write: Callable[..., object], *args: str) -> None:
    """Write an alias, a tag or a description through MLflow's client; retry if a write of another process collides.

    MLflow (as of 3.17) looks for an existing row, then inserts one. When two processes set a new alias or tag at the
    same time, both insert. The second insert violates the primary key and gets BAD_REQUEST, though its request is
    valid. The retry finds the row, and updates it.

    Args:
        write: method of the client.
        args: arguments of the method.

    Raises:
        ServiceError: MLflow failed. A retry can help.
    """
    retryer = Retrying(
        retry=retry_if_exception(_is_collision),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random(0, 0.2),
        reraise=True,
    )
    with translate_mlflow_errors():
        retryer(write, *args)


def is_transient(error: Exception) -> bool:
    """Return whether a retry can help, because the server did not answer or failed; False if it refused the request."""
    if isinstance(error, requests.HTTPError):  # MLflow lets these errors of artifact requests through
        return error.response.status_code >= 500
    has_transient_code = isinstance(error, MlflowException) and error.error_code in TRANSIENT
    return has_transient_code or isinstance(translate_error(error), RetryableError)


def _is_collision(error: BaseException) -> bool:
    """Return whether the server's database refused a write, because another process made the same one.

    MLflow gives an invalid request the code INVALID_PARAMETER_VALUE, not BAD_REQUEST.
    """
    return isinstance(error, MlflowException) and error.error_code == "BAD_REQUEST"
