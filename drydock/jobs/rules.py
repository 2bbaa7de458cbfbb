"""Rules that the requests of several kinds of jobs share."""

import re
from typing import NoReturn

from moto.sagemaker.exceptions import AWSValidationException

# SageMaker's own default quota of instances for one job.
MAX_INSTANCES = 20


def refuse(message: str) -> NoReturn:
    """Refuse a request, with a message for the client.

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


def is_account_id(text: str) -> bool:
    """Return whether a text is an id of an AWS account, which has 12 digits."""
    return re.fullmatch("[0-9]{12}", text) is not None


def check_owner(account_id: str, region: str) -> None:
    """Check the account and the region of a request. Both become part of paths, such as that of a new job's folder.

    moto does not check the account: it takes the account from the ARN of any role that a client assumes.

    Raises:
        AWSValidationException: One of them does not have AWS's format. A retry cannot help.
    """
    if not is_account_id(account_id):
        refuse(f"{account_id[:60]!r} is not the id of an account: such an id has 12 digits.")
    if not re.fullmatch("[a-z0-9-]+", region):
        refuse(f"{region[:60]!r} is not the name of a region, such as us-east-1.")
