"""Measure the share of its time that a training waits for the next batch.

The share is between 0 (the next batch is always ready) and 1 (the steps take no time). It is a metric of the training.
The ledger of costs reads it in the job's log, from the line that `report` prints.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import torch

T = TypeVar("T")
METRIC = "data_wait_share"
"""Name of the metric in the record, in the job's log, in the ledger of costs, and among the metrics of a round.
The share of the whole training has another name in MLflow: `training_data_wait_share`."""
MEASUREMENT_INTERVAL = 16
"""With an accelerator, one step in this number of steps is measured: a measurement waits for the accelerator."""
_END = object()
"""Stands for the batch after the last one."""


class DataWait:
    """Measure how long a training waits for its batches.

    An accelerator works on its queue while the script continues. If the script waits for data while the accelerator has
    work, no time is lost. So with an accelerator, only one of `MEASUREMENT_INTERVAL` steps is measured, with an empty
    queue: the script waits for the accelerator before it requests the batch, and after the step.

    Args:
        synchronize: function that waits until the accelerator has done all its work; None:
            `torch.accelerator.synchronize` if torch finds an accelerator. Without an accelerator, each step is
            measured.
    """

    def __init__(self, synchronize: Callable[[], object] | None = None) -> None:
        has_accelerator = torch.accelerator.is_available()
        self._synchronize = synchronize or (torch.accelerator.synchronize if has_accelerator else None)
        self._waited_s = self._total_s = 0.0
        self._reported_waited_s = self._reported_total_s = 0.0

    def watch(self, batches: Iterable[T]) -> Iterator[T]:
        """Yield the batches, and measure how long the training waits for each one, and how long its step takes."""
        interval = MEASUREMENT_INTERVAL if self._synchronize else 1
        iterator, number, waited_s = iter(batches), 0, 0.0
        step_start_s: float | None = None  # None if the step is not measured
        try:
            while True:
                is_measured = number % interval == 0
                if self._synchronize and (is_measured or step_start_s is not None):
                    self._synchronize()
                request_start_s = time.perf_counter()
                if step_start_s is not None:
                    self._add(waited_s, request_start_s - step_start_s)
                batch = next(iterator, _END)
                if batch is _END:
                    return
                now_s = time.perf_counter()
                waited_s, step_start_s = now_s - request_start_s, now_s if is_measured else None
                number += 1
                yield batch  # type: ignore[misc]
        finally:
            if close := getattr(iterator, "close", None):
                close()

    def add_reading(self, seconds: float) -> None:
        """Add the time that the training spent on reading its data before the first batch.

        With an accelerator, one of `MEASUREMENT_INTERVAL` steps is measured, so the same share of this time is added.
        """
        measured_s = seconds / (MEASUREMENT_INTERVAL if self._synchronize else 1)
        self._waited_s += measured_s
        self._total_s += measured_s

    @property
    def share(self) -> float:
        """Share of the measured time in which the training waited, from 0 to 1; 0 if nothing was measured yet."""
        return _divide(self._waited_s, self._total_s)

    def compute_interval_share(self) -> float:
        """Return the share since the last call, for the metrics of an interval, and begin the next interval."""
        share = _divide(self._waited_s - self._reported_waited_s, self._total_s - self._reported_total_s)
        self._reported_waited_s, self._reported_total_s = self._waited_s, self._total_s
        return share

    def find_largest_share(self) -> float:
        """Return the largest share of all processes of the training. Each process must call it.

        In each step, the processes wait for each other. So if one of them waits for data, the others seem to be busy.
        """
        torch_distributed = torch.distributed
        if not (torch_distributed.is_available() and torch_distributed.is_initialized()):
            return self.share
        is_on_cpu = "gloo" in str(torch_distributed.get_backend()) or not torch.accelerator.is_available()
        share = torch.tensor(self.share, device="cpu" if is_on_cpu else torch.accelerator.current_accelerator())
        torch_distributed.all_reduce(share, torch_distributed.ReduceOp.MAX)
        return float(share)

    def report(self, share: float | None = None) -> dict[str, float]:
        """Print the share for the ledger of costs, and return it as a metric for `Tracker.finish`.

        Args:
            share: the share to report, such as the result of `find_largest_share`; None: the share of this process.
        """
        value = self.share if share is None else share
        sys.stdout.write(f"{METRIC}={value:.3f};\n")
        sys.stdout.flush()
        return {METRIC: round(value, 3)}

    def state_dict(self) -> dict[str, float]:
        """Return the seconds so far, for a checkpoint."""
        return {"waited_s": self._waited_s, "total_s": self._total_s}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Add the seconds of a checkpoint, so that the share is that of the whole training."""
        waited_s, total_s = float(state["waited_s"]), float(state["total_s"])
        self._waited_s, self._reported_waited_s = self._waited_s + waited_s, self._reported_waited_s + waited_s
        self._total_s, self._reported_total_s = self._total_s + total_s, self._reported_total_s + total_s

    def _add(self, waited_s: float, step_s: float) -> None:
        self._waited_s += waited_s
        self._total_s += waited_s + step_s


def _divide(waited_s: float, total_s: float) -> float:
    return waited_s / total_s if total_s > 0 else 0.0
