"""Rules that the requests of several kinds of jobs share."""

from typing import NoReturn

from moto.sagemaker.exceptions import AWSValidationException

# SageMaker's own default quota of instances for one job.
MAX_INSTANCES = 20


def refuse(message: str) -> NoReturn:
    """Refuse the request.

    Raises:
        AWSValidationException: Always; a retry cannot help.
    """
    raise AWSValidationException(message)


def check_s3_uri(uri: str, member: str) -> None:
    """Check that a member of the request is an S3 URI.

    Args:
        uri: The member's value.
        member: The member's name, for the message.

    Raises:
        AWSValidationException: The value does not begin with s3://.
    """
    if not uri.startswith("s3://"):
        refuse(f"{member}: {uri} is not an s3:// URI.")
