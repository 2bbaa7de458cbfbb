"""Read the channels of the training script: data.parquet, with its columns described in the metadata.

The step `divide` writes the rows of a channel as several objects, its parts, so that S3 can give each host a share.

The module is part of the training job's source bundle, so it imports only pandas, pyarrow, the standard library and
files of the bundle.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.container.hosts import Hosts
from pipelines.defaults.arguments import InvalidInput
from pipelines.system.files import sha256

DATA_FILE = "data.parquet"
PART_FILES = "part-*.parquet"
"""Pattern of the names of the files that the step `divide` writes instead of `DATA_FILE`; a host may have only some of
these files."""


def read_channel(folder: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the rows of a channel that this host has, and the description of its columns.

    Raises:
        InvalidInput: the file does not exist, is damaged, or has no description; or the parts are of different files.
    """
    tables, descriptions = [], []
    for path in _list_files(folder):
        with _open_file(path) as file:
            tables.append(file.read())
            descriptions.append(_parse_description(file))
    if any(description != descriptions[0] for description in descriptions):
        raise InvalidInput(f"{folder} has parts of different files. Divide the file again, into an empty prefix.")
    return pa.concat_tables(tables).to_pandas(), descriptions[0]


def read_description(folder: Path) -> dict[str, Any]:
    """Return `dataset`, `task`, `features` and `label` of a channel, and `parts` if it is divided.

    `parts` describes the rows of all parts together: `rows` is their number, `sha256` the digest of the file that was
    divided; `categories` and `classes` list the values in these rows, for the model's schema.

    Raises:
        InvalidInput: the file does not exist, is damaged, or has no description.
    """
    with _open_file(_list_files(folder)[0]) as file:
        return _parse_description(file)


def compute_data_digest(folder: Path) -> str:
    """Return a digest of all rows of a channel: the same on each host, though a host may have only some parts."""
    parts = read_description(folder).get("parts")
    return f"parts of {parts['sha256']}" if parts else sha256(folder / DATA_FILE)


def is_sharded(channel: str) -> bool:
    """Return whether S3 divides the objects of a channel among the hosts (ShardedByS3Key)."""
    config: dict[str, dict[str, Any]] = json.loads(os.environ.get("SM_INPUT_DATA_CONFIG") or "{}")
    return config.get(channel, {}).get("S3DistributionType") == "ShardedByS3Key"


def check_distribution(hosts: Hosts, divisible_channels: Collection[str] = ()) -> None:
    """Check that each host gets all objects of each channel, except of those that S3 may divide among the hosts.

    Args:
        hosts: hosts of the job.
        divisible_channels: names of the channels that S3 may divide among the hosts.

    Raises:
        InvalidInput: S3 divides another channel, so that hosts would lack a part of its data.
    """
    names = json.loads(os.environ.get("SM_INPUT_DATA_CONFIG") or "{}")
    for name in names if hosts.count > 1 else ():
        if is_sharded(name) and name not in divisible_channels:
            raise InvalidInput(
                f"the channel {name} is ShardedByS3Key, but each of the {hosts.count} hosts needs all of it: make it "
                "FullyReplicated."
            )


def _list_files(folder: Path) -> list[Path]:
    """Return the files of a channel: its parts in the order of their names; without parts, its only file."""
    return sorted(folder.glob(PART_FILES)) or [folder / DATA_FILE]


@contextmanager
def _open_file(path: Path) -> Iterator[pq.ParquetFile]:
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
