"""Input channels: from what InputDataConfig asks for to the files that one host reads."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drydock.transfer.objects import ObjectStore, split_uri
from drydock.transfer.placement import faults, local_name

MANIFEST_MAX_BYTES = 100_000_000
READ_ONLY = 0o444
_QUOTED_CHARS = 120

# What SageMaker itself only does in Pipe mode, which drydock does not have.
_PIPE_ONLY = {
    "CompressionType": "is only used in Pipe mode: in File mode leave it unset, and the objects arrive as they are",
    "RecordWrapperType": "is only used in Pipe mode: in File mode leave it unset",
}


def check(channel: Mapping[str, Any]) -> str:
    """Return what is wrong with an entry of InputDataConfig, before anything runs; "" where nothing is.

    Args:
        channel: The entry, of the shape that the API asks for.
    """
    source = channel["DataSource"].get("S3DataSource")
    reason = "drydock reads S3DataSource only." if source is None else _source_fault(source) or _mode_fault(channel)
    return reason and f"Channel {channel['ChannelName']}: {reason}"


def download(
    store: ObjectStore,
    channel: Mapping[str, Any],
    folder: Path,
    *,
    host_number: int,
    host_count: int,
    default_mode: str,
) -> int:
    """The folder holds what one host reads of the channel.

    Args:
        store: S3.
        channel: One entry of InputDataConfig, as in the API.
        folder: The channel's folder on this host.
        host_number: Which host, from 0.
        host_count: How many the job has.
        default_mode: The job's TrainingInputMode; the channel's own InputMode wins. FastFile gives read-only files.

    Returns:
        As `download_source`.

    Raises:
        As `download_source`.
    """
    source = channel["DataSource"]["S3DataSource"]
    return download_source(
        store,
        uri=source["S3Uri"],
        data_type=source["S3DataType"],
        distribution=source.get("S3DataDistributionType", "FullyReplicated"),
        folder=folder,
        host_number=host_number,
        host_count=host_count,
        seed=channel.get("ShuffleConfig", {}).get("Seed"),
        read_only=channel.get("InputMode", default_mode) == "FastFile",
    )


def download_source(
    store: ObjectStore,
    *,
    uri: str,
    data_type: str,
    distribution: str,
    folder: Path,
    host_number: int,
    host_count: int,
    seed: int | None = None,
    read_only: bool = False,
) -> int:
    """The folder holds one host's share of a source: all of it, or with ShardedByS3Key every host_count-th object.

    Args:
        store: S3.
        uri: The prefix or the manifest.
        data_type: S3Prefix or ManifestFile.
        distribution: FullyReplicated or ShardedByS3Key.
        folder: Where the files go.
        host_number: Which host, from 0.
        host_count: How many share the source.
        seed: Shuffles the objects before they are shared out; on a disk order has no other meaning.
        read_only: The files cannot be written.

    Returns:
        How many objects the source has, for all hosts together: 0 means that there is nothing to read. A host whose
        share is empty is no failure; SageMaker documents that it runs, and costs, without data.

    Raises:
        ClientError: NoSuchBucket, or S3 failed.
        ValueError: The manifest is none, it names an object that is not there, or a key cannot be a file.
        OSError: The disk is full or not writable.
    """
    names = _manifest(store, uri) if data_type == "ManifestFile" else _prefix(store, uri)
    for name, reason in faults(names.values()).items():
        raise ValueError(f"the key {name[:_QUOTED_CHARS]!r} {reason}")
    share = list(names.items())
    if seed is not None:
        random.Random(seed).shuffle(share)  # noqa: S311  an order, no secret
    if distribution == "ShardedByS3Key":
        share = share[host_number::host_count]
    files = {source: folder / name for source, name in share}
    store.download_all(files)
    for path in files.values() if read_only else ():
        path.chmod(READ_ONLY)
    return len(names)


def _prefix(store: ObjectStore, uri: str) -> dict[str, str]:
    bucket, prefix = split_uri(uri)
    return {f"s3://{bucket}/{key}": local_name(key, prefix) for key in store.etags(uri)}


def _manifest(store: ObjectStore, uri: str) -> dict[str, str]:
    """Return the URIs of a manifest, in its order, with their names: [{"prefix": "s3://..."}, "name", ...]."""
    try:
        lines = json.loads(store.read(uri, MANIFEST_MAX_BYTES))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"the manifest is not JSON: {error}") from error
    if not isinstance(lines, list) or not lines:
        raise ValueError("the manifest is not a JSON list that begins with a prefix")
    prefix = lines[0].get("prefix") if isinstance(lines[0], dict) else None
    if not isinstance(prefix, str) or not prefix.startswith("s3://") or not split_uri(prefix)[0]:
        raise ValueError('the manifest does not begin with {"prefix": "s3://..."}')
    for line in lines[1:]:
        if not isinstance(line, str) or not line:
            raise ValueError(f"the manifest has an entry that is no key: {str(line)[:_QUOTED_CHARS]!r}")
    return {prefix + line: line.lstrip("/") for line in lines[1:]}


def _source_fault(source: Mapping[str, Any]) -> str:
    kind, uri = source["S3DataType"], source["S3Uri"]
    if kind == "AugmentedManifestFile":
        return "AugmentedManifestFile needs Pipe mode, which drydock does not have: use ManifestFile or S3Prefix."
    if kind not in ("S3Prefix", "ManifestFile"):
        return f"S3DataType {kind} is not supported by drydock: use S3Prefix or ManifestFile."
    if "InstanceGroupNames" in source:
        return "InstanceGroupNames is not supported by drydock: a job has one group of instances."
    bucket, key = split_uri(uri)
    if not uri.startswith("s3://") or not bucket:
        return f"{uri} is not an s3:// URI."
    if kind == "ManifestFile" and (not key or key.endswith("/")):
        return f"{uri} names no object, which a ManifestFile is."
    return ""


def _mode_fault(channel: Mapping[str, Any]) -> str:
    if channel.get("InputMode") == "Pipe":
        return "InputMode Pipe is not supported by drydock: use File or FastFile."
    for member, reason in _PIPE_ONLY.items():
        if channel.get(member, "None") != "None":
            return f"{member} {channel[member]} {reason}."
    return ""
