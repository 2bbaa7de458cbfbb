"""Measure how much data a training job reads: the bytes of the objects in its channels.

The calls are the same for AWS and for drydock. This module imports only the standard library, because Airflow's
operators import it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

UNCOUNTED_CHANNELS = ("model", "code")
"""Names that SageMaker's toolkits give to channels with a pretrained model and with code. These channels do not grow
with the data, so their size does not help to predict the time of the training."""
MAX_OBJECTS = 100_000
"""Largest number of objects that are listed: 100 requests. The data size of a job with more objects is not known."""
MAX_LISTING_S = 30.0
"""Longest time in which the objects are listed, seconds. The data size of a job that needs longer is not known."""
S3 = "s3://"


def list_channels(request: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the channels of a request for a training job: each name with its s3:// prefix.

    `UNCOUNTED_CHANNELS` are left out.

    Returns:
        None if the objects of one of the other channels cannot be listed: it is a manifest, or it is not in S3.
    """
    channels: dict[str, str] = {}
    for channel in request.get("InputDataConfig") or []:
        source = channel.get("DataSource", {}).get("S3DataSource", {})
        if channel["ChannelName"] not in UNCOUNTED_CHANNELS:
            if source.get("S3DataType") != "S3Prefix" or not str(source.get("S3Uri")).startswith(S3):
                return None
            channels[channel["ChannelName"]] = source["S3Uri"]
    return channels


def measure_channels(s3: Any, channels: Mapping[str, str]) -> int | None:
    """Return the bytes of all files of the channels, as they are stored. A file of two channels is counted twice.

    `UNCOUNTED_CHANNELS` are left out.

    Args:
        s3: boto3 client of S3.
        channels: each channel's name with its s3:// prefix or folder.

    Returns:
        None if there are more than `MAX_OBJECTS` objects, if they cannot be listed in `MAX_LISTING_S`, or if the
        channels have no bytes.

    Raises:
        botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError: S3 does not answer, or refuses the request.
        OSError: a folder cannot be read.
    """
    locations = [location for name, location in channels.items() if name not in UNCOUNTED_CHANNELS]
    prefixes = [location for location in locations if location.startswith(S3)]
    listed_bytes = _sum_objects(s3, prefixes)
    folders = [Path(location) for location in locations if location not in prefixes]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return None if listed_bytes is None else listed_bytes + sum(path.stat().st_size for path in files) or None


def _sum_objects(s3: Any, prefixes: Iterable[str]) -> int | None:
    """Return the bytes of the objects below the prefixes; None if there are too many, or if the listing is too slow."""
    total_bytes = objects = 0
    end_s = time.monotonic() + MAX_LISTING_S
    for prefix in prefixes:
        bucket, _, key = prefix.removeprefix(S3).partition("/")
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=key):
            entries = page.get("Contents", [])
            objects += len(entries)
            total_bytes += sum(int(entry["Size"]) for entry in entries)
            if objects > MAX_OBJECTS or time.monotonic() > end_s:
                return None
    return total_bytes
