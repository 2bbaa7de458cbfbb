"""Read the channels of the training script: data.parquet, with its columns described in the metadata.

The module is part of the training job's source bundle, so it imports only pandas, pyarrow, the standard library and
files of the bundle.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.container.hosts import Hosts
from pipelines.defaults.arguments import InvalidInput

DATA_FILE = "data.parquet"


def read_channel(folder: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the rows of a channel, and the description of its columns.

    Raises:
        InvalidInput: the file does not exist, is damaged, or has no description.
    """
    with _open_channel(folder) as file:
        return file.read().to_pandas(), _parse_description(file)


def read_description(folder: Path) -> dict[str, Any]:
    """Return `dataset`, `task`, `features` and `label` of a channel.

    Raises:
        InvalidInput: the file does not exist, is damaged, or has no description.
    """
    with _open_channel(folder) as file:
        return _parse_description(file)


def check_distribution(hosts: Hosts) -> None:
    """Check that each host gets all channels: the script itself divides the rows among the hosts.

    Raises:
        InvalidInput: S3 divides a channel, so that some hosts would have no data.
    """
    config: dict[str, dict[str, Any]] = json.loads(os.environ.get("SM_INPUT_DATA_CONFIG") or "{}")
    for name, channel in config.items():
        if hosts.count > 1 and channel.get("S3DistributionType") == "ShardedByS3Key":
            raise InvalidInput(
                f"the channel {name} is ShardedByS3Key, and has one object for {hosts.count} hosts: make it "
                "FullyReplicated. This script divides the rows among the hosts itself."
            )


@contextmanager
def _open_channel(folder: Path) -> Iterator[pq.ParquetFile]:
    path = folder / DATA_FILE
    try:
        # Not read_table: it would read the files of a folder, and add columns that are named in the path.
        with pq.ParquetFile(path) as file:
            yield file
    except (OSError, pa.ArrowException, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).rstrip(".")
        raise InvalidInput(f"{path} cannot be read: {reason}. The step `preprocess` writes it.") from None


def _parse_description(file: pq.ParquetFile) -> dict[str, Any]:
    description: dict[str, Any] = json.loads((file.schema_arrow.metadata or {}).get(b"leeway", b""))
    return description
