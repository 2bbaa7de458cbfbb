"""Read the samples of the shards of a channel: tar files in WebDataset's format. Nothing is unpickled."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from torch.utils.data import default_collate

from pipelines.container.torch.order import Selection
from pipelines.container.torch.shard_entries import decode_sample
from pipelines.container.torch.shard_index import REWRITE_HINT, iterate_members, read_index
from pipelines.container.torch.sources import Batch, list_files
from pipelines.errors import DataError, LeewayError

BLOCK_BYTES = 4 * 2**20
"""Largest number of bytes of a shard that are read at once; a larger sample is read alone."""
DEFAULT_BUFFER = 1_000
"""Smallest number of samples that are shuffled together, unless the script sets it."""


class RawSample(NamedTuple):
    """A sample as it is in the shard."""

    shard: str
    key: str
    entries: dict[str, bytes]


@dataclass(frozen=True)
class RawSamples:
    """Samples in memory."""

    samples: Sequence[RawSample]

    def slice(self, start: int, stop: int) -> Sequence[RawSample]:
        """Return the samples from `start` up to `stop`."""
        return self.samples[start:stop]


class _Block(NamedTuple):
    """Samples of a shard that follow each other.

    Attributes:
        shard: path of the shard.
        offset: where the first sample begins in the shard, bytes.
        size_bytes: bytes of all samples.
        checksums: CRC-32 of each sample; empty if they are not known.
        lengths: bytes of each sample.
    """

    shard: Path
    offset: int
    size_bytes: int
    checksums: Sequence[int]
    lengths: Sequence[int]


class Shards:
    """The samples of all shards (`*.tar`) of a channel.

    Entries whose names end with npy, json, txt and cls become arrays, JSON values, text and whole numbers; other
    entries stay bytes. A sample's key is its value `__key__`.

    Args:
        folder: folder of the channel.
        decode: function that gets the values of a sample, and returns its values for the batch, such as the pixels of a
            JPEG file. It runs in the loader's workers or thread.

    Raises:
        DataError: there is no shard or no sample, an index is damaged or that of another file, or a shard without an
            index is damaged or has an entry that is a pickle. In a shard with an index, damage and pickles are found
            when the samples are read. A retry cannot help.
    """

    part_name = "shard"
    part_hint = "Write more shards: `write_shards(..., shard_bytes=...)`."
    default_buffer = DEFAULT_BUFFER

    def __init__(self, folder: Path, decode: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None) -> None:
        self._decode, paths = decode, list_files(folder, ".tar")
        self._blocks = [block for path in paths for block in _split_into_blocks(path)]
        self.sizes = [len(block.lengths) for block in self._blocks]
        if not self.sizes:
            raise DataError(f"the channel {folder.name} has no samples.", f"Its {len(paths)} shard(s) are in {folder}.")
        self.part_count = len({block.shard for block in self._blocks})
        self.description = f"the channel {folder.name} has {self.part_count} shard(s)"
        digest = hashlib.sha256()
        for block in self._blocks:
            digest.update(f"{block.shard.relative_to(folder)}\n{block.offset} {list(block.lengths)}\n".encode())
        self.identity = digest.hexdigest()

    @contextmanager
    def open(self) -> Iterator[Callable[[Selection], RawSamples]]:
        """Yield the function that reads the samples of a selection."""
        yield self._read

    def collate(self, slices: Sequence[Sequence[RawSample]]) -> Batch:
        """Decode the samples, and stack their values: numbers and arrays become tensors, all other values lists.

        Raises:
            DataError: a sample cannot be decoded, or has other entries or another shape than the rest. A retry
                cannot help.
        """
        samples = [self._decode_sample(sample) for samples in slices for sample in samples]
        names = samples[0].keys()
        for values in samples:
            if values.keys() != names:
                raise DataError(f"a sample has {', '.join(values)}, and another one {', '.join(names)}.", _DECODE_HINT)
        try:
            return {name: _stack([values[name] for values in samples]) for name in names}
        except (RuntimeError, TypeError, ValueError) as error:
            raise DataError(f"the samples of a batch cannot be stacked: {error}.", _DECODE_HINT) from None

    def _decode_sample(self, sample: RawSample) -> Mapping[str, Any]:
        values = decode_sample(sample.shard, sample.key, sample.entries)
        if self._decode is None:
            return values
        try:
            return self._decode(values)
        except LeewayError:
            raise
        except Exception as error:  # the script's own function
            text = f"{type(error).__name__}: {error}"
            raise DataError(f"`decode` failed for the sample {sample.key} of {sample.shard}: {text}.") from None

    def _read(self, selection: Selection) -> RawSamples:
        samples: list[Any] = [None] * selection.count
        for number, positions in selection.blocks:
            for position, sample in zip(positions, _read_block(self._blocks[number]), strict=True):
                if position >= 0:
                    samples[position] = sample
        return RawSamples(samples)


_DECODE_HINT = "Give `Shards` a function `decode` that returns the same names and shapes for all samples."


def _stack(values: Sequence[Any]) -> Any:
    """Return a tensor of numbers, arrays or tensors; other values stay a list."""
    if isinstance(values[0], (str, bytes, dict, list, type(None))):
        return list(values)
    return default_collate(list(values))


def _split_into_blocks(path: Path) -> Iterator[_Block]:
    """Yield the blocks of a shard. Each has as many samples as fit into `BLOCK_BYTES`, and at least one."""
    index = read_index(path)
    offsets, first = index.offsets, 0
    while first < len(offsets) - 1:
        stop = first + 1
        while stop < len(offsets) - 1 and offsets[stop + 1] - offsets[first] <= BLOCK_BYTES:
            stop += 1
        lengths = [offsets[number + 1] - offsets[number] for number in range(first, stop)]
        yield _Block(path, offsets[first], offsets[stop] - offsets[first], index.checksums[first:stop], lengths)
        first = stop


def _read_block(block: _Block) -> list[RawSample]:
    try:
        with block.shard.open("rb") as file:
            file.seek(block.offset)
            content = file.read(block.size_bytes)
        _compare_checksums(block, content)
        samples: list[RawSample] = []
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as tar:
            for member, key, entry in iterate_members(tar):
                if not samples or samples[-1].key != key:
                    samples.append(RawSample(block.shard.name, key, {}))
                start = member.offset_data
                samples[-1].entries[entry] = content[start : start + member.size]
    except (tarfile.TarError, OSError) as error:
        raise DataError(f"{block.shard.name} cannot be read at byte {block.offset:,}: {error}.", REWRITE_HINT) from None
    if len(samples) != len(block.lengths) or len(content) != block.size_bytes:
        counts = f"{len(samples)} of {len(block.lengths)} samples"
        raise DataError(
            f"{block.shard.name} is damaged after byte {block.offset:,}: {counts} were found.", REWRITE_HINT
        )
    return samples


def _compare_checksums(block: _Block, content: bytes) -> None:
    start = 0
    # strict=False: a shard without an index has no checksums.
    for checksum, length in zip(block.checksums, block.lengths, strict=False):
        if zlib.crc32(content[start : start + length]) != checksum:
            raise DataError(f"{block.shard.name} is damaged at byte {block.offset + start:,}.", REWRITE_HINT)
        start += length
