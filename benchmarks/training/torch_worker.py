"""Train the torch template on one host of the benchmark `torch`, and print the measurements as JSON."""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from pipelines.container.signals import StopSignal
from pipelines.container.torch.processes import Processes, join_processes
from pipelines.container.torch.sharded_checkpoints import ShardedCheckpoints
from pipelines.container.torch.training_state import collect_state
from pipelines.container.tracking import SilentTracker
from templates.torch.fit import Training, distribute_network
from templates.torch.model import Inputs, Network, compute_loss
from templates.torch.train import list_inputs, parse_arguments

SAVES = 3
"""Number of saves and of loads of a checkpoint. The first save is not measured."""
LARGE_HIDDEN = (2_048, 2_048, 2_048)
"""Widths of the network whose checkpoint is measured: 8 million weights, and twice as many numbers of the optimizer."""


class TimedTracker(SilentTracker):
    """Record the time at the end of each epoch."""

    def __init__(self) -> None:
        super().__init__(Path(), "", "")
        self.times_s: list[float] = []

    def add_round(self, number: int, metrics: dict[str, float]) -> None:
        """Record the time, beside the metrics."""
        super().add_round(number, metrics)
        self.times_s.append(time.perf_counter())


def measure() -> dict[str, Any]:
    """Return the seconds of the epochs after the first one, of saves and of loads, and the size of the checkpoint."""
    strategy, epochs, batch_rows = sys.argv[1:]
    options = {"epochs": epochs, "batch_rows": batch_rows, "hidden": "256,128", "checkpoint_s": "1000"}
    values = options if strategy == "plain" else {**options, "strategy": strategy}
    args = parse_arguments([part for name, value in values.items() for part in (f"--{name}", value)])
    tracker = TimedTracker()
    with join_processes() as processes:
        training = Training(args, list_inputs(args), processes, tracker, StopSignal())
        if strategy == "plain":
            return {"epochs_s": run_plain_epochs(training), "save_s": [], "load_s": []}
        training.run()
        times_s = tracker.times_s
        epochs_s = [end - begin for begin, end in pairwise(times_s)]
        return {"epochs_s": epochs_s, **measure_checkpoints(args, training.inputs, processes)}


def run_plain_epochs(training: Training) -> list[float]:
    """Train the same network on the same batches with a plain loop of torch.

    Returns:
        The seconds of each epoch after the first one.
    """
    torch.manual_seed(training.args.seed)
    network, seconds = Network(training.inputs), []
    optimizer = torch.optim.AdamW(network.parameters(), lr=training.args.learning_rate)
    for epoch in range(training.args.epochs):
        began_s = time.perf_counter()
        generator = torch.Generator().manual_seed(epoch)
        for batch in torch.randperm(len(training.rows), generator=generator).split(training.args.batch_rows):
            numbers, codes, labels = training.rows.select(batch)
            loss = compute_loss(training.inputs.task, network(numbers, codes), labels) / len(batch)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        seconds.append(time.perf_counter() - began_s)
    return seconds[1:]


def measure_checkpoints(args: argparse.Namespace, inputs: Inputs, processes: Processes) -> dict[str, Any]:
    """Save and load checkpoints of a larger network. Both times include the computation of the digests of all files."""
    larger_inputs = Inputs(**{**vars(inputs), "hidden": list(LARGE_HIDDEN)})
    model = distribute_network(Network(larger_inputs), args.strategy, torch.float32)
    optimizer = torch.optim.AdamW(model.parameters())
    folder = args.checkpoint_dir / "large"
    checkpoints = ShardedCheckpoints(folder, {}, processes)
    saves_s, loads_s = [], []
    for step in range(SAVES):
        processes.wait()
        began_s = time.perf_counter()
        checkpoints.save(step, collect_state(model, optimizer), {})
        saves_s.append(time.perf_counter() - began_s)
    size_bytes = processes.reduce_sum(sum(path.stat().st_size for path in folder.glob(f"{SAVES - 1:08d}-*/*")))[0]
    if processes.count == 1:  # with several hosts, each would need the shards of the others first
        for _ in range(SAVES):
            began_s = time.perf_counter()
            checkpoint = checkpoints.restore()
            if checkpoint:
                checkpoints.load(checkpoint, collect_state(model, optimizer))
            loads_s.append(time.perf_counter() - began_s)
    return {"save_s": saves_s[1:], "load_s": loads_s, "checkpoint_mib": size_bytes / 2**20}


if __name__ == "__main__":
    print(json.dumps(measure()))
