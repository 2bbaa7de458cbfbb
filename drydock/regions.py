"""The regions of AWS, as botocore has them."""

import functools

from boto3.session import Session


@functools.cache
def list_regions() -> frozenset[str]:
    """Return the names of the regions of all AWS partitions, such as aws and aws-cn."""
    session = Session()
    partitions = session.get_available_partitions()
    return frozenset(
        region for partition in partitions for region in session.get_available_regions("ec2", partition_name=partition)
    )
