"""Read the batches of a process ahead of time, in a thread or in worker processes."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from pipelines.container.torch.division import Division
from pipelines.container.torch.order import EpochOrder
from pipelines.container.torch.sources import Batch, Source, iterate_batches
from pipelines.errors import DataError, RetryableError


@dataclass(frozen=True)
class EpochPart:
    """The part of an epoch that a process reads.

    Attributes:
        source: the channel.
        order: order of the epoch.
        division: what each process and each of its workers reads.
        rank: number of this process.
        finished_steps: number of steps of the epoch that the training has made already.
    """

    source: Source
    order: EpochOrder
    division: Division
    rank: int
    finished_steps: int

    def iterate(self, worker_position: int) -> Iterator[Batch]:
        """Return the batches of one worker.

        Args:
            worker_position: which worker: 0 makes the next batch of the process, 1 the batch after it, and so on.
        """
        worker = (self.finished_steps + worker_position) % self.division.workers
        spans = self.division.get_spans(self.rank, worker, self.finished_steps)
        sizes = self.division.iterate_batch_sizes(self.rank, worker, self.finished_steps)
        return iterate_batches(self.source, self.order, spans, sizes)


def read_in_thread(part: EpochPart, prefetch: int, *, is_pinned: bool) -> Generator[Batch, None, None]:
    """Yield batches that a thread reads, up to `prefetch` of them ahead."""
    batches = part.iterate(worker_position=0)  # there is only one worker: the thread

    def read() -> Batch | None:
        batch = next(batches, None)
        return _pin(batch) if batch is not None and is_pinned else batch

    with ThreadPoolExecutor(1, "loader") as pool:
        pending_batches: deque[Future[Batch | None]] = deque(pool.submit(read) for _ in range(prefetch))
        try:
            while (batch := pending_batches.popleft().result()) is not None:
                pending_batches.append(pool.submit(read))
                yield batch
        finally:
            for future in pending_batches:
                future.cancel()


def read_in_workers(
    part: EpochPart, prefetch: int, *, is_pinned: bool, seed: int, start_method: str | None
) -> Generator[Batch, None, None]:
    """Yield batches that the worker processes of a torch DataLoader read, each of them `prefetch` ahead.

    Raises:
        DataError: the data is damaged, or cannot be made into batches. A retry cannot help.
        RetryableError: a worker was killed. A retry with fewer workers can help.
    """
    batches = DataLoader(
        _EpochDataset(part),
        batch_size=None,
        num_workers=part.division.workers,
        prefetch_factor=prefetch,
        pin_memory=is_pinned,
        collate_fn=_return_batch,
        worker_init_fn=_ignore_signals,
        multiprocessing_context=start_method,
        # With a generator of its own, the loader does not change the random numbers of the training.
        generator=torch.Generator().manual_seed(seed),
    )
    try:
        for batch in batches:
            if isinstance(batch, _Failure):
                raise DataError(batch.message, batch.hint)
            yield batch
    except RuntimeError as error:
        if "DataLoader worker" not in str(error):
            raise
        hint = "Perhaps the memory or /dev/shm is too small: use fewer workers, or a smaller buffer or prefetch."
        raise RetryableError(f"a worker of the loader was killed: {error}", hint) from None


@dataclass(frozen=True)
class _Failure:
    """An error of a worker, as it is sent to the training: torch would add a traceback of many lines."""

    message: str
    hint: str


class _EpochDataset(IterableDataset[Any]):
    """The part that a process reads, for torch's workers: torch yields a batch of each worker in turn."""

    def __init__(self, part: EpochPart) -> None:
        self._part = part

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        try:
            yield from self._part.iterate(info.id if info else 0)
        except DataError as error:
            yield _Failure(error.message, error.hint)


def _pin(batch: Batch) -> Batch:
    return {name: value.pin_memory() if isinstance(value, torch.Tensor) else value for name, value in batch.items()}


def _return_batch(batch: Any) -> Any:
    """Return a batch unchanged: torch's own function would convert it."""
    return batch


def _ignore_signals(_: int) -> None:
    """Ignore the signals that stop a job: the training decides when it ends, and its workers end with it.

    The signals are sent to all processes of a job. A worker that ended would break the training before the
    training has saved its last checkpoint.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
