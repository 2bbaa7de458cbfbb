"""Define what the loader needs from a channel: blocks of samples that can be read, and batches made of them.

A block is what is read at once: a row group of a Parquet file, or some neighbors in a shard. The parts of a channel, by
which the number of processes is limited, are its row groups or its shards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from pipelines.container.torch.division import Spans
from pipelines.container.torch.order import EpochOrder, Selection
from pipelines.errors import DataError

Batch = dict[str, Any]
"""Maps each name to a tensor or a list, with an entry for each sample."""


class Samples(Protocol):
    """Samples in memory, in the order in which they are used."""

    def slice(self, start: int, stop: int) -> Any:
        """Return the samples from `start` up to `stop`."""


class Source(Protocol):
    """The samples of a channel. Cheap to copy to another process: it has no open file."""

    description: str
    """The channel and its parts in words, such as `the channel train has 3 shard(s)`."""
    identity: str
    """Text that differs if the names of the files or the sizes of their blocks differ. It does not depend on the values
    of the samples."""
    part_count: int
    """Number of parts of the channel. Each process needs one, so this is the largest number of processes."""
    part_name: str
    """What a part is: `shard` or `row group`."""
    part_hint: str
    """What to do if there are too few parts."""
    default_buffer: int
    """Smallest number of samples that are shuffled together, unless the script sets it."""

    @property
    def sizes(self) -> Sequence[int]:
        """Number of samples of each block."""

    def open(self) -> AbstractContextManager[Callable[[Selection], Samples]]:
        """Return a context manager that yields the function that reads samples, and closes the files at the end.

        Only one thread may use the function, because it has open files.
        """

    def collate(self, slices: Sequence[Any]) -> Batch:
        """Return a batch of slices of samples."""


def iterate_batches(source: Source, order: EpochOrder, spans: Spans, sizes: Iterator[int]) -> Iterator[Batch]:
    """Yield batches of the samples in some spans of the order.

    Args:
        source: the channel.
        order: order of the epoch.
        spans: the spans to read.
        sizes: number of samples of each batch. Their sum is the number of samples in `spans`.

    Raises:
        DataError: the data is damaged, or differs from what `source` found at its start. A retry cannot help.
    """
    slices: list[Any] = []
    missing_count = next(sizes, 0)
    with source.open() as read:
        for selection in (selection for span in spans for selection in order.select(*span)):
            samples, start = read(selection), 0
            while start < selection.count:
                stop = min(start + missing_count, selection.count)
                slices.append(samples.slice(start, stop))
                missing_count, start = missing_count - (stop - start), stop
                if not missing_count:
                    yield source.collate(slices)
                    slices, missing_count = [], next(sizes, 0)


def list_files(folder: Path, suffix: str) -> list[Path]:
    """List the files of a channel whose names end with a suffix, sorted by path. Hidden files are left out.

    Raises:
        DataError: there is no such file. A retry cannot help.
    """
    paths = [
        path
        for path in sorted(folder.rglob(f"*{suffix}"))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    if not paths:
        raise DataError(f"the channel {folder.name} has no file *{suffix}.", f"Its folder is {folder}.")
    return paths
