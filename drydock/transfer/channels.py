"""Check input channels, and download one host's share of the objects of an S3 prefix or a manifest."""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drydock.transfer.file_names import build_local_name, find_invalid_names
from drydock.transfer.objects import ObjectStore, split_uri

# Largest size of a manifest, which is read into memory.
MANIFEST_MAX_BYTES = 100_000_000
READ_ONLY_MODE = 0o444
# Maximum number of characters of a key in an error message.
_NAME_MAX_CHARS = 120

# Options that SageMaker uses in Pipe mode only, which drydock does not have.
_PIPE_ONLY_OPTIONS = {
    "CompressionType": "is only used in Pipe mode: in File mode leave it unset, and the objects arrive as they are",
    "RecordWrapperType": "is only used in Pipe mode: in File mode leave it unset",
}


@dataclass(frozen=True)
class Source:
    """The objects in S3 of a training job's channel, or of a processing or transform job's input.

    Attributes:
        uri: S3 URI of the prefix or the manifest.
        data_type: S3Prefix or ManifestFile.
        distribution: FullyReplicated, or ShardedByS3Key: each of n hosts gets every n-th object.
        seed: Seed with which the objects are shuffled before they are distributed among the hosts; None: no shuffling.
        is_read_only: Whether the downloaded files are read-only.
    """

    uri: str
    data_type: str
    distribution: str
    seed: int | None = None
    is_read_only: bool = False


def find_channel_problem(channel: Mapping[str, Any]) -> str:
    """Return what is wrong with an entry of InputDataConfig; "" if drydock can download it.

    Args:
        channel: The entry, already checked against botocore's model.
    """
    source = channel["DataSource"].get("S3DataSource")
    if source is None:
        problem = "drydock can only read from S3: use S3DataSource."
    else:
        problem = _find_source_problem(source) or _find_mode_problem(channel)
    return problem and f"Channel {channel['ChannelName']}: {problem}"


def download_channel(
    object_store: ObjectStore,
    channel: Mapping[str, Any],
    folder: Path,
    *,
    host_number: int,
    host_count: int,
    default_mode: str,
) -> int:
    """Download one host's share of a channel. `download_source` describes the result and the errors.

    Args:
        object_store: S3.
        channel: The entry of InputDataConfig.
        folder: The channel's folder on this host.
        host_number: The host's number, from 0.
        host_count: The number of the job's hosts.
        default_mode: The job's TrainingInputMode; the channel's own InputMode has precedence. Files of FastFile mode
            are read-only.
    """
    s3 = channel["DataSource"]["S3DataSource"]
    source = Source(
        uri=s3["S3Uri"],
        data_type=s3["S3DataType"],
        distribution=s3.get("S3DataDistributionType", "FullyReplicated"),
        seed=channel.get("ShuffleConfig", {}).get("Seed"),
        is_read_only=channel.get("InputMode", default_mode) == "FastFile",
    )
    return download_source(object_store, source, folder, host_number=host_number, host_count=host_count)


def download_source(
    object_store: ObjectStore, source: Source, folder: Path, *, host_number: int, host_count: int
) -> int:
    """Download one host's share of a source to a folder.

    Args:
        object_store: S3.
        source: The objects in S3.
        folder: The folder for the files.
        host_number: The host's number, from 0.
        host_count: The number of the job's hosts.

    Returns:
        The number of objects of the source, not only of this host's share; 0 if there is nothing to read. An empty
        share is not an error: SageMaker documents that such a host runs, and is billed, without data.

    Raises:
        ClientError: The bucket or the manifest does not exist, or S3 failed. A retry can help.
        ValueError: The manifest is invalid or lists an object that does not exist, or a key cannot be a file name. A
            retry cannot help.
        OSError: The disk is full or not writable. A retry can help.
    """
    read_file_names = _read_manifest if source.data_type == "ManifestFile" else _list_prefix
    file_names = read_file_names(object_store, source.uri)
    for name, reason in find_invalid_names(file_names.values()).items():
        raise ValueError(f"the key {name[:_NAME_MAX_CHARS]!r} {reason}")
    objects = list(file_names.items())
    if source.seed is not None:
        random.Random(source.seed).shuffle(objects)  # noqa: S311  an order, not a secret
    if source.distribution == "ShardedByS3Key":
        objects = objects[host_number::host_count]
    files = {uri: folder / name for uri, name in objects}
    object_store.download_all(files)
    for path in files.values() if source.is_read_only else ():
        path.chmod(READ_ONLY_MODE)
    return len(file_names)


def _list_prefix(object_store: ObjectStore, uri: str) -> dict[str, str]:
    """Map the URI of each object whose key begins with a prefix to its file name."""
    bucket, prefix = split_uri(uri)
    return {f"s3://{bucket}/{key}": build_local_name(key, prefix) for key in object_store.list_etags(uri)}


def _read_manifest(object_store: ObjectStore, uri: str) -> dict[str, str]:
    """Map the URI of each object that a manifest lists to its file name, in the manifest's order.

    A manifest is a JSON list: [{"prefix": "s3://..."}, "name", ...].
    """
    try:
        entries = json.loads(object_store.read(uri, MANIFEST_MAX_BYTES))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"the manifest is not JSON: {error}") from error
    if not isinstance(entries, list) or not entries:
        raise ValueError("the manifest is not a JSON list that begins with a prefix")
    prefix = entries[0].get("prefix") if isinstance(entries[0], dict) else None
    if not isinstance(prefix, str) or not prefix.startswith("s3://") or not split_uri(prefix)[0]:
        raise ValueError('the manifest does not begin with {"prefix": "s3://..."}')
    for entry in entries[1:]:
        if not isinstance(entry, str) or not entry:
            raise ValueError(f"the manifest has an entry that is not a key: {str(entry)[:_NAME_MAX_CHARS]!r}")
    return {prefix + entry: entry.lstrip("/") for entry in entries[1:]}


def _find_source_problem(source: Mapping[str, Any]) -> str:
    data_type, uri = source["S3DataType"], source["S3Uri"]
    if data_type == "AugmentedManifestFile":
        return "AugmentedManifestFile needs Pipe mode, which drydock does not have: use ManifestFile or S3Prefix."
    if data_type not in ("S3Prefix", "ManifestFile"):
        return f"S3DataType {data_type} is not supported by drydock: use S3Prefix or ManifestFile."
    if "InstanceGroupNames" in source:
        return "InstanceGroupNames is not supported by drydock: a job has one group of instances."
    bucket, key = split_uri(uri)
    if not uri.startswith("s3://") or not bucket:
        return f"{uri} is not an s3:// URI."
    if data_type == "ManifestFile" and (not key or key.endswith("/")):
        return f"{uri} must be the URI of one object, the manifest."
    return ""


def _find_mode_problem(channel: Mapping[str, Any]) -> str:
    if channel.get("InputMode") == "Pipe":
        return "InputMode Pipe is not supported by drydock: use File or FastFile."
    for member, reason in _PIPE_ONLY_OPTIONS.items():
        if channel.get(member, "None") != "None":
            return f"{member} {channel[member]} {reason}."
    return ""
