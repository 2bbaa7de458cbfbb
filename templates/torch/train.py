"""Train a small network with torch on one host or several: a SageMaker script-mode script that torchrun starts.

Reads SM_CHANNEL_TRAIN and SM_CHANNEL_VALIDATION (data.parquet, whose metadata describes the columns). Writes to
SM_MODEL_DIR and SM_OUTPUT_DATA_DIR, and writes checkpoints to SM_CHECKPOINT_DIR. The module `fit` trains; the module
`model` has the network. Without torchrun, the script trains in one process.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pipelines.container.hosts import HostsError
from pipelines.container.signals import Stopped, StopSignal
from pipelines.defaults.arguments import InvalidInput, Parser, get_folder, make_number_parser
from pipelines.errors import DataError, LeewayError

CHANGEABLE_HYPERPARAMETERS = ("checkpoint_s", "checkpoint_updates", "keep_checkpoints", "strategy")
"""Hyperparameters that may change between an interruption and the restart; FSDP can load a checkpoint of DDP."""


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Parse hyperparameters and folders, as SageMaker's script mode passes them.

    Raises:
        InvalidInput: a hyperparameter is unknown, or its value is wrong.
    """
    parser = Parser(description="Trains a network.", allow_abbrev=False)
    # Whole numbers from 0, whole numbers from 1, and numbers from 0.
    parse_count, parse_positive, parse_amount = map(make_number_parser, (int, int, float), (0, 1, 0))
    add: Callable[..., Any] = parser.add_argument
    add("--strategy", choices=("ddp", "fsdp"), default="ddp", help="fsdp shards weights and optimizer state")
    add("--precision", choices=("fp32", "bf16", "fp16"), default="fp32", help="fp16 needs CUDA and ddp")
    add("--batch_rows", type=parse_positive, default=1024, help="rows of a batch, on all hosts together")
    add("--accumulation", type=parse_positive, default=1, help="batches per update of the weights")
    add("--epochs", type=parse_positive, default=10)
    add("--learning_rate", type=parse_amount, default=0.002)
    add("--weight_decay", type=parse_amount, default=0.01)
    add("--max_gradient", type=parse_amount, default=1.0, help="largest norm of the gradient; a larger one is scaled")
    add("--hidden", type=partial(_parse_widths, parse_positive), default=[64, 32], help="layer widths, such as 64,32")
    add("--embedding", type=parse_positive, default=8, help="length of the embedding vector of a category")
    add("--seed", type=parse_count, default=13)
    add("--checkpoint_s", type=parse_amount, default=30.0, help="seconds between checkpoints; 0: after each update")
    add("--checkpoint_updates", type=parse_count, default=0, help="updates between checkpoints; 0: by time only")
    add("--keep_checkpoints", type=parse_positive, default=2)
    return parser.parse_all(argv)


def _parse_widths(parse_positive: Callable[[str], float], text: str) -> list[int]:
    return [int(parse_positive(part)) for part in text.strip("[]").split(",") if part.strip()]


def list_hyperparameters(args: argparse.Namespace) -> dict[str, Any]:
    """Return the hyperparameters by name, without the folders."""
    return {name: value for name, value in vars(args).items() if not isinstance(value, Path)}


def list_inputs(args: argparse.Namespace) -> dict[str, Any]:
    """Return what determines the model: the hyperparameters that may not change, and the digests of the data."""
    from pipelines.defaults.channels import DATA_FILE
    from pipelines.system.files import sha256

    fixed_hyperparameters = {
        name: value for name, value in list_hyperparameters(args).items() if name not in CHANGEABLE_HYPERPARAMETERS
    }
    return {**fixed_hyperparameters, **{name: sha256(vars(args)[name] / DATA_FILE) for name in ("train", "validation")}}


def check_torch() -> None:
    """Check that torch and safetensors are installed.

    Raises:
        DataError: one of them is not installed. A retry cannot help.
    """
    missing_packages = [name for name in ("torch", "safetensors") if find_spec(name) is None]
    if missing_packages:
        raise DataError(
            f"{' and '.join(missing_packages)} cannot be imported by {sys.executable}.",
            "Install Leeway's extra `torch` (pip install 'leeway[torch]'), or use an image with torch.",
        )


def describe_error(error: Exception) -> str:
    """Return an error on one line. The line names the error's class, unless its text was written for people."""
    if isinstance(error, InvalidInput | LeewayError | HostsError):
        return " ".join(str(error).split())
    from pipelines.container.torch.processes import format_failure

    return format_failure(error)


def main() -> int:
    """Train, and write the model to the model folder.

    Returns:
        The exit code: 0 when done, 143 when stopped by SIGTERM, 130 by SIGINT, 1 after an error.
    """
    stop_signal = StopSignal()
    output_folder = get_folder("SM_OUTPUT_DATA_DIR", "output/data")
    try:
        args = parse_arguments()
        output_folder = args.output_data_dir
        check_torch()
        from templates.torch.fit import fit

        fit(args, list_hyperparameters(args), list_inputs(args), stop_signal)
    except Stopped:
        sys.stderr.write("stopped; the last checkpoint is saved\n")
        return stop_signal.exit_code
    except Exception as error:
        line = describe_error(error)
        with suppress(OSError):  # for example, the disk is full
            # SageMaker shows this file as the job's FailureReason.
            output_folder.parent.joinpath("failure").write_text(line, encoding="utf-8")
        if os.environ.get("LEEWAY_DEBUG"):
            raise
        sys.stderr.write(f"{line}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
