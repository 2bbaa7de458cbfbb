"""Fine-tune a language model, with LoRA or all its weights: a SageMaker script-mode script for one or several hosts.

Reads SM_CHANNEL_MODEL (a model folder in the format of Hugging Face), SM_CHANNEL_TRAIN and, if there is one,
SM_CHANNEL_VALIDATION (JSON lines). Writes the adapter or the model to SM_MODEL_DIR, and the record of the training to
SM_OUTPUT_DATA_DIR. Writes checkpoints to SM_CHECKPOINT_DIR (/opt/ml/checkpoints if it is not set). A training that was
stopped at any moment resumes from its last checkpoint, also with another number of hosts or GPUs.

Each process has all documents; each of n processes computes every n-th sequence of a step. The order of the sequences
follows from the seed and the epoch, so the training is the same for any number of processes, except for the order of
additions.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pipelines.container.signals import Stopped, StopSignal
from pipelines.container.torch.language.job_folders import JobFolders, find_folders, report_failure
from pipelines.container.tracking import SilentTracker, Tracker
from pipelines.errors import DataError
from pipelines.instances.accelerators import find_peak_flops
from pipelines.planning.training_time import count_token_flops
from pipelines.system.files import write_json
from pipelines.system.packages import find_versions

try:
    import torch
    from torch.nn.functional import cross_entropy

    from pipelines.container.torch.data_wait import DataWait
    from pipelines.container.torch.language import adapters, base_model, distribution
    from pipelines.container.torch.language.channel_data import ChannelData
    from pipelines.container.torch.language.hyperparameters import (
        WEIGHT_HYPERPARAMETERS,
        Hyperparameters,
        parse_hyperparameters,
    )
    from pipelines.container.torch.language.progress import Progress, compute_rate
    from pipelines.container.torch.language.sequences import Batch, Schedule, check_separation
    from pipelines.container.torch.processes import Processes, format_failure, join_processes
    from pipelines.container.torch.sharded_checkpoints import ShardedCheckpoints
    from pipelines.container.torch.training_state import apply_state, collect_state, collect_weights
except ImportError as error:
    hint = "use a PyTorch image with this script's requirements.txt, or pip install 'leeway[language]'"
    sys.exit(report_failure(f"{error.msg}: {hint}."))


class FineTuning:
    """Train a language model step by step; all processes do the same steps."""

    def __init__(self, args: Hyperparameters, folders: JobFolders, processes: Processes, stop: StopSignal) -> None:
        self.args, self.folders, self.processes, self.stop = args, folders, processes, stop
        base_model.check_folder(folders.base_model)
        self.tokenizer = base_model.load_tokenizer(folders.base_model)
        self.data_wait, started_s = DataWait(), time.perf_counter()
        self.data = self._read(folders.train)
        self.validation = self._read(folders.validation) if folders.validation.is_dir() else None
        self.data_wait.add_reading(time.perf_counter() - started_s)
        self.schedule = Schedule(len(self.data.sequences), args.batch_size, args.epochs, args.seed)
        self.base_digest = base_model.compute_digest(folders.base_model, processes)
        identity = {**args.build_identity(), "documents": self.data.digest}
        self.checkpoints = ShardedCheckpoints(
            folders.checkpoints, identity, processes, args.keep_checkpoints, args.checkpoint_s
        )
        self.model = distribution.distribute(self._build_model, args, processes)
        trained_weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        self.optimizer = torch.optim.AdamW(trained_weights, lr=0.0, weight_decay=args.weight_decay, fused=True)
        self.tracker = self._start_tracker()
        self.progress = Progress(processes, *self._find_flops())

    def run(self) -> None:
        """Train from the last checkpoint to the last step, and write the model.

        Raises:
            Stopped: a signal requested a stop; the last step is in a checkpoint.
            DataError: the loss is not a finite number, or the checkpoint belongs to another model. A retry cannot help.
        """
        if self.args.packing:
            with distribution.disable_training(self.model):
                check_separation(self._compute_logits, len(self.tokenizer), self.processes.device)
        step = self._restore()
        self.stop.defer()
        for sequences, parts in self.data_wait.watch(self._read_steps(step)):
            self._run_step(step, sequences, parts)
            step += 1
            self._check_loss(step)
            if step % self.args.log_steps == 0 or step == self.schedule.steps:
                self._report(step)
            self._save_or_stop(step)
        self._write_model()

    def _read(self, folder: Path) -> ChannelData:
        data = ChannelData(folder, self.tokenizer, self.args, self.processes)
        self._print(data.description)
        return data

    def _build_model(self) -> Any:
        """Return the whole model on the CPU; with LoRA, it also has the adapter's weights, which are trained."""
        args, dtype = self.args, distribution.choose_dtype(self.args)
        model = base_model.load_model(self.folders.base_model, dtype, self.tokenizer, args.sequence_length)
        if args.gradient_checkpointing:
            model.activation_checkpointing_enable({"use_reentrant": False})
        return adapters.add_adapter(model, args) if args.is_lora else model

    def _start_tracker(self) -> Tracker:
        tracker_class = Tracker if self.processes.is_first else SilentTracker
        tracker = tracker_class(self.folders.output, os.environ.get("TRAINING_JOB_NAME", "local"), "language_model")
        tracker.start({**asdict(self.args), "base_model": self.base_digest, "processes": self.processes.count})
        return tracker

    def _find_flops(self) -> tuple[float, float]:
        """Return the FLOP that the training needs for a token, and the GPU's peak in FLOP/s; 0: unknown."""
        if self.processes.device.type != "cuda":
            return 0.0, 0.0
        parameters = sum(weight.numel() for weight in self.model.parameters())
        peak_flops = find_peak_flops(torch.cuda.get_device_name(self.processes.device))
        return count_token_flops(parameters, is_lora=self.args.is_lora), peak_flops or 0.0

    def _restore(self) -> int:
        """Put the newest checkpoint into model and optimizer, and return its step; 0 if there is none.

        Raises:
            DataError: the checkpoint belongs to another model. A retry cannot help.
        """
        checkpoint = self.checkpoints.restore()
        if not checkpoint:
            return 0
        state = checkpoint.marker.state
        for name, own_value in self._describe_model().items():
            if state.get(name) != own_value:
                raise DataError(
                    f"the checkpoint {checkpoint.name} has another {name}: {state.get(name)}, not {own_value}.",
                    "Use another checkpoint folder.",
                )
        values = self.checkpoints.load(checkpoint, self._collect_state())
        apply_state(self.model, self.optimizer, values, trainable_only=self.args.is_lora)
        self.tracker.rounds = list(state["rounds"])
        if "data_wait" in state:  # a checkpoint of an earlier version has none
            self.data_wait.load_state_dict(state["data_wait"])
        self.progress.restore(state["progress"])
        return checkpoint.marker.step

    def _describe_model(self) -> dict[str, Any]:
        """Return the values, besides `identity`, that a checkpoint must have in common with this training."""
        return {"base_model": self.base_digest, **{name: getattr(self.args, name) for name in WEIGHT_HYPERPARAMETERS}}

    def _collect_state(self) -> dict[str, Any]:
        return collect_state(self.model, self.optimizer, trainable_only=self.args.is_lora)

    def _read_steps(self, first: int) -> Iterator[tuple[Sequence[int], list[Batch]]]:
        """Yield the steps from `first`: the sequences of each step, and this process's share of them."""
        for step in range(first, self.schedule.steps):
            sequences = self.schedule.choose(step)
            yield sequences, self.data.build_parts(sequences)

    def _run_step(self, step: int, sequences: Sequence[int], parts: Sequence[Batch]) -> None:
        """Update the weights with the sequences of a step.

        Args:
            step: number of the step, from 0.
            sequences: numbers of the sequences of the step, of all processes.
            parts: this process's share of each part of the step.
        """
        args, processes = self.args, self.processes
        # The seed follows from the step, so that a resumed training has the same dropout. With these factors, different
        # steps and processes have different seeds.
        torch.manual_seed((args.seed * 1_000_003 + step) * 10_007 + processes.rank)
        target_count = self.data.count_targets(sequences)
        for number, batch in enumerate(parts):
            with distribution.exchange_gradients(self.model, is_last=number == len(parts) - 1):
                loss = self._compute_loss(batch)
                # The processes average their gradients. The factor `processes.count` turns this average into the sum;
                # the division turns the sum into the mean of the step's targets.
                (loss * processes.count / target_count).backward()
            self.progress.add(float(loss.detach()), batch)
        if args.max_gradient_norm:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), args.max_gradient_norm)
        for group in self.optimizer.param_groups:
            group["lr"] = compute_rate(step, self.schedule.steps, args)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _compute_logits(self, batch: Batch) -> torch.Tensor:
        """Return the logits of a batch. The model gets no mask and no cache: positions say where a document begins."""
        with distribution.cast_computation(self.args, self.processes.device):
            output = self.model(input_ids=batch.tokens, position_ids=batch.positions, use_cache=False)
        logits: torch.Tensor = output.logits
        return logits

    def _compute_loss(self, batch: Batch) -> torch.Tensor:
        """Return the sum of the losses of all targets of a batch."""
        logits = self._compute_logits(batch).float().flatten(0, 1)
        return cross_entropy(logits, batch.targets.flatten(), reduction="sum")

    def _check_loss(self, step: int) -> None:
        """Fail on all processes if the loss of one is not a finite number, before a checkpoint is saved."""
        (is_wrong,) = self.processes.reduce_max(not math.isfinite(self.progress.loss))
        if is_wrong:
            raise DataError(f"the loss is not a number in step {step}.", "Lower learning_rate, or use precision=fp32.")

    def _report(self, step: int) -> None:
        """Record and log the metrics since the last report; after the last step, also the validation loss."""
        metrics = self.progress.summarize()
        metrics["learning_rate"] = compute_rate(step - 1, self.schedule.steps, self.args)
        if self.validation and step == self.schedule.steps:
            metrics["validation_loss"] = self._validate(self.validation)
        self.tracker.add_round(step, metrics)
        texts = " ".join(f"{name}={value:.6g}" for name, value in metrics.items())
        self._print(f"step {step}/{self.schedule.steps} {texts}")

    def _validate(self, data: ChannelData) -> float:
        """Return the mean loss of the targets of a channel."""
        total = 0.0
        with torch.no_grad(), distribution.disable_training(self.model):
            for batch in data.iterate_batches():
                total += float(self._compute_loss(batch))
        return self.processes.reduce_sum(total)[0] / data.count_targets(range(len(data.sequences)))

    def _save_or_stop(self, step: int) -> None:
        """Save a checkpoint if one is due on a process. If a process must stop, save one, and stop all processes."""
        exit_code, is_due = self.processes.reduce_max(self.stop.exit_code, self.checkpoints.is_due())
        if exit_code or is_due:
            progress = self.progress.collect()
            records = {"rounds": self.tracker.rounds, "data_wait": self.data_wait.state_dict()}
            state = {**self._describe_model(), **records, "progress": progress}
            self.checkpoints.save(step, self._collect_state(), state)
            self.tracker.flush()
        if exit_code:
            self.stop.exit_code = exit_code
            raise Stopped

    def _write_model(self) -> None:
        """Write the adapter or the model, the tokenizer and training.json; only the first process writes."""
        weights = collect_weights(self.model, trainable_only=self.args.is_lora)
        wait_share = self.data_wait.find_largest_share()
        if not self.processes.is_first:
            return
        results = {name: value for name, value in self.tracker.rounds[-1].items() if name != "round"}
        description = {
            "base_model": self.base_digest,
            "documents": self.data.digest,
            "steps": self.schedule.steps,
            "hyperparameters": asdict(self.args),
            "results": results,
            "versions": find_versions(("torch", "transformers", "peft", "tokenizers", "safetensors")),
        }
        adapters.save_model(distribution.find_inner_model(self.model), weights, self.folders.model)
        self.tokenizer.save_pretrained(self.folders.model)
        write_json(self.folders.model / "training.json", description)
        self.tracker.finish(results | self.data_wait.report(wait_share))

    def _print(self, line: str) -> None:
        if self.processes.is_first:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()


def main() -> int:
    """Train, and write the model to the model folder.

    Returns:
        The exit code: 0 when done, 143 when stopped by SIGTERM, 130 by SIGINT, 1 after an error.
    """
    stop = StopSignal()
    try:
        args = parse_hyperparameters()
        with join_processes() as processes:
            FineTuning(args, find_folders(), processes, stop).run()
    except Stopped:
        sys.stderr.write("stopped\n")
        return stop.exit_code
    except Exception as error:
        if os.environ.get("LEEWAY_DEBUG"):
            raise
        return report_failure(format_failure(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
