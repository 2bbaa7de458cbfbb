"""Divide what is left of an epoch among the processes of a training and their workers.

Each reader (a worker of a process) gets parts of the order that follow each other, so that it reads few blocks that
others read, too. After any number of steps, what is left is known on each process without asking the others: all have
taken the same number of steps. So another number of processes can divide it anew, and no sample is lost or repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from pipelines.errors import DataError

Spans = tuple[tuple[int, int], ...]
"""Parts of the order of an epoch: each from a position up to another one, in ascending order."""


@dataclass(frozen=True)
class Division:
    """The division of the rest of an epoch among readers.

    All processes have the same number of steps. Their shares differ by at most one sample. The batches of a process
    come from its workers in turn.

    Attributes:
        spans: what is left of the epoch.
        processes: number of processes of the training, at least 1.
        workers: number of workers of each process, at least 1.
        batch_size: samples in a batch of a process. Only the last batch has another number: at least 1, and at most
            one more than `batch_size`.

    Raises:
        DataError: fewer samples are left than there are processes. A retry with fewer processes can help.
    """

    spans: Spans
    processes: int
    workers: int
    batch_size: int

    def __post_init__(self) -> None:
        """Check that each process gets a sample, or that none is left."""
        if 0 < self.sample_count < self.processes:
            raise DataError(
                f"{self.sample_count} sample(s) of the epoch are left for {self.processes} processes.",
                "Use fewer hosts, or begin at the next epoch.",
            )

    @property
    def sample_count(self) -> int:
        """Number of samples that are left, of all processes."""
        return count_samples(self.spans)

    @property
    def steps(self) -> int:
        """Number of steps, the same for all processes."""
        return -(-(self.sample_count // self.processes) // self.batch_size)

    def get_spans(self, rank: int, worker: int, finished_steps: int) -> Spans:
        """Return the parts that a worker of a process reads after the first `finished_steps` steps."""
        return _skip(self._cut()[rank * self.workers + worker], self._count_taken_samples(rank, worker, finished_steps))

    def iterate_batch_sizes(self, rank: int, worker: int, finished_steps: int) -> Iterator[int]:
        """Yield the number of samples of each batch that a worker makes after the first `finished_steps` steps."""
        first = finished_steps + (worker - finished_steps) % self.workers
        for step in range(first, self.steps, self.workers):
            yield self._count_in_batch(rank, step)

    def find_rest(self, finished_steps: int) -> Spans:
        """Return what is left of the epoch when each process has taken `finished_steps` steps."""
        readers = [(rank, worker) for rank in range(self.processes) for worker in range(self.workers)]
        return merge(
            span
            for reader, spans in zip(readers, self._cut(), strict=True)
            for span in _skip(spans, self._count_taken_samples(*reader, finished_steps))
        )

    def _cut(self) -> list[Spans]:
        """Return the parts of each reader, by process and worker."""
        spans, parts = self.spans, []
        for rank in range(self.processes):
            for worker in range(self.workers):
                part, spans = _cut_at(spans, self._count_taken_samples(rank, worker, self.steps))
                parts.append(part)
        return parts

    def _count_taken_samples(self, rank: int, worker: int, finished_steps: int) -> int:
        """Return the number of samples in the batches of a worker among the first `finished_steps` steps."""
        batches = -(-(finished_steps - worker) // self.workers) if finished_steps > worker else 0
        if not batches:
            return 0
        last = worker + (batches - 1) * self.workers
        return (batches - 1) * self.batch_size + self._count_in_batch(rank, last)

    def _count_in_batch(self, rank: int, step: int) -> int:
        if step < self.steps - 1:
            return self.batch_size
        share = self.sample_count // self.processes + (rank < self.sample_count % self.processes)
        return share - (self.steps - 1) * self.batch_size


def count_samples(spans: Spans) -> int:
    """Return the number of samples in the parts."""
    return sum(stop - start for start, stop in spans)


def merge(spans: Iterable[tuple[int, int]]) -> Spans:
    """Join parts that follow each other directly. The parts are in ascending order and do not overlap."""
    merged_spans: list[tuple[int, int]] = []
    for start, stop in spans:
        if merged_spans and merged_spans[-1][1] == start:
            merged_spans[-1] = (merged_spans[-1][0], stop)
        else:
            merged_spans.append((start, stop))
    return tuple(merged_spans)


def are_valid(spans: Spans, count: int) -> bool:
    """Return whether the parts are in ascending order, do not overlap, are not empty, and end at most at `count`."""
    bounds = [0, *(bound for span in spans for bound in span), count]
    return all(left <= next_bound for left, next_bound in pairwise(bounds)) and all(
        start < stop for start, stop in spans
    )


def _cut_at(spans: Spans, count: int) -> tuple[Spans, Spans]:
    """Return the first `count` samples, and the others."""
    first: list[tuple[int, int]] = []
    for number, (start, stop) in enumerate(spans):
        if count < stop - start:
            cut = start + count
            return (*first, *([(start, cut)] if count else [])), ((cut, stop), *spans[number + 1 :])
        first.append((start, stop))
        count -= stop - start
    return tuple(first), ()


def _skip(spans: Spans, count: int) -> Spans:
    return _cut_at(spans, count)[1]
