"""Load batches for a training with torch: in a random order, ahead of time, and resumable after each batch.

Example:
    loader = Loader(ParquetRows(folder), batch_size=256, seed=7, rank=rank, processes=processes, workers=2)
    if checkpoint:
        loader.load_state_dict(checkpoint.state["loader"])
    while loader.epoch < epochs:
        for batch in loader:  # what is left of the epoch
            ...  # loader.state_dict() is the position after this batch
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import torch

from pipelines.container.torch.division import Division, are_valid, count_samples
from pipelines.container.torch.order import EpochOrder
from pipelines.container.torch.readers import EpochPart, read_in_thread, read_in_workers
from pipelines.container.torch.sources import Batch, Source
from pipelines.errors import DataError, RetryableError

STATE_VERSION = 1
"""Version of the format of a position."""
MAX_EPOCHS = 2**32
"""Largest number of epochs: the number of an epoch is a 32-bit part of the seed of its order."""
_HINT = "Use another checkpoint folder, or the same data and arguments as before."


class Loader:
    """Iterate over the batches of a process of a training, epoch by epoch.

    In an epoch, the processes together get each sample exactly once, and all of them get the same number of batches,
    whatever the numbers of processes, workers and samples. A loop over the loader gets the rest of the epoch: after a
    `break`, the next loop continues with the next batch. The same arguments give the same batches.

    Args:
        source: the channel: `ParquetRows` or `Shards`. All hosts must have the same channel.
        batch_size: samples in a batch of one process. The last batch of an epoch has 1 to
            `batch_size` + 1 samples.
        seed: seed of the order.
        shuffle: whether the order is random; if not, samples have the order of the files.
        buffer: smallest number of samples that are shuffled together, in the memory of each reader; None: the default
            of the source.
        rank: number of this process, from 0.
        processes: number of processes of the training, on all hosts.
        workers: number of processes that read for this one; 0: a thread reads.
        prefetch: batches that each reader prepares ahead.
        pin_memory: whether batches are put into pinned memory, from which copies to a GPU are faster; None: if
            torch finds CUDA.
        start_method: how workers start (fork, forkserver or spawn); None: torch's default.

    Raises:
        DataError: there are more processes than parts (shards, or row groups) of the channel. A retry with fewer
            processes can help.
        ValueError: an argument is out of range.
    """

    def __init__(
        self,
        source: Source,
        batch_size: int,
        *,
        seed: int = 0,
        shuffle: bool = True,
        buffer: int | None = None,
        rank: int = 0,
        processes: int = 1,
        workers: int = 0,
        prefetch: int = 2,
        pin_memory: bool | None = None,
        start_method: str | None = None,
    ) -> None:
        if min(batch_size, prefetch, processes) < 1 or min(workers, seed) < 0 or not 0 <= rank < processes:
            raise ValueError(
                "batch_size, prefetch and processes are at least 1, workers and seed at least 0, and rank is from 0 "
                f"to processes - 1, not {batch_size}, {prefetch}, {processes}, {workers}, {seed} and {rank}"
            )
        if processes > source.part_count:
            raise DataError(f"{source.description}, for {processes} processes (hosts x GPUs).", _format_hint(source))
        self._source, self._batch_size, self._seed, self._rank = source, batch_size, seed, rank
        self._buffer = max(1, source.default_buffer if buffer is None else buffer) if shuffle else 0
        self._processes, self._workers, self._prefetch = processes, workers, prefetch
        self._pin_memory = torch.cuda.is_available() if pin_memory is None else pin_memory
        self._start_method = start_method
        self._sample_count = sum(source.sizes)
        self._begin_epoch(0)

    @property
    def epoch(self) -> int:
        """Number of epochs that are complete.

        After a `break` at the last batch of an epoch, the epoch is complete only after the next loop, which yields
        nothing.
        """
        return self._epoch

    @property
    def steps_left(self) -> int:
        """Number of batches that are left of the epoch, the same for all processes."""
        return self._division.steps - self._steps_done

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches that are left of the epoch.

        Raises:
            DataError: the data is damaged, or cannot be made into batches. A retry cannot help.
            RetryableError: a worker was killed. A retry with fewer workers can help.
        """
        with closing(self._read()) as batches:
            for batch in batches:
                self._steps_done += 1
                yield batch
        if self.steps_left:
            raise RetryableError(f"the loader's workers ended {self.steps_left} batches before the end of the epoch.")
        self._begin_epoch(self._epoch + 1)

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last batch that was yielded, as JSON values: the same on all processes.

        With the same numbers of processes and workers and the same batch size, the training resumes with the batches
        that it would have had. With other numbers, it gets the samples that are left, each once.
        """
        division = self._division
        return {
            "version": STATE_VERSION,
            "order": self._digest,
            "epoch": self._epoch,
            "samples_done": self._sample_count - count_samples(division.find_remaining_spans(self._steps_done)),
            "spans": [list(span) for span in division.spans],
            "division": [division.processes, division.workers, division.batch_size],
            "steps": self._steps_done,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a position: the next loop yields what is left of its epoch.

        Raises:
            DataError: the state is not a position, has another version of the format, or belongs to other data or
                another order: a retry cannot help. Or fewer samples are left than there are processes: a retry with
                fewer processes can help.
        """
        try:
            spans = tuple((int(start), int(stop)) for start, stop in state["spans"])
            division, finished_steps = Division(spans, *map(int, state["division"])), int(state["steps"])
            epoch, order, version = int(state["epoch"]), state["order"], state["version"]
            is_readable = 0 <= epoch < MAX_EPOCHS and 0 <= finished_steps <= division.steps
        except (KeyError, TypeError, ValueError, OverflowError):
            is_readable = False
        if is_readable and (version != STATE_VERSION or order != self._digest):
            is_other_version = version != STATE_VERSION
            difference = "another version" if is_other_version else "other data, another seed or another buffer"
            raise DataError(f"the loader's position in the checkpoint is that of {difference}.", _HINT)
        if not is_readable or not are_valid(spans, self._sample_count):
            raise DataError("the checkpoint has no position of the loader that can be read.", _HINT)
        own_division = self._divide(spans)
        if division == own_division:
            self._epoch, self._division, self._steps_done = epoch, division, finished_steps
        else:
            self._division = self._divide(division.find_remaining_spans(finished_steps))
            self._epoch, self._steps_done = epoch, 0

    @property
    def _digest(self) -> str:
        """Digest of the data and of what decides their order, 16 hex digits."""
        text = f"{self._source.identity} {self._seed} {self._buffer}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _begin_epoch(self, epoch: int) -> None:
        self._epoch, self._division, self._steps_done = epoch, self._divide(((0, self._sample_count),)), 0

    def _divide(self, spans: tuple[tuple[int, int], ...]) -> Division:
        return Division(spans, self._processes, max(1, self._workers), self._batch_size)

    def _read(self) -> Any:
        order = EpochOrder(self._source.sizes, self._seed, self._epoch, self._buffer)
        part = EpochPart(self._source, order, self._division, self._rank, self._steps_done)
        if not self._workers:
            return read_in_thread(part, self._prefetch, is_pinned=self._pin_memory)
        return read_in_workers(
            part, self._prefetch, is_pinned=self._pin_memory, seed=self._seed, start_method=self._start_method
        )


def _format_hint(source: Source) -> str:
    return f"Each process needs a {source.part_name} of its own: use fewer hosts. {source.part_hint}"
