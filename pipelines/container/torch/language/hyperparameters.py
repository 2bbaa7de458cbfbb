"""Parse the hyperparameters of a fine-tuning, as SageMaker's script mode passes them.

This module is part of the training job's bundle, so it imports the standard library and files of the bundle only.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from pipelines.errors import SpecError

CHOICES = {"method": ("lora", "full"), "precision": ("bf16", "fp32"), "strategy": ("auto", "ddp", "fsdp")}
"""Maps each hyperparameter that is one of a few words to these words."""
LIMITS: dict[str, tuple[float, float]] = {
    **{"sequence_length": (2, 2**20), "batch_size": (1, 2**20), "accumulation": (1, 2**20), "epochs": (1, 100_000)},
    **{"learning_rate": (0, 10), "warmup_share": (0, 1), "weight_decay": (0, 10), "max_gradient_norm": (0, 1e6)},
    **{"lora_rank": (1, 4_096), "lora_alpha": (0.001, 1e6), "lora_dropout": (0, 0.99)},
    **{"seed": (0, 2**31 - 1), "log_steps": (1, 10**6), "checkpoint_s": (0, 86_400), "keep_checkpoints": (1, 1_000)},
}
"""Maps each hyperparameter that is a number to its smallest and largest value."""
CHANGEABLE = ("strategy", "gradient_checkpointing", "accumulation", "log_steps", "checkpoint_s", "keep_checkpoints")
"""Hyperparameters that a resumed training may change: they decide how the model is computed, not what is computed."""
WEIGHT_HYPERPARAMETERS = ("method", "lora_rank", "lora_targets")
"""Hyperparameters that decide which weights a checkpoint has. If one of them differs from that of the checkpoint from
which a training resumes, the training fails."""
DEFAULT_RATES = {"lora": 2e-4, "full": 2e-5}
"""Learning rate by method, if none is given."""


@dataclass(frozen=True)
class Hyperparameters:
    """The hyperparameters of a fine-tuning.

    Attributes:
        method: `lora` trains small matrices beside the frozen weights (Hu et al. 2021); `full` trains all weights.
        precision: precision of the computation. With bf16, the frozen weights of LoRA are stored in bf16, too; weights
            that are trained are always stored in fp32.
        strategy: `fsdp` divides the weights among the processes, `ddp` gives each process all of them. `auto` is fsdp
            for `full`, and ddp for `lora`.
        gradient_checkpointing: whether activations are computed again in the backward pass, instead of stored.
        sequence_length: tokens of a sequence.
        packing: whether documents share a sequence. A document never attends to another one.
        batch_size: sequences of a step, of all processes together.
        accumulation: number of parts (micro-batches) of a step that are computed one after the other.
        epochs: number of passes over the documents.
        learning_rate: largest learning rate; 0 for the default of the method.
        warmup_share: share of the steps in which the learning rate rises; after them it falls to 0 (half a cosine).
        weight_decay: weight decay of AdamW.
        max_gradient_norm: norm to which a larger gradient is clipped; 0 for no clipping.
        lora_rank: rank of the matrices.
        lora_alpha: the scale of the matrices is `lora_alpha / lora_rank`.
        lora_dropout: dropout of the matrices' input.
        lora_targets: layers that get matrices: names, separated by commas; `all-linear` for all but the output layer.
        seed: seed of all random numbers: for the order of the documents, the initial matrices and the dropout.
        log_steps: steps between two lines of the log.
        checkpoint_s: longest work between two checkpoints, seconds; 0 for a checkpoint after each step.
        keep_checkpoints: number of checkpoints to keep.
    """

    method: str = "lora"
    precision: str = "bf16"
    strategy: str = "auto"
    gradient_checkpointing: bool = True
    sequence_length: int = 2_048
    packing: bool = True
    batch_size: int = 16
    accumulation: int = 1
    epochs: int = 1
    learning_rate: float = 0.0
    warmup_share: float = 0.03
    weight_decay: float = 0.0
    max_gradient_norm: float = 1.0
    lora_rank: int = 16
    lora_alpha: float = 32.0
    lora_dropout: float = 0.0
    lora_targets: str = "all-linear"
    seed: int = 13
    log_steps: int = 10
    checkpoint_s: float = 300.0
    keep_checkpoints: int = 2

    @property
    def is_lora(self) -> bool:
        """Whether the base model is frozen."""
        return self.method == "lora"

    @property
    def is_divided(self) -> bool:
        """Whether the weights are divided among the processes, by FSDP."""
        return self.strategy == "fsdp" or (self.strategy == "auto" and not self.is_lora)

    @property
    def peak_rate(self) -> float:
        """The largest learning rate."""
        return self.learning_rate or DEFAULT_RATES[self.method]

    def build_identity(self) -> dict[str, Any]:
        """Return the hyperparameters by which a training finds its checkpoints. A checkpoint with others is ignored.

        `WEIGHT_HYPERPARAMETERS` are not among them: a checkpoint with other values of these is found, and the script
        fails with an error instead of starting again from the base model.
        """
        return {
            name: value for name, value in asdict(self).items() if name not in (*CHANGEABLE, *WEIGHT_HYPERPARAMETERS)
        }


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise an error of one line, instead of printing the usage and exiting."""
        raise SpecError(f"{message.replace('argument --', 'hyperparameter ')}.")


def parse_hyperparameters(argv: list[str] | None = None) -> Hyperparameters:
    """Parse the hyperparameters, as SageMaker's script mode passes them.

    Args:
        argv: arguments of the command line; None: those of this process.

    Raises:
        SpecError: a hyperparameter is unknown, or its value is wrong. A retry cannot help.
    """
    parser = _Parser(description="Fine-tunes a language model.", allow_abbrev=False)
    for name, default in asdict(Hyperparameters()).items():
        if name in CHOICES:
            parser.add_argument(f"--{name}", choices=CHOICES[name], default=default)
        elif isinstance(default, bool):
            parser.add_argument(f"--{name}", type=_parse_bool, default=default)
        elif isinstance(default, str):
            parser.add_argument(f"--{name}", default=default)
        else:
            parser.add_argument(f"--{name}", type=_make_number_parser(name), default=default)
    arguments, unknown_arguments = parser.parse_known_args(argv)
    if unknown_arguments:
        names = ", ".join(vars(arguments))
        raise SpecError(f"unknown hyperparameters: {' '.join(unknown_arguments)[:200]}.", f"Use one of: {names}.")
    return Hyperparameters(**vars(arguments))


def _make_number_parser(name: str) -> Callable[[str], int | float]:
    """Return a function that parses a number between the limits of a hyperparameter."""
    low, high = LIMITS[name]
    kind = type(getattr(Hyperparameters, name))

    def parse(text: str) -> int | float:
        with suppress(ValueError):
            value: int | float = kind(text)
            if low <= value <= high:
                return value
        description = "whole number" if kind is int else "number"
        raise argparse.ArgumentTypeError(f"it must be a {description} from {low:g} to {high:g}, but is {text[:100]!r}")

    return parse


def _parse_bool(text: str) -> bool:
    values = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in values:
        raise argparse.ArgumentTypeError(f"it must be true or false, but is {text[:100]!r}")
    return values[text.lower()]
