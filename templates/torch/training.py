"""Train a small network with PyTorch: a SageMaker script-mode script for one or several hosts, CPUs or GPUs.

Reads SM_CHANNEL_TRAIN and SM_CHANNEL_VALIDATION (data.parquet, with its columns described in the metadata). Writes
SM_MODEL_DIR and SM_OUTPUT_DATA_DIR. Keeps checkpoints in SM_CHECKPOINT_DIR (/opt/ml/checkpoints if it is not set). A
training that was stopped at any moment resumes from its last checkpoint, also with another number of processes.

Each process reads all rows, and computes every n-th row of a batch. The order of the rows follows from the seed and the
epoch, so the training is the same for any number of processes, but for the order in which numbers are added.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

try:
    import torch
    from torch import nn
    from torch.distributed.checkpoint import state_dict as states
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.nn.parallel import DistributedDataParallel

    from pipelines.container.torch import tabular
    from pipelines.container.torch.processes import Processes, ProcessesError, join
    from pipelines.container.torch.sharded_checkpoints import ShapeError, ShardedCheckpoints
except ModuleNotFoundError as error:
    sys.exit(f"the package {error.name} is missing: pip install 'leeway[torch]', or use a PyTorch image")

from pipelines.container.signals import Stopped, StopSignal
from pipelines.container.tracking import SilentTracker, Tracker
from pipelines.defaults.arguments import InvalidInput, get_folder
from pipelines.defaults.channels import DATA_FILE, read_channel
from pipelines.system.files import sha256

FLATTENED = states.StateDictOptions(flatten_optimizer_state_dict=True)
LIMITS: dict[str, tuple[float, float]] = {
    **{"epochs": (1, 100_000), "batch_size": (1, 10_000_000), "accumulation": (1, 10_000), "seed": (0, 2**31 - 1)},
    **{"learning_rate": (1e-9, 100), "width": (1, 100_000), "depth": (1, 1_000)},
    **{"checkpoint_s": (0, 86_400), "keep_checkpoints": (1, 1_000)},
}
"""Hyperparameter to its smallest and largest value."""
CHANGEABLE = ("checkpoint_s", "keep_checkpoints", "strategy", "epochs")
"""Hyperparameters that may change between an interruption and the restart."""


def parse_arguments() -> argparse.Namespace:
    """Return the hyperparameters and the folders.

    Raises:
        InvalidInput: a value is out of its range, or the hyperparameters contradict each other.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--strategy", choices=("ddp", "fsdp"), default="ddp", help="fsdp divides the network among the processes")
    add(
        "--precision", choices=("fp32", "bf16"), default="fp32", help="precision of the computation, not of the weights"
    )
    add("--batch_size", type=int, default=1024, help="rows of a step, of all processes together")
    add("--accumulation", type=int, default=1, help="parts of a batch that are computed one after the other")
    add("--epochs", type=int, default=10)
    add("--learning_rate", type=float, default=1e-3)
    add("--width", type=int, default=128, help="units of a hidden layer")
    add("--depth", type=int, default=2, help="number of hidden layers")
    add("--seed", type=int, default=13)
    add("--checkpoint_s", type=float, default=30.0, help="longest work between two checkpoints, seconds")
    add("--keep_checkpoints", type=int, default=2)
    for name, folder in (("train", "input/data/train"), ("validation", "input/data/validation")):
        add(f"--{name}", type=Path, default=get_folder(f"SM_CHANNEL_{name.upper()}", folder))
    add("--model_dir", type=Path, default=get_folder("SM_MODEL_DIR", "model"))
    add("--output_data_dir", type=Path, default=get_folder("SM_OUTPUT_DATA_DIR", "output/data"))
    add("--checkpoint_dir", type=Path, default=get_folder("SM_CHECKPOINT_DIR", "checkpoints"))
    args = parser.parse_args()
    for name, (low, high) in LIMITS.items():
        if not low <= getattr(args, name) <= high:
            raise InvalidInput(f"hyperparameter {name} must be from {low:g} to {high:g}, not {getattr(args, name):g}.")
    if args.batch_size % args.accumulation:
        raise InvalidInput(f"batch_size {args.batch_size} cannot be divided into {args.accumulation} equal parts.")
    return args


