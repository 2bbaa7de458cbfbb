"""Parse the hyperparameters and folders of the training script, as SageMaker's script mode passes them."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

MAX_NUMBER = 2**31 - 1
"""Largest value of a hyperparameter."""
FOLDERS = (
    ("train", "SM_CHANNEL_TRAIN", "input/data/train"),
    ("validation", "SM_CHANNEL_VALIDATION", "input/data/validation"),
    ("model_dir", "SM_MODEL_DIR", "model"),
    ("output_data_dir", "SM_OUTPUT_DATA_DIR", "output/data"),
    ("checkpoint_dir", "SM_CHECKPOINT_DIR", "checkpoints"),
)
"""For each folder: the argument, the variable of SageMaker's script mode that holds its default, and the path below
SAGEMAKER_BASE_DIR (/opt/ml) that is used if the variable is not set."""


class InvalidInput(Exception):
    """A hyperparameter or a channel is wrong; the text says which, and what to do."""


class Parser(argparse.ArgumentParser):
    """Parser of hyperparameters and of the folders of SageMaker's script mode."""

    def error(self, message: str) -> NoReturn:
        """Raise an error of one line, instead of printing the usage and exiting."""
        raise InvalidInput(f"{message.replace('argument --', 'hyperparameter ')}.")

    def parse_all(self, argv: list[str] | None = None) -> argparse.Namespace:
        """Add an argument for each folder, and parse all arguments.

        Raises:
            InvalidInput: a hyperparameter is unknown, or its value is wrong.
        """
        for name, variable, default in FOLDERS:
            self.add_argument(f"--{name}", type=Path, default=get_folder(variable, default))
        arguments, unknown_arguments = self.parse_known_args(argv)
        if unknown_arguments:
            names, known_names = " ".join(unknown_arguments)[:200], ", ".join(vars(arguments))
            raise InvalidInput(f"unknown hyperparameters: {names}. Use one of: {known_names}.")
        return arguments


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Parse hyperparameters and folders, as SageMaker's script mode passes them.

    Raises:
        InvalidInput: a hyperparameter is unknown, or its value is wrong.
    """
    parser = Parser(description="Trains gradient-boosted trees.", allow_abbrev=False)
    parse_count, parse_positive, parse_amount = map(make_number_parser, (int, int, float), (0, 1, 0))
    parser.add_argument("--num_round", type=parse_positive, default=400, help="largest number of rounds")
    stopping_help = "training stops after this many rounds without a lower loss on validation; 0: after one round"
    parser.add_argument("--early_stopping_rounds", type=parse_count, default=30, help=stopping_help)
    parser.add_argument("--max_depth", type=parse_count, default=6)
    parser.add_argument("--eta", type=parse_amount, default=0.05, help="learning rate")
    parser.add_argument("--min_child_weight", type=parse_amount, default=20.0)
    parser.add_argument("--reg_lambda", type=parse_amount, default=1.0)
    parser.add_argument("--seed", type=parse_count, default=13)
    parser.add_argument(
        "--quantiles",
        type=_parse_quantiles,
        default=[],
        help="quantiles that a regression predicts instead of the mean, such as 0.1,0.5,0.9; 0.5 must be among them",
    )
    parser.add_argument("--nthread", type=parse_count, default=0, help="threads of xgboost; 0: one for each core")
    parser.add_argument("--checkpoint_s", type=parse_amount, default=30.0, help="seconds between saves; 0: each round")
    parser.add_argument(
        "--checkpoint_rounds", type=parse_count, default=0, help="rounds between saves; 0: by time only"
    )
    parser.add_argument("--keep_checkpoints", type=parse_positive, default=2)
    parser.add_argument(
        "--folds", type=parse_count, default=0, help="walk-forward folds to measure the loss on; 0: train a model"
    )
    parser.add_argument("--fold_days", type=parse_positive, default=7, help="days that each fold validates on")
    parser.add_argument("--verbose_eval", type=parse_positive, default=10, help="rounds between two lines of the log")
    return parser.parse_all(argv)


def make_number_parser(kind: type[int] | type[float], minimum: int) -> Callable[[str], float]:
    """Return a function that parses a number from `minimum` to `MAX_NUMBER`."""

    def parse(text: str) -> float:
        value: float = math.nan
        with suppress(ValueError):
            value = kind(text)
        if not minimum <= value <= MAX_NUMBER:
            name = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(f"it must be a {name} from {minimum} to {MAX_NUMBER}, but is {text!r}")
        return value

    return parse


def _parse_quantiles(text: str) -> list[float]:
    """Return the quantiles in ascending order: different numbers between 0 and 1, with 0.5 among them, or none."""
    quantiles: list[float] = []
    with suppress(ValueError):
        quantiles = sorted(float(part) for part in text.strip("[]").split(",") if part.strip())
    is_valid = all(0 < quantile < 1 for quantile in quantiles) and len(set(quantiles)) == len(quantiles)
    if not is_valid or (0.5 not in quantiles and text.strip() not in {"", "[]"}):
        message = (
            f"it must be different numbers between 0 and 1 with 0.5 among them, such as 0.1,0.5,0.9, but is {text!r}"
        )
        raise argparse.ArgumentTypeError(message)
    return quantiles


def get_folder(variable: str, default: str) -> Path:
    """Return the folder that the variable names; if it is empty or not set, `default` below SAGEMAKER_BASE_DIR."""
    return Path(os.environ.get(variable) or Path(os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml")) / default)
