"""Measure a fine-tuning between two lines of its log: loss, tokens per second, memory, utilization of the GPU.

This module is part of the training job's bundle, so it imports torch, the standard library and files of the bundle.
"""

from __future__ import annotations

import math
import resource
import time
from typing import Any

import torch

from pipelines.container.torch.language.hyperparameters import Hyperparameters
from pipelines.container.torch.language.sequences import IGNORED, Batch
from pipelines.container.torch.processes import Processes

MIB = 2**20


def compute_rate(step: int, steps: int, hyperparameters: Hyperparameters) -> float:
    """Return the learning rate of a step: it rises linearly, and falls to 0 in half a cosine (Loshchilov 2017).

    Args:
        step: number of the step, from 0.
        steps: number of all steps.
        hyperparameters: largest learning rate, and share of the steps in which it rises.
    """
    warmup_steps = math.ceil(steps * hyperparameters.warmup_share)
    if step < warmup_steps:
        return hyperparameters.peak_rate * (step + 1) / warmup_steps
    progress = (step - warmup_steps) / max(1, steps - warmup_steps)
    return hyperparameters.peak_rate * 0.5 * (1 + math.cos(math.pi * progress))


class Progress:
    """Sums of losses, targets (tokens to predict) and tokens of the steps since the last line of the log.

    Args:
        processes: the processes of the training.
        token_flops: floating-point operations of the model for each token; 0 if they are not known.
        peak_flops: peak performance of one device, FLOP/s; 0 if it is not known.
    """

    def __init__(self, processes: Processes, token_flops: float, peak_flops: float) -> None:
        self._processes, self._token_flops, self._peak_flops = processes, token_flops, peak_flops
        self._restart(0.0, 0.0)

    @property
    def loss(self) -> float:
        """Sum of the losses of this process since the last line of the log."""
        return self._loss

    def add(self, loss: float, batch: Batch) -> None:
        """Add the sum of the losses of a batch of this process."""
        self._loss += loss
        self._targets += int((batch.targets != IGNORED).sum())
        self._tokens += batch.tokens.numel()

    def summarize(self) -> dict[str, float]:
        """Return the metrics of all processes since the last line, and set the sums to 0. All processes must call this.

        `tokens_per_s` counts the tokens of the sequences, with padding. `memory_mib` is the largest memory that one
        process has used since it started. `mfu` is the share of the peak performance that the model's operations use
        (model FLOPs utilization).
        """
        seconds = time.monotonic() - self._started_s
        loss, targets, tokens = self._processes.reduce_sum(self._loss, self._targets, self._tokens)
        (peak_bytes,) = self._processes.reduce_max(self._measure_memory())
        self._restart(0.0, 0.0)
        metrics = {"loss": loss / targets, "tokens_per_s": tokens / seconds, "memory_mib": peak_bytes / MIB}
        if self._token_flops and self._peak_flops:
            peak_flops = self._peak_flops * self._processes.count
            metrics["mfu"] = self._token_flops * metrics["tokens_per_s"] / peak_flops
        return metrics

    def collect(self) -> dict[str, float]:
        """Return the sums of all processes, for a checkpoint. All processes must call it."""
        loss, targets = self._processes.reduce_sum(self._loss, self._targets)
        return {"loss": loss, "targets": targets}

    def restore(self, sums: dict[str, Any]) -> None:
        """Continue with the sums of a checkpoint: the first process gets the sums of all, the others begin at 0."""
        is_first = self._processes.is_first
        self._restart(sums["loss"] if is_first else 0.0, sums["targets"] if is_first else 0.0)

    def _restart(self, loss: float, targets: float) -> None:
        self._loss, self._targets, self._tokens = loss, targets, 0
        self._started_s = time.monotonic()

    def _measure_memory(self) -> int:
        """Return the largest memory so far, bytes: of the GPU, or of the process on a CPU."""
        if self._processes.device.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self._processes.device))
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