class Training:
    """Train a network step by step; all processes do the same steps."""

    def __init__(self, args: argparse.Namespace, processes: Processes, stop_signal: StopSignal) -> None:
        self.args, self.processes, self.stop_signal = args, processes, stop_signal
        (rows, self.description), (validation_rows, _) = map(read_channel, (args.train, args.validation))
        self.columns = tabular.Columns.fit(rows, self.description)
        if self.columns.task not in ("binary", "regression"):
            raise InvalidInput(f"this script trains binary models and regressions, not the task {self.columns.task}.")
        self.rows, self.validation_rows = self._load(rows), self._load(validation_rows)
        self.loss_name = "logloss" if self.columns.task == "binary" else "mse"
        self.module, self.optimizer = self._build()
        identity = {name: value for name, value in vars(args).items() if not isinstance(value, Path)}
        identity = {name: value for name, value in identity.items() if name not in CHANGEABLE}
        digests = {name: sha256(vars(args)[name] / DATA_FILE) for name in ("train", "validation")}
        self.checkpoints = ShardedCheckpoints(
            args.checkpoint_dir, {**identity, **digests}, processes, args.keep_checkpoints, args.checkpoint_s
        )
        tracker_class = Tracker if processes.is_first else SilentTracker
        job = os.environ.get("TRAINING_JOB_NAME", "local")
        self.tracker = tracker_class(args.output_data_dir, job, self.description.get("dataset", "local"))
        self.tracker.start({**identity, "strategy": args.strategy, "processes": processes.count})

    def run(self) -> None:
        """Train from the last checkpoint to the last epoch, and write the model.

        Raises:
            Stopped: a signal requested a stop; the last step is in a checkpoint.
        """
        state = self._restore()
        self.stop_signal.defer()
        while state["epoch"] < self.args.epochs:
            self._run_epoch(state)
        options = states.StateDictOptions(full_state_dict=True, cpu_offload=True)
        weights = states.get_model_state_dict(self.module, options=options)  # waits for all processes
        if self.processes.is_first:
            tabular.save(self.args.model_dir, self.columns, weights, self.args.width, self.args.depth)
            self.tracker.finish({f"validation-{self.loss_name}": state["validation_loss"]})

    def _load(self, rows: Any) -> tuple[torch.Tensor, ...]:
        """Return numbers, codes and labels of rows. Rows without a label are left out."""
        rows = rows[rows[self.columns.label].notna()]
        if not len(rows):
            raise InvalidInput("a channel has no row with a label.")
        labels = torch.from_numpy(rows[self.columns.label].to_numpy("float32"))
        return (*self.columns.convert(rows), labels)

    def _build(self) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Build the network with the same weights in each process, and distribute it."""
        torch.manual_seed(self.args.seed)
        network: nn.Module = tabular.Network(self.columns, self.args.width, self.args.depth).to(self.processes.device)
        if self.args.strategy == "fsdp":
            mesh = init_device_mesh(self.processes.device.type, (self.processes.count,))
            dtype = torch.bfloat16 if self.args.precision == "bf16" else None
            options = {"mesh": mesh, "mp_policy": MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)}
            for block in network.blocks:
                fully_shard(block, **options)
            fully_shard(network, **options)
        else:
            network = DistributedDataParallel(network)
        return network, torch.optim.AdamW(network.parameters(), lr=self.args.learning_rate)

    def _restore(self) -> dict[str, Any]:
        """Return the position of the training: that of the newest checkpoint, or the start."""
        tensors, values = self._list_tensors()
        description = self.checkpoints.restore(tensors)
        if description is None:
            return {"step": 0, "epoch": 0, "batch": 0, "loss": 0.0, "validation_loss": None}
        model, optimizer = (
            {key.removeprefix(prefix): tensor for key, tensor in tensors.items() if key.startswith(prefix)}
            for prefix in ("model.", "optimizer.")
        )
        options = {"model_state_dict": model, "optim_state_dict": {**optimizer, **values}, "options": FLATTENED}
        states.set_state_dict(self.module, self.optimizer, **options)
        state = dict(description.state)
        self.tracker.rounds = state.pop("rounds")
        if not self.processes.is_first:  # the loss of the epoch so far, of all processes, is the first one's
            state["loss"] = 0.0
        return state

    def _list_tensors(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Return the tensors of network and optimizer by name, and the other values of the optimizer."""
        model, optimizer = states.get_state_dict(self.module, self.optimizer, options=FLATTENED)
        tensors = {f"model.{key}": tensor for key, tensor in model.items()}
        tensors |= {f"optimizer.{key}": value for key, value in optimizer.items() if isinstance(value, torch.Tensor)}
        return tensors, {key: value for key, value in optimizer.items() if not isinstance(value, torch.Tensor)}

    def _save(self, state: dict[str, Any]) -> None:
        (loss,) = self.processes.add_up([state["loss"]])
        content = {**state, "loss": loss, "rounds": self.tracker.rounds}
        self.checkpoints.save(state["step"], self._list_tensors()[0], content)
        if self.processes.is_first:
            self.tracker.flush()

    def _run_epoch(self, state: dict[str, Any]) -> None:
        """Run the steps of an epoch that are left, measure the validation rows, and record the epoch."""
        started_s, first_batch = time.monotonic(), state["batch"]
        for batch in self._list_batches(state["epoch"], first_batch):
            state["loss"] += self._run_step(batch)
            state["step"] += 1
            state["batch"] += 1
            self._save_or_stop(state)
        (loss,) = self.processes.add_up([state["loss"]])
        losses = {"train": loss / len(self.rows[2]), "validation": self._validate()}
        metrics = {f"{name}-{self.loss_name}": value for name, value in losses.items()}
        self.tracker.add_round(state["epoch"], metrics)
        if self.processes.is_first:
            rate = (state["batch"] - first_batch) * self.args.batch_size / (time.monotonic() - started_s)
            texts = "\t".join(f"{name}:{value:.6f}" for name, value in metrics.items())
            sys.stdout.write(f"[{state['epoch']}]\t{texts}\t{rate:.0f} rows/s\n")
            sys.stdout.flush()
        state |= {"epoch": state["epoch"] + 1, "batch": 0, "loss": 0.0, "validation_loss": losses["validation"]}

    def _save_or_stop(self, state: dict[str, Any]) -> None:
        """Save if a process has to, and stop if one was signalled; all processes do the same."""
        exit_code, is_due, is_wrong = self.processes.find_largest(
            [self.stop_signal.exit_code, self.checkpoints.is_due(), not math.isfinite(state["loss"])]
        )
        if is_wrong:
            place = f"epoch {state['epoch']}, batch {state['batch'] - 1}"
            raise InvalidInput(f"the loss is not a number in {place}: lower learning_rate, or check the features.")
        if is_due or exit_code:
            self._save(state)
        if exit_code:
            self.stop_signal.exit_code = exit_code
            raise Stopped

    def _list_batches(self, epoch: int, first: int) -> Iterator[torch.Tensor]:
        """Yield the positions of the rows of each batch of an epoch, from batch number `first`."""
        generator = torch.Generator().manual_seed(self.args.seed * 1_000_003 + epoch)
        order = torch.randperm(len(self.rows[2]), generator=generator)
        yield from order.split(self.args.batch_size)[first:]

    def _run_step(self, batch: torch.Tensor) -> float:
        """Change the weights by one batch; return the sum of the losses of this process's rows."""
        self.optimizer.zero_grad()
        # In equal parts, so that each process computes as many; a part of the last batch may have no row for one.
        size = -(-len(batch) // self.args.accumulation)
        parts = [batch[start : start + size] for start in range(0, size * self.args.accumulation, size)]
        losses = 0.0
        for number, part in enumerate(parts):
            is_last = number == len(parts) - 1
            if self.args.strategy == "fsdp":
                self.module.set_requires_gradient_sync(is_last)
            exchange = nullcontext() if is_last or self.args.strategy == "fsdp" else self.module.no_sync()
            with exchange:
                loss = self._compute_loss(self.rows, part[self.processes.rank :: self.processes.count])
                # The processes average their gradients, so the sum of the batch is divided by its rows alone.
                (loss * self.processes.count / len(batch)).backward()
            losses += loss.item()
        self.optimizer.step()
        return losses

    def _validate(self) -> float:
        """Return the mean loss of the validation rows, each process computing its share."""
        total, count = 0.0, len(self.validation_rows[2])
        with torch.no_grad():
            for batch in torch.arange(count).split(self.args.batch_size):
                own_batch = batch[self.processes.rank :: self.processes.count]
                total += float(self._compute_loss(self.validation_rows, own_batch))
        return self.processes.add_up([total])[0] / count

    def _compute_loss(self, rows: tuple[torch.Tensor, ...], batch: torch.Tensor) -> torch.Tensor:
        """Return the sum of the losses of some rows."""
        numbers, codes, labels = (tensor[batch].to(self.processes.device) for tensor in rows)
        is_autocast = self.args.precision == "bf16" and self.args.strategy == "ddp"
        with torch.autocast(self.processes.device.type, torch.bfloat16, enabled=is_autocast):
            outputs = self.module(numbers, codes)
        if self.columns.task == "binary":
            return nn.functional.binary_cross_entropy_with_logits(outputs.float(), labels, reduction="sum")
        return nn.functional.mse_loss(outputs.float(), labels, reduction="sum")


def main() -> int:
    """Train, and write the model to the model folder.

    Returns:
        The exit code: 0 when done, 143 when stopped by SIGTERM, 130 by SIGINT, 1 after an error.
    """
    stop_signal = StopSignal()
    failure = get_folder("SM_OUTPUT_DATA_DIR", "output/data").parent / "failure"
    try:
        args = parse_arguments()
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))
        has_stopped = False
        with join() as processes:
            try:
                Training(args, processes, stop_signal).run()
            except Stopped:  # all processes stop after the same step, so they also leave in good order
                has_stopped = True
    except Stopped:
        has_stopped = True
    except Exception as error:
        text = " ".join(str(error).split())[:1_000]
        if not isinstance(error, (InvalidInput, ProcessesError, ShapeError)):
            text = f"{type(error).__name__}: {text}"
        with suppress(OSError):  # for example, the disk is full
            # SageMaker shows this file as the job's FailureReason.
            failure.write_text(text, encoding="utf-8")
        if os.environ.get("LEEWAY_DEBUG"):
            raise
        sys.stderr.write(f"{text}\n")
        return 1
    if has_stopped:
        sys.stderr.write("stopped; the last checkpoint is saved\n")
        return stop_signal.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
