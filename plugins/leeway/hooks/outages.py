"""Turning the errors of AWS's clients into one line, and into what Airflow should do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowException, AirflowFailException
from boto3.exceptions import Boto3Error
from botocore.exceptions import BotoCoreError, ClientError

REFUSED = ("ValidationException", "NoSuchBucket")
"""Codes of requests that would be refused again."""


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
        wrong = error.response.get("Error", {}).get("Code") in REFUSED
        text = f"SageMaker or S3 refused: {_line(error)}"
        raise (AirflowFailException if wrong else AirflowException)(text) from None
    except (BotoCoreError, Boto3Error) as error:
        raise AirflowException(f"SageMaker or S3 does not answer: {_line(error)} Is the endpoint up?") from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
