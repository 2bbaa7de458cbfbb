"""Errors of AWS's clients: which ones pass, how long to wait for that, and what they say in one line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from airflow.sdk.exceptions import AirflowException, AirflowFailException
from boto3.exceptions import Boto3Error
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, ParamValidationError
from botocore.exceptions import ConnectionError as BotoConnectionError
from botocore.parsers import ResponseParserError

from leeway.hooks.step.hook import Logger

T = TypeVar("T")

REFUSED = ("ValidationException", "NoSuchBucket")
"""Codes of requests that would be refused again."""
THROTTLED = (
    "Throttl",
    "TooManyRequests",
    "RequestLimitExceeded",
    "SlowDown",
    "LimitExceededException",
    "RequestTimeout",
)
"""How the codes begin of requests that came too fast."""
EXPIRED = ("ExpiredToken", "RequestExpired")
"""How the codes begin of credentials that a new client would renew: a wait is longer than they live."""
PATIENCE_S = 120.0
"""How long a worker waits for an endpoint to answer again, before it leaves the rest to the task's next try."""
LONGEST_DELAY_S = 30.0
"""Most seconds between two questions to an endpoint that does not answer."""


def passes(error: BaseException) -> bool:
    """Whether the same call may work in a while: throttled, a fault of the server, or no answer at all."""
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return status >= 500 or code_of(error).startswith((*THROTTLED, *EXPIRED))
    # aiobotocore lets some errors of its sockets through as they are.
    return isinstance(error, (HTTPClientError, BotoConnectionError, ResponseParserError, OSError, TimeoutError))


def code_of(error: ClientError) -> str:
    """SageMaker's or S3's own name for the error."""
    return str(error.response.get("Error", {}).get("Code", ""))


class Outage:
    """What is told of an endpoint that does not answer: one line when it begins, one when it is over.

    Args:
        log: where it is told.
        service: its name, for people.
    """

    def __init__(self, log: Logger, service: str) -> None:
        self.log, self.service = log, service
        self._began: float | None = None
        self._delay_s = 0.5

    def goes_on(self, error: BaseException) -> float:
        """The seconds to wait before the next question."""
        if self._began is None:
            self._began = time.monotonic()
            self.log.warning("%s does not answer: %s Asking again until it does.", self.service, line(error))
        self._delay_s = min(2 * self._delay_s, LONGEST_DELAY_S)
        return self._delay_s

    def is_over(self) -> None:
        """The endpoint answered."""
        if self._began is not None:
            self.log.info("%s answers again, after %.0f s", self.service, time.monotonic() - self._began)
        self._began, self._delay_s = None, 0.5


def patiently(call: Callable[[], T], log: Logger) -> T:
    """The answer of `call`, asked again while its error is one that passes, for `PATIENCE_S` at most."""
    ends, outage = time.monotonic() + PATIENCE_S, Outage(log, "SageMaker")
    while True:
        try:
            answer = call()
        except Exception as error:
            delay_s = outage.goes_on(error) if passes(error) else PATIENCE_S
            if time.monotonic() + delay_s > ends or not passes(error):
                raise
            time.sleep(delay_s)
        else:
            outage.is_over()
            return answer


@contextmanager
def told_in_a_line() -> Iterator[None]:
    """Within the block, errors of boto3 come out as Airflow's.

    Raises:
        AirflowFailException: the request is wrong; a retry cannot help.
        AirflowException: the endpoint does not answer, or refuses for now; a retry can help.
    """
    try:
        yield
    except ClientError as error:
        wrong = code_of(error) in REFUSED
        text = f"SageMaker or S3 refused: {line(error)}"
        raise (AirflowFailException if wrong else AirflowException)(text) from None
    except ParamValidationError as error:
        raise AirflowFailException(f"the request is not one that SageMaker takes: {line(error)}") from None
    except (BotoCoreError, Boto3Error) as error:
        raise AirflowException(f"SageMaker or S3 does not answer: {line(error)} Is the endpoint up?") from None


def line(error: BaseException) -> str:
    """What an error says, on one line."""
    return " ".join(str(error).split()) or type(error).__name__
