"""Convert the errors of boto3 to Leeway's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

from pipelines.errors import InvalidError, ServiceError, SpecError
from pipelines.system.error_translation import translate_known_error

DENIAL_CODES = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")
"""Error codes of requests that the role has no permission for."""
HINT = "Check AWS_ENDPOINT_URL, and whether drydock is up; then try again."


@contextmanager
def translate_aws_errors(services: str) -> Iterator[None]:
    """Convert errors of AWS in the block.

    Args:
        services: the services that the block calls, for the message.

    Raises:
        InvalidError: AWS denies the request. A retry cannot help.
        SpecError: AWS is not set up here: credentials are missing, for example. A retry cannot help.
        ServiceError: AWS does not answer, or returns an error with another code. A retry can help.
    """
    try:
        yield
    except ClientError as error:
        details = error.response.get("Error", {})
        if details.get("Code") in DENIAL_CODES:
            message = f"AWS denies {error.operation_name}: {details['Code']}: {details.get('Message', '')}."
            raise InvalidError(message, "Give the role this permission.") from None
        raise ServiceError(f"{services} failed: {error}.", HINT) from None
    except BotoCoreError as error:
        translation = translate_known_error(error)
        if isinstance(translation, SpecError):
            raise translation from None
        raise ServiceError(f"{services} does not answer: {error}.", HINT) from None
