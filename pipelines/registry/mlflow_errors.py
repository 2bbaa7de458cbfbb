"""Turn MLflow's errors into errors of the step contract, and retry writes that collide."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import requests
from mlflow.exceptions import MlflowException
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random

from pipelines.errors import ServiceError, TryAgainError
from pipelines.system.error_translation import translate_error

NOT_FOUND = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
"""MLflow's codes for a model, version or alias that does not exist, or whose name cannot exist."""
TRANSIENT = ("INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE", "REQUEST_LIMIT_EXCEEDED", "DEADLINE_EXCEEDED")
"""MLflow's codes for failures that a retry can cure; its client reports an unreachable server as INTERNAL_ERROR."""

ATTEMPTS = 5


@contextmanager
def service_errors() -> Iterator[None]:
    """Raise ServiceError in place of any error of MLflow that the block lets through. A retry can help."""
    try:
        yield
    except MlflowException as error:
        raise ServiceError(f"MLflow failed: {error}.") from None


def write_with_retries(write: Callable[..., object], *args: str) -> None:
    """Set an alias or a tag through MLflow's client, retrying when another process sets the same new one.

    MLflow (as of 3.17) looks for an existing row, then inserts one. When two processes set a new alias or tag at once,
    both insert; the second violates the primary key and gets BAD_REQUEST, though its request is valid. The retry finds
    the row, and updates it.

    Raises:
        ServiceError: MLflow failed. A retry can help.
    """
    retrying = Retrying(
        retry=retry_if_exception(_is_collision),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random(0, 0.2),
        reraise=True,
    )
    with service_errors():
        retrying(write, *args)


def is_transient(error: Exception) -> bool:
    """Whether a retry can help: the server does not answer or failed itself, rather than refuse the request."""
    if isinstance(error, requests.HTTPError):  # MLflow does not wrap those of artifact requests
        return error.response.status_code >= 500
    transient = isinstance(error, MlflowException) and error.error_code in TRANSIENT
    return transient or isinstance(translate_error(error), TryAgainError)


def _is_collision(error: BaseException) -> bool:
    """Whether the server's database refused a write. A request that is not valid has INVALID_PARAMETER_VALUE."""
    return isinstance(error, MlflowException) and error.error_code == "BAD_REQUEST"
