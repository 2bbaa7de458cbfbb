"""Divide the remaining samples of an epoch among the processes of a training and their workers.

Each worker of a process gets spans of the epoch's order that follow each other, so that few blocks of the data are read
by more than one worker. At a checkpoint, all processes have finished the same number of steps. So each process can
compute the remaining samples without a message from the others, and a restart with another number of processes neither
loses nor repeats a sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from pipelines.errors import DataError

Spans = tuple[tuple[int, int], ...]
"""Spans of positions in the order of an epoch, in ascending order. Each span is its first position, and the position
after its last one."""


@dataclass(frozen=True)
class Division:
    """The division of the remaining samples of an epoch among the workers of all processes.

    All processes have the same number of steps. Their numbers of samples differ by at most one. The workers of a
    process make its batches in turn.

    Attributes:
        spans: the remaining samples of the epoch.
        processes: number of processes of the training, at least 1.
        workers: number of workers of each process, at least 1.
        batch_size: samples in a batch of a process. Only the last batch may have another number of samples, from 1 to
            `batch_size` + 1.

    Raises:
        DataError: some samples are left, but fewer than there are processes. A retry with fewer processes can help.
        ValueError: processes, workers or batch_size is less than 1.
    """

    spans: Spans
    processes: int
    workers: int
    batch_size: int

    def __post_init__(self) -> None:
        """Check the numbers. Check that each process gets a sample, unless no sample is left."""
        numbers = (self.processes, self.workers, self.batch_size)
        if min(numbers) < 1:
            raise ValueError(f"processes, workers and batch_size are at least 1, not {numbers}")
        if 0 < self.sample_count < self.processes:
            raise DataError(
                f"{self.sample_count} sample(s) of the epoch are left for {self.processes} processes.",
                "Use fewer hosts, or begin at the next epoch.",
            )

    @property
    def sample_count(self) -> int:
        """Number of remaining samples, of all processes together."""
        return count_samples(self.spans)

    @property
    def steps(self) -> int:
        """Number of steps, the same for all processes. Some processes may have one sample more, in the last step."""
        return -(-(self.sample_count // self.processes) // self.batch_size)

    def get_spans(self, rank: int, worker: int, finished_steps: int) -> Spans:
        """Return the spans that a worker of a process reads after the first `finished_steps` steps."""
        all_spans = self._list_worker_spans()[rank * self.workers + worker]
        return _drop_first(all_spans, self._count_taken_samples(rank, worker, finished_steps))

    def iterate_batch_sizes(self, rank: int, worker: int, finished_steps: int) -> Iterator[int]:
        """Yield the number of samples of each batch that a worker makes after the first `finished_steps` steps."""
        first_step = finished_steps + (worker - finished_steps) % self.workers
        for step in range(first_step, self.steps, self.workers):
            yield self._count_in_batch(rank, step)

    def find_remaining_spans(self, finished_steps: int) -> Spans:
        """Return the samples of the epoch that remain after each process has finished `finished_steps` steps."""
        workers = [(rank, worker) for rank in range(self.processes) for worker in range(self.workers)]
        return merge(
            span
            for (rank, worker), spans in zip(workers, self._list_worker_spans(), strict=True)
            for span in _drop_first(spans, self._count_taken_samples(rank, worker, finished_steps))
        )

    def _list_worker_spans(self) -> list[Spans]:
        """Return the spans of each worker, ordered by process and worker."""
        remaining_spans, worker_spans = self.spans, []
        for rank in range(self.processes):
            for worker in range(self.workers):
                count = self._count_taken_samples(rank, worker, self.steps)
                spans, remaining_spans = _split_after(remaining_spans, count)
                worker_spans.append(spans)
        return worker_spans

    def _count_taken_samples(self, rank: int, worker: int, finished_steps: int) -> int:
        """Return the number of samples in the batches that a worker makes for the first `finished_steps` steps."""
        batch_count = -(-(finished_steps - worker) // self.workers) if finished_steps > worker else 0
        if not batch_count:
            return 0
        last_step = worker + (batch_count - 1) * self.workers
        return (batch_count - 1) * self.batch_size + self._count_in_batch(rank, last_step)

    def _count_in_batch(self, rank: int, step: int) -> int:
        if step < self.steps - 1:
            return self.batch_size
        process_samples = self.sample_count // self.processes + (rank < self.sample_count % self.processes)
        return process_samples - (self.steps - 1) * self.batch_size


def count_samples(spans: Spans) -> int:
    """Return the number of samples in the spans."""
    return sum(stop - start for start, stop in spans)


def merge(spans: Iterable[tuple[int, int]]) -> Spans:
    """Join spans that follow each other directly. The spans are in ascending order and do not overlap."""
    merged_spans: list[tuple[int, int]] = []
    for start, stop in spans:
        if merged_spans and merged_spans[-1][1] == start:
            merged_spans[-1] = (merged_spans[-1][0], stop)
        else:
            merged_spans.append((start, stop))
    return tuple(merged_spans)


def are_valid(spans: Spans, count: int) -> bool:
    """Return whether the spans are in ascending order, do not overlap, end at most at `count`, and none is empty."""
    bounds = [0, *(bound for span in spans for bound in span), count]
    is_ascending = all(bound <= next_bound for bound, next_bound in pairwise(bounds))
    return is_ascending and all(start < stop for start, stop in spans)


def _split_after(spans: Spans, count: int) -> tuple[Spans, Spans]:
    """Return the spans of the first `count` samples, and the spans of the other samples."""
    first_spans: list[tuple[int, int]] = []
    for number, (start, stop) in enumerate(spans):
        if count < stop - start:
            middle = start + count
            return (*first_spans, *([(start, middle)] if count else [])), ((middle, stop), *spans[number + 1 :])
        first_spans.append((start, stop))
        count -= stop - start
    return tuple(first_spans), ()


def _drop_first(spans: Spans, count: int) -> Spans:
    return _split_after(spans, count)[1]
