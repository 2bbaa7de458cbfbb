"""Distinguish a wrong name of an AWS region from a region without prices."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

SERVICE = "sagemaker"


def suggest_regions(names: Iterable[str]) -> str:
    """Return a hint about the first name that is no region with SageMaker; empty if all are regions.

    The list of regions comes from the installed botocore. boto3 is imported here, because its import takes half a
    second.
    """
    from boto3.session import Session

    session = Session()
    regions = [
        region
        for partition in session.get_available_partitions()
        for region in session.get_available_regions(SERVICE, partition_name=partition)
    ]
    unknown_name = next((name for name in names if name not in regions), None)
    if unknown_name is None:
        return ""
    close_names = get_close_matches(unknown_name, regions, 3)
    hint = f"Did you mean {' or '.join(close_names)}?" if close_names else "An example is us-east-1."
    return f"{unknown_name[:60]!r} is not a region with SageMaker. {hint}"
