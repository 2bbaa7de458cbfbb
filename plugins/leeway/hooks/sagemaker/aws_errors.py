"""Handle the errors of AWS clients: decide whether to retry a request and when, and format an error in one line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import TypeVar

from airflow.sdk.exceptions import AirflowException, AirflowFailException
from boto3.exceptions import Boto3Error, RetriesExceededError, S3UploadFailedError
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, ParamValidationError
from botocore.exceptions import ConnectionError as BotoConnectionError
from botocore.parsers import ResponseParserError

from leeway.hooks.step.hook import Logger

T = TypeVar("T")

PERMANENT_CODES = ("ValidationException", "NoSuchBucket", "ClientException")
"""Error codes for which a retry of the same request cannot help; the last one is AWS Batch's."""
THROTTLING_PREFIXES = (
    "Throttl",
    "TooManyRequests",
    "RequestLimitExceeded",
    "SlowDown",
    "LimitExceededException",
    "RequestTimeout",
)
"""Prefixes of the error codes of throttled requests, and of requests whose data did not reach the server in time."""
EXPIRY_PREFIXES = ("ExpiredToken", "RequestExpired")
"""Prefixes of the error codes of expired credentials. During a long wait, credentials may expire; a new client gets new
ones."""
RETRY_TIMEOUT_S = 120.0
"""Seconds for which a task retries a request to a service that does not answer. Then the try of the task fails."""
MAX_DELAY_S = 30.0
"""Maximum seconds between two requests to a service that does not answer."""


def is_transient(error: BaseException) -> bool:
    """Return whether a retry can help.

    A retry can help if the request was throttled, its data did not reach the server in time, the credentials have
    expired, the server failed, or there was no response.
    """
    if isinstance(error, S3UploadFailedError):  # it wraps the ClientError of S3
        return error.__context__ is not None and is_transient(error.__context__)
    if isinstance(error, ClientError):
        status = get_http_status(error)
        codes = (*THROTTLING_PREFIXES, *EXPIRY_PREFIXES)
        return status >= 500 or status == HTTPStatus.TOO_MANY_REQUESTS or get_error_code(error).startswith(codes)
    if isinstance(error, RetriesExceededError):
        return True
    # aiobotocore raises some errors of sockets as they are, not as errors of botocore.
    return isinstance(error, (HTTPClientError, BotoConnectionError, ResponseParserError, OSError, TimeoutError))


def is_permanent(error: BaseException) -> bool:
    """Return whether a retry of the same request cannot help."""
    code = get_error_code(error) if isinstance(error, ClientError) else ""
    return isinstance(error, ParamValidationError) or code in PERMANENT_CODES


def get_http_status(error: ClientError) -> int:
    """Return the HTTP status of the response; 0 if there was none."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def get_error_code(error: ClientError) -> str:
    """Return the error code of AWS, such as ThrottlingException; empty if the response has none."""
    return str(error.response.get("Error", {}).get("Code", ""))


class Outage:
    """Log when a service stops answering and when it answers again, one line each; compute the delays of retries.

    Args:
        log: log of the task.
        service: name of the service in the log.
    """

    def __init__(self, log: Logger, service: str) -> None:
        self.log, self.service = log, service
        self._start: float | None = None
        """Time of the first failure since the last response, of the monotonic clock; None if there is none."""
        self._delay_s = 0.5
        """Last delay, seconds; before the first failure, half of the first delay."""

    def record_failure(self, error: BaseException) -> float:
        """Record that a request failed; return the seconds to wait before the next one."""
        if self._start is None:
            self._start = time.monotonic()
            self.log.warning("%s does not answer: %s Retrying.", self.service, format_error_line(error))
        self._delay_s = min(2 * self._delay_s, MAX_DELAY_S)
        return self._delay_s

    def record_response(self) -> None:
        """Record that a request was answered."""
        if self._start is not None:
            self.log.info("%s answers again, after %.0f s", self.service, time.monotonic() - self._start)
        self._start, self._delay_s = None, 0.5


def call_with_retries(call: Callable[[], T], log: Logger, service: str = "SageMaker") -> T:
    """Return the response of `call`. Retry transient errors for at most `RETRY_TIMEOUT_S` seconds.

    Args:
        call: an idempotent call.
        log: log of the task.
        service: name of the called service in the log.

    Raises:
        Exception: the last error of `call`.
    """
    deadline, outage = time.monotonic() + RETRY_TIMEOUT_S, Outage(log, service)
    while True:
        try:
            response = call()
        except Exception as error:
            if not is_transient(error):
                raise
            delay_s = outage.record_failure(error)
            if time.monotonic() + delay_s > deadline:
                raise
            time.sleep(delay_s)
        else:
            outage.record_response()
            return response


@contextmanager
def raise_airflow_errors(services: str = "SageMaker or S3") -> Iterator[None]:
    """Convert boto3's errors in the block to Airflow's errors of one line each.

    Args:
        services: names of the services that are called in the block, for the errors.

    Raises:
        AirflowFailException: the request is wrong (`is_permanent`). A retry cannot help.
        AirflowException: a service does not answer, or refuses the request for another reason, such as throttling or
            a missing permission. A retry can help, if the reason does not last.
    """
    try:
        yield
    except S3UploadFailedError as error:
        cause = error.__context__ or error
        text = f"S3 refused: {format_error_line(error)}"
        raise (AirflowFailException if is_permanent(cause) else AirflowException)(text) from None
    except ClientError as error:
        text = f"{services} refused: {format_error_line(error)}"
        raise (AirflowFailException if is_permanent(error) else AirflowException)(text) from None
    except ParamValidationError as error:
        raise AirflowFailException(f"SageMaker would refuse the request: {format_error_line(error)}") from None
    except (BotoCoreError, Boto3Error) as error:
        hint = "Check that the service runs. A retry can help."
        raise AirflowException(f"{services} does not answer: {format_error_line(error)} {hint}") from None


def format_error_line(error: BaseException) -> str:
    """Return the error's text in one line."""
    return " ".join(str(error).split()) or type(error).__name__
