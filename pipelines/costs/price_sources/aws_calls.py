"""Call AWS for prices, with short timeouts, since a person or a task waits for the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pipelines.errors import InvalidError, ServiceError
from pipelines.system.aws_errors import DENIAL_CODES
from pipelines.system.error_translation import translate_known_error

Answer = TypeVar("Answer")


def create_client(service: str, region: str) -> Any:
    """Create a boto3 client with short timeouts and few tries."""
    import boto3
    from botocore.config import Config

    config = Config(connect_timeout=5, read_timeout=20, retries={"mode": "standard", "total_max_attempts": 3})
    return boto3.client(service, region_name=region, config=config)


def call_aws(subject: str, permission: str, request: Callable[[], Answer], alternative: str = "") -> Answer:
    """Call AWS, and convert its errors to errors of one line each.

    Args:
        subject: what is requested, for the messages.
        permission: action that the role needs.
        request: function that makes the calls.
        alternative: what a person can do instead, for the hints.

    Raises:
        InvalidError: AWS denies access, or refuses the request, or credentials are missing. A retry cannot help.
        ServiceError: AWS does not answer, fails, or throttles the request. A retry can help.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    ending = f", or {alternative}." if alternative else "."
    try:
        return request()
    except ClientError as error:
        details, status = error.response["Error"], error.response["ResponseMetadata"]["HTTPStatusCode"]
        if status < 500 and "Throttl" not in details["Code"] and details["Code"] != "RequestLimitExceeded":
            reason = f"{details['Code']}: {details['Message']}."
            if status in (401, 403) or details["Code"] in DENIAL_CODES:
                raise InvalidError(f"AWS denies access to {subject}: {reason}", f"Allow {permission}{ending}") from None
            raise InvalidError(f"AWS refuses the request for {subject}: {reason}", f"Correct it{ending}") from None
        raise ServiceError(f"{subject} failed: {details['Code']}.", f"Try again later{ending}") from None
    except BotoCoreError as error:
        translation = translate_known_error(error)
        if isinstance(translation, InvalidError):
            raise translation from None
        raise ServiceError(f"{subject} does not answer: {error}.", f"Try again{ending}") from None
