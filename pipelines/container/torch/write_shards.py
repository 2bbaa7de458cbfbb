"""Write samples as shards: tar files in WebDataset's format, each with an index that lets a reader begin anywhere."""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pipelines.container.torch.shard_entries import KEY, encode_entry
from pipelines.container.torch.shard_index import ShardIndex, get_index_path, write_index
from pipelines.errors import DataError

SHARD_BYTES = 64 * 2**20
"""Default size of a shard, bytes."""


def write_shards(
    folder: Path, samples: Iterable[Mapping[str, Any]], *, prefix: str = "shard", shard_bytes: int = SHARD_BYTES
) -> list[Path]:
    """Write samples as `PREFIX-000000.tar`, `PREFIX-000001.tar` ... The files appear when all samples are written.

    The same samples give the same bytes.

    Args:
        folder: folder of the shards; created if it does not exist.
        samples: entries of each sample, by name. The name's ending says how it is written: npy (an array), json, txt,
            cls (a whole number); the value of any other ending, such as jpg, is bytes. Bytes are written unchanged.
            `__key__` is the sample's key; without `__key__`, the key is the sample's number.
        prefix: start of the names.
        shard_bytes: when a shard has at least this number of bytes, the next one begins.

    Returns:
        The paths of the shards.

    Raises:
        DataError: there are such shards already, there is no sample, a sample has no entry, a key is not usable, two
            samples in a row have the same key, or a value does not suit its entry's name. A retry cannot help.
        OSError: the files cannot be written. Then no shard is written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if existing := sorted(folder.glob(f"{prefix}-*.tar")):
        hint = "Use another folder, or delete the old shards."
        raise DataError(f"{folder} has the shard {existing[0].name} already.", hint)
    temporary = Path(tempfile.mkdtemp(dir=folder, prefix=".making-"))
    try:
        paths = _write_all(temporary, samples, prefix, shard_bytes)
        # Each index is moved before its shard: without the index, a reader would not compare checksums.
        _move([file for path in paths for file in (get_index_path(path), path)], folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return [folder / path.name for path in paths]


def _move(files: Iterable[Path], folder: Path) -> None:
    """Move the files into a folder, in this order; if one cannot be moved, delete those already moved."""
    new_paths: list[Path] = []
    try:
        for file in files:
            new_paths.append(file.rename(folder / file.name))
    except OSError:
        for path in new_paths:
            path.unlink(missing_ok=True)
        raise


def _write_all(folder: Path, samples: Iterable[Mapping[str, Any]], prefix: str, shard_bytes: int) -> list[Path]:
    paths: list[Path] = []
    writer, last_key = None, None
    try:
        for number, sample in enumerate(samples):
            key = str(sample.get(KEY, f"{number:09d}"))
            _check_key(key, last_key)
            if writer is None or writer.size_bytes >= shard_bytes:
                if writer:
                    writer.close()
                paths.append(folder / f"{prefix}-{len(paths):06d}.tar")
                writer = _ShardWriter(paths[-1])
            writer.add(key, {name: value for name, value in sample.items() if name != KEY})
            last_key = key
    finally:
        if writer:
            writer.close()
    if not paths:
        raise DataError("there are no samples to write.")
    return paths


def _check_key(key: str, last_key: str | None) -> None:
    base = key.rpartition("/")[2]
    if not base or "." in base or base.startswith("__"):
        hint = "After its last slash, a key has at least one character, no dot, and no __ at the start."
        raise DataError(f"the key {key!r} is not usable.", hint)
    if key == last_key:
        raise DataError(f"two samples in a row have the key {key}: a reader would join them.", "Use unique keys.")


class _ShardWriter:
    """Write one shard, and its index when it is closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb")
        self._offsets, self._checksums = [0], list[int]()

    @property
    def size_bytes(self) -> int:
        return self._offsets[-1]

    def add(self, key: str, entries: Mapping[str, Any]) -> None:
        if not entries:
            raise DataError(f"the sample {key} has no entry.")
        buffer = io.BytesIO()
        tar = tarfile.TarFile(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT)
        for name, value in entries.items():
            content = encode_entry(key, name, value)
            member = tarfile.TarInfo(f"{key}.{name}")
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
        # Without `tar.close()`: the end of the archive is written once, after the last sample.
        self._file.write(buffer.getbuffer())
        self._offsets.append(self._offsets[-1] + buffer.tell())
        self._checksums.append(zlib.crc32(buffer.getbuffer()))

    def close(self) -> None:
        self._file.write(bytes(2 * tarfile.BLOCKSIZE))  # two empty blocks end a tar file
        self._file.close()
        write_index(self._path, ShardIndex(self._offsets, self._checksums))
