"""Find where the samples of a shard begin: from the index beside it, or from the headers of its files.

A shard is an uncompressed tar file in WebDataset's format: the files of a sample follow each other, and their names
differ only after the first dot. The index `NAME.index.json` beside `NAME.tar` is Leeway's; other tools ignore it.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.container.torch.shard_entries import check_entry, split_name
from pipelines.errors import DataError

INDEX_ENDING = ".index.json"
FORMAT = "leeway-shard-index 1"
"""Name and version of the index's format."""
REWRITE_HINT = "Write the shard again."


@dataclass(frozen=True)
class ShardIndex:
    """The positions of the samples in a shard.

    Attributes:
        offsets: where each sample begins, bytes, and where the last one ends.
        checksums: CRC-32 of the bytes of each sample; empty if they are not known.
    """

    offsets: Sequence[int]
    checksums: Sequence[int] = ()


def get_index_path(shard: Path) -> Path:
    """Return the path of a shard's index."""
    return shard.with_name(shard.name.removesuffix(".tar") + INDEX_ENDING)


def read_index(shard: Path) -> ShardIndex:
    """Read the index of a shard; if there is none, read the headers of the files in the shard.

    Raises:
        DataError: the index is damaged or that of another file. Or there is no index, and the shard is damaged or has
            an entry that is a pickle. A retry cannot help.
    """
    path = get_index_path(shard)
    if not path.exists():
        return scan_shard(shard)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        index = ShardIndex(content["offsets"], content["crc32"])
        is_complete = content["format"] == FORMAT and len(index.offsets) == len(index.checksums) + 1
        is_of_shard = content["size_bytes"] == shard.stat().st_size
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"the index {path.name} cannot be read: {error!r}", "Delete it: it is optional.") from None
    if not (is_complete and is_of_shard):
        raise DataError(f"the index {path.name} is not that of {shard.name}.", "Delete it, or write the shard again.")
    return index


def write_index(shard: Path, index: ShardIndex) -> None:
    """Write the index of a complete shard beside it."""
    content = {
        "format": FORMAT,
        "size_bytes": shard.stat().st_size,
        "offsets": list(index.offsets),
        "crc32": list(index.checksums),
    }
    get_index_path(shard).write_text(json.dumps(content), encoding="utf-8")


def scan_shard(shard: Path) -> ShardIndex:
    """Find the samples of a shard by the headers of its files.

    Raises:
        DataError: the shard is damaged, or has an entry that is a pickle. A retry cannot help.
    """
    offsets: list[int] = []
    last_key = None
    try:
        with tarfile.open(shard, "r:") as tar:
            for member, key, entry in iterate_members(tar):
                check_entry(shard.name, entry)
                if key != last_key:
                    offsets.append(member.offset)
                    last_key = key
            end = tar.offset
        _check_end(shard, end)
    except (tarfile.TarError, OSError) as error:
        raise DataError(f"{shard.name} is damaged: {error}.", REWRITE_HINT) from None
    return ShardIndex([*offsets, end])


def iterate_members(tar: tarfile.TarFile) -> Iterator[tuple[tarfile.TarInfo, str, str]]:
    """Yield the files of a shard, each with its sample's key and the entry's name.

    Folders and links are left out, and so are files whose name has no ending or begins with `__`.
    """
    for member in tar:
        key, entry = split_name(member.name)
        if member.isreg() and entry and not key.rpartition("/")[2].startswith("__"):
            yield member, key, entry


def _check_end(shard: Path, end: int) -> None:
    """Check that the archive ends where the last file ends. tarfile stops at a damaged header without an error."""
    with shard.open("rb") as file:
        file.seek(end)
        block = file.read(tarfile.BLOCKSIZE)
    if block != bytes(tarfile.BLOCKSIZE):
        raise DataError(f"{shard.name} is damaged, or not complete, at byte {end:,}.", REWRITE_HINT)
