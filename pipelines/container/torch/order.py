"""Compute the order in which the samples of an epoch are read: a pure function of the seed and the epoch.

Samples are read in blocks (a row group of a Parquet file, some neighbors in a shard). The order of the blocks is random
in each epoch. Blocks that follow each other in this order form a buffer; the samples of a buffer are shuffled. So any
part of the order can be computed and read on its own, whatever was read before, and a reader has one buffer in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Positions = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Selection:
    """Samples of one buffer that follow each other in the order.

    Attributes:
        count: number of samples.
        blocks: number of each block to read, and the position of each of its samples among the `count` samples; -1 if
            the sample is not selected.
    """

    count: int
    blocks: Sequence[tuple[int, Positions]]


class EpochOrder:
    """The order of the samples of one epoch.

    Args:
        sizes: number of samples of each block.
        seed: seed, 0 or more. The same arguments give the same order, with any version of numpy.
        epoch: number of the epoch, 0 or more.
        buffer: smallest number of samples that are shuffled together (the last ones may be fewer); 0: nothing is
            shuffled, neither the blocks nor their samples.
    """

    def __init__(self, sizes: Sequence[int], seed: int, epoch: int, buffer: int) -> None:
        self._sizes, self._seeds, self._buffer = np.asarray(sizes, np.int64), (*_split_seed(seed), epoch), buffer
        self._blocks = self._draw(len(self._sizes), purpose=0)
        # Where each buffer begins, counted in blocks and in samples; the last entry is the end of the last buffer.
        self._block_bounds = _find_buffer_bounds(self._sizes[self._blocks], buffer)
        block_starts = np.concatenate(([0], np.cumsum(self._sizes[self._blocks])))
        self._sample_bounds = block_starts[self._block_bounds]

    @property
    def count(self) -> int:
        """Number of samples."""
        return int(self._sample_bounds[-1])

    def select(self, start: int, stop: int) -> Iterator[Selection]:
        """Yield the samples from the position `start` in the order up to `stop`, buffer by buffer."""
        number = int(np.searchsorted(self._sample_bounds, start, "right")) - 1
        while start < stop:
            buffer_start, buffer_stop = int(self._sample_bounds[number]), int(self._sample_bounds[number + 1])
            next_start = min(buffer_stop, stop)
            yield self._select_in_buffer(number, start - buffer_start, next_start - buffer_start)
            start, number = next_start, number + 1

    def _select_in_buffer(self, number: int, start: int, stop: int) -> Selection:
        """Return the samples of a buffer from its position `start` up to `stop`; `number` is the buffer, from 0."""
        blocks = self._blocks[self._block_bounds[number] : self._block_bounds[number + 1]]
        samples = self._draw(int(self._sizes[blocks].sum()), purpose=number + 1)[start:stop]
        positions = np.full(int(self._sizes[blocks].sum()), -1, np.int64)
        positions[samples] = np.arange(len(samples))
        parts = np.split(positions, np.cumsum(self._sizes[blocks])[:-1])
        return Selection(
            len(samples), [(int(block), part) for block, part in zip(blocks, parts, strict=True) if part.max() >= 0]
        )

    def _draw(self, count: int, purpose: int) -> Positions:
        """Draw a random order of `count` items: the blocks (purpose 0), or the samples of buffer N (purpose N + 1).

        The orders of different purposes are independent of each other.
        """
        if not self._buffer:
            return np.arange(count)
        # RandomState gives the same numbers in all versions of numpy; its other generators may change (NEP 19).
        return np.random.RandomState([*self._seeds, purpose]).permutation(count)


def _find_buffer_bounds(sizes: Positions, buffer: int) -> Positions:
    """Return where each buffer begins, as numbers of blocks, and the end of the last one.

    A buffer ends with the first block with which it has `buffer` samples or more. The last buffer may have fewer.
    """
    bounds, count = [0], 0
    for number, size in enumerate(sizes.tolist(), 1):
        count += size
        if count >= buffer:
            bounds.append(number)
            count = 0
    if bounds[-1] != len(sizes):
        bounds.append(len(sizes))
    return np.asarray(bounds, np.int64)


def _split_seed(seed: int) -> tuple[int, int]:
    """Return the lower 32 bits of a seed and the next 32 bits: RandomState accepts no larger numbers."""
    return seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF
