"""Train the network on all processes of the job, with checkpoints from which any number of hosts can resume.

A batch has the same rows in the same order on any number of processes: each of n processes computes every n-th row of
the batch. The order of rows depends on the seed and the epoch only. So the number of hosts changes the model by
rounding only, and a training resumes with the batch after its last checkpoint.

The module is part of the training job's bundle, so it imports only torch, the standard library and files of the bundle.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from pipelines.classes import tabulate_scores
from pipelines.container.hosts import read_hosts
from pipelines.container.signals import Stopped, StopSignal
from pipelines.container.torch.data_wait import DataWait
from pipelines.container.torch.processes import Processes, join_processes
from pipelines.container.torch.sharded_checkpoints import ShardedCheckpoints
from pipelines.container.torch.training_state import apply_state, collect_state, collect_weights
from pipelines.container.tracking import SilentTracker, Tracker
from pipelines.defaults.channels import check_distribution, read_channel, read_description
from pipelines.errors import DataError
from templates.torch.model import METRICS, SCORED_ROWS, Inputs, Model, Network, compute_loss, compute_metric

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""Maps the hyperparameter `precision` to the type of the layers' inputs and outputs. Weights and optimizer are
always fp32."""
SCORES_FILE, SAMPLE_ROWS = "scores.parquet", 1_000
"""Output file with the scores of the first `SAMPLE_ROWS` validation rows. The gate compares them with the scores of the
served model."""
Batch = tuple[Tensor, Tensor, Tensor]
"""Numbers, codes and labels of some rows."""


class Rows:
    """The rows of a channel as tensors, in the memory of each process."""

    def __init__(self, inputs: Inputs, frame: Any, device: torch.device) -> None:
        self.numbers, self.codes = inputs.encode(frame)
        self.labels = inputs.encode_label(frame)
        self._device = device

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.labels)

    def select(self, indices: Tensor) -> Batch:
        """Return numbers, codes and labels of some rows, on the device."""
        numbers, codes, labels = (
            values[indices].to(self._device, non_blocking=True) for values in (self.numbers, self.codes, self.labels)
        )
        return numbers, codes, labels


class Training:
    """Train the network update by update, save checkpoints, and report the metrics of each epoch to the tracker.

    All processes make the same decisions, because each decision uses the numbers of all processes. A checkpoint is
    restored only if its training had the same `identity`: the data and the hyperparameters, see `train.list_inputs`.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        identity: dict[str, Any],
        processes: Processes,
        tracker: Tracker,
        stop_signal: StopSignal,
    ) -> None:
        self.args, self.processes, self.tracker, self.stop_signal = args, processes, tracker, stop_signal
        self.data_wait, started_s = DataWait(), time.perf_counter()
        (rows, description), (validation_rows, _) = map(read_channel, (args.train, args.validation))
        try:
            self.inputs = Inputs.fit(rows, description, args.hidden, args.embedding)
            self.rows = Rows(self.inputs, rows, processes.device)
            self.validation_rows = Rows(self.inputs, validation_rows, processes.device)
        except KeyError as error:
            raise DataError(f"a channel lacks {error}.", "The step `preprocess` writes the channels.") from None
        self.data_wait.add_reading(time.perf_counter() - started_s)
        if args.precision == "fp16" and (processes.device.type != "cuda" or args.strategy != "ddp"):
            raise DataError("hyperparameter precision: fp16 needs CUDA and the strategy ddp.", "Use bf16 or fp32.")
        torch.manual_seed(args.seed)  # the same weights on all processes
        self.model = distribute_network(
            Network(self.inputs).to(processes.device), args.strategy, DTYPES[args.precision]
        )
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=args.learning_rate, weight_decay=args.weight_decay
        )
        self.scaler = torch.amp.GradScaler(processes.device.type, enabled=args.precision == "fp16")
        self.checkpoints = ShardedCheckpoints(
            args.checkpoint_dir, identity, processes, args.keep_checkpoints, args.checkpoint_s
        )
        self.state: dict[str, Any] = {"epoch": 0, "row": 0, "updates": 0, "loss": 0.0}
        """Present epoch, its rows so far, all updates so far, and the sum of the losses of the epoch's rows."""

    def run(self) -> Model | None:
        """Train, and return the model; None on all processes but the first.

        Raises:
            Stopped: a signal requested a stop; all updates so far are in a checkpoint.
            DataError: the loss or the gradient is not a finite number. A retry cannot help.
        """
        self._restore()
        self.stop_signal.defer()  # from here on, a stop waits for the end of an update
        while self.state["epoch"] < self.args.epochs:
            self._run_epoch()
        weights = collect_weights(self.model)
        if not self.processes.is_first:
            return None
        network = Network(self.inputs)
        network.load_state_dict(weights)
        return Model(network.eval(), self.inputs)

    def _run_epoch(self) -> None:
        """Train on the remaining rows of an epoch, and report the metrics of the epoch."""
        state = self.state
        order = self._draw_order(state["epoch"])
        for row_counts, batches in self.data_wait.watch(self._read_updates(order)):
            state["loss"] += self._update(row_counts, batches)
            state["row"] += sum(row_counts)
            state["updates"] += 1
            if state["row"] < len(order):
                self._save_or_stop()
        name = METRICS[self.inputs.task]
        losses = {"train": state["loss"] / len(order), "validation": self._measure_validation()}
        metrics = {f"{channel}-{name}": compute_metric(self.inputs, loss) for channel, loss in losses.items()}
        self.tracker.add_round(state["epoch"], metrics)
        if self.processes.is_first:
            text = "\t".join(f"{key}:{value:.6f}" for key, value in metrics.items())
            sys.stdout.write(f"[{state['epoch']}]\t{text}\n")
        state |= {"epoch": state["epoch"] + 1, "row": 0, "loss": 0.0}
        self._save_or_stop()

    def _read_updates(self, order: Tensor) -> Iterator[tuple[list[int], list[Batch]]]:
        """Yield, for each remaining update of an epoch, the number of rows of each batch, and this process's shares."""
        update_rows, processes = self.args.batch_rows * self.args.accumulation, self.processes
        for rows in order[self.state["row"] :].split(update_rows):
            batches = rows.split(self.args.batch_rows)
            shares = [self.rows.select(batch[processes.rank :: processes.count]) for batch in batches]
            yield list(map(len, batches)), shares

    def _update(self, row_counts: list[int], batches: list[Batch]) -> float:
        """Update the weights once; return the sum of the losses of the rows of all processes.

        Args:
            row_counts: number of rows of each batch, on all processes together.
            batches: this process's share of each batch.

        Raises:
            DataError: the loss or the gradient is not a finite number.
        """
        processes, loss_sum = self.processes, torch.zeros((), device=self.processes.device)
        for number, (numbers, codes, labels) in enumerate(batches, 1):
            with exchange_gradients(self.model, is_last=number == len(batches)):
                loss = compute_loss(self.inputs.task, self._compute_output(numbers, codes), labels)
                # DDP and FSDP average the gradients of the processes. The factor `processes.count` turns this average
                # into the sum; the division turns the sum into the mean of the update's rows.
                self.scaler.scale(loss * (processes.count / sum(row_counts))).backward()
            loss_sum += loss.detach()
        self.scaler.unscale_(self.optimizer)
        gradient = nn.utils.clip_grad_norm_(self.model.parameters(), self.args.max_gradient or math.inf)
        (total,) = processes.reduce_sum(loss_sum.item())
        self._check_numbers(total, float(gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient))
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        return total

    def _check_numbers(self, loss: float, gradient: float) -> None:
        """Check loss and gradient before they change a weight, so that all weights in checkpoints are finite."""
        # With fp16, a gradient may overflow; the scaler then skips the update, and lowers its scale.
        is_gradient_wrong = not math.isfinite(gradient) and not self.scaler.is_enabled()
        if not math.isfinite(loss) or is_gradient_wrong:
            name, value = ("gradient", gradient) if math.isfinite(loss) else ("loss", loss)
            place = f"epoch {self.state['epoch']}, row {self.state['row']} of {len(self.rows)}"
            raise DataError(
                f"the {name} is {value} in {place}.", "Lower learning_rate, or look for infinite values in the data."
            )

    def _compute_output(self, numbers: Tensor, codes: Tensor) -> Tensor:
        dtype = DTYPES[self.args.precision]
        # FSDP converts by its own policy.
        is_autocast = dtype != torch.float32 and self.args.strategy == "ddp"
        with torch.autocast(self.processes.device.type, dtype, enabled=is_autocast):
            output: Tensor = self.model(numbers, codes)
        return output.float()

    def _measure_validation(self) -> float:
        """Return the mean loss of all validation rows. Each process measures a part of the rows."""
        count, loss = self.processes.count, 0.0
        self.model.eval()
        with torch.no_grad():
            # Each process has the same number of parts (some are empty): FSDP's processes must call the model together.
            for part in torch.arange(len(self.validation_rows)).split(SCORED_ROWS * count):
                numbers, codes, labels = self.validation_rows.select(part[self.processes.rank :: count])
                loss += compute_loss(self.inputs.task, self._compute_output(numbers, codes), labels).item()
        self.model.train()
        return self.processes.reduce_sum(loss)[0] / max(len(self.validation_rows), 1)

    def _draw_order(self, epoch: int) -> Tensor:
        """Return the order of the rows in an epoch."""
        generator = torch.Generator().manual_seed(self.args.seed * 1_000_003 + epoch)
        return torch.randperm(len(self.rows), generator=generator)

    def _restore(self) -> None:
        """Restore the newest checkpoint, if there is one.

        Raises:
            DataError: the checkpoint belongs to another model. A retry cannot help.
        """
        checkpoint = self.checkpoints.restore()
        if checkpoint is None:
            return
        state = dict(checkpoint.marker.state)
        if state.pop("features") != self.inputs.features:
            raise DataError(
                f"the checkpoint {checkpoint.name} is that of a model with other features.",
                "Use another checkpoint folder.",
            )
        values = self.checkpoints.load(checkpoint, collect_state(self.model, self.optimizer))
        apply_state(self.model, self.optimizer, values)
        self.scaler.load_state_dict(state.pop("scaler"))
        self.tracker.rounds = list(state.pop("rounds"))
        if "data_wait" in state:  # a checkpoint of an earlier version has none
            self.data_wait.load_state_dict(state.pop("data_wait"))
        self.state = state
        if self.processes.is_first:
            sys.stderr.write(f"resuming after update {state['updates']}, in epoch {state['epoch']}\n")

    def _save_or_stop(self) -> None:
        """Save a checkpoint if one is due on a process. If a process must stop, save one, and stop all processes."""
        interval = self.args.checkpoint_updates
        is_due = self.checkpoints.is_due() or (interval and self.state["updates"] % interval == 0)
        exit_code, is_due_anywhere = self.processes.reduce_max(self.stop_signal.exit_code, int(is_due))
        if exit_code or is_due_anywhere:
            model_state = {"features": self.inputs.features, "scaler": self.scaler.state_dict()}
            records = {"rounds": self.tracker.rounds, "data_wait": self.data_wait.state_dict()}
            state = {**self.state, **model_state, **records}
            self.checkpoints.save(self.state["updates"], collect_state(self.model, self.optimizer), state)
            self.tracker.flush()  # after the checkpoint, so that a slow MLflow server does not delay it
            sys.stdout.flush()
        if exit_code:
            self.stop_signal.exit_code = exit_code
            raise Stopped


def distribute_network(network: Network, strategy: str, dtype: torch.dtype) -> nn.Module:
    """Return the network with DDP, or divided among the processes by FSDP."""
    if strategy == "ddp":
        return DistributedDataParallel(network)
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    for block in network.blocks:
        fully_shard(block, mp_policy=policy)
    return fully_shard(network, mp_policy=policy)


@contextmanager
def exchange_gradients(model: nn.Module, is_last: bool) -> Iterator[None]:
    """Exchange gradients between the processes only in the last batch of an update."""
    context: AbstractContextManager[Any] = nullcontext()
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(is_last)
    elif not is_last:
        context = model.no_sync()
    with context:
        yield


def fit(
    args: argparse.Namespace, hyperparameters: dict[str, Any], identity: dict[str, Any], stop_signal: StopSignal
) -> None:
    """Train on all processes, and write the model and the record on the first one."""
    check_distribution(read_hosts())
    experiment = read_description(args.train).get("dataset", "local")
    with join_processes() as processes:
        tracker_class = Tracker if processes.is_first else SilentTracker
        tracker = tracker_class(args.output_data_dir, os.environ.get("TRAINING_JOB_NAME", "local"), experiment)
        tracker.start({**hyperparameters, "processes": processes.count})
        training = Training(args, identity, processes, tracker, stop_signal)
        model = training.run()
        wait_share = training.data_wait.find_largest_share()
        if model:
            model.save(args.model_dir)
            rows = read_channel(args.validation)[0].head(SAMPLE_ROWS)[list(model.inputs.features)]
            rows.join(tabulate_scores(model.score(rows))).to_parquet(args.output_data_dir / SCORES_FILE)
            results = {f"last_{name}": value for name, value in tracker.rounds[-1].items() if name != "round"}
            tracker.finish(results | training.data_wait.report(wait_share))
