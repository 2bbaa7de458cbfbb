"""Convert errors of AWS's clients to errors of one line each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

from pipelines.errors import InvalidError, ServiceError

DENIAL_CODES = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")
"""Error codes of requests for which the role has no permission."""
HINT = "Check AWS_ENDPOINT_URL, then try again."


@contextmanager
def translate_aws_errors(services: str) -> Iterator[None]:
    """Convert errors of AWS in the block.

    Args:
        services: the services that the block calls, for the message.

    Raises:
        InvalidError: AWS denies the request. A retry cannot help.
        ServiceError: AWS does not answer, or fails. A retry can help.
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
        raise ServiceError(f"{services} failed: {error}.", HINT) from None
