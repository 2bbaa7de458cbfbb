"""Train the flights model: a SageMaker script-mode script that runs the same way on a laptop.

Reads SM_CHANNEL_TRAIN and SM_CHANNEL_VALIDATION (data.parquet, with its columns described in the metadata). Writes
SM_MODEL_DIR and SM_OUTPUT_DATA_DIR. Keeps checkpoints in SM_CHECKPOINT_DIR (/opt/ml/checkpoints where it is not set).
Stopped at any moment and started again, it resumes from its last checkpoint; the model is byte-identical.
Runs in the training container, so it imports xgboost, pandas, pyarrow, and the files of its bundle only.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import xgboost as xgb

from pipelines.container.checkpoints import Checkpoints
from pipelines.container.signals import Stopped, StopSignal
from pipelines.container.tracking import Tracker
from pipelines.datasets.flights.model import Model, Schema
from pipelines.system.files import sha256

DATA = "data.parquet"
PARAMETERS = ("max_depth", "eta", "min_child_weight", "reg_lambda", "seed", "nthread")
"""Hyperparameters that are passed to xgboost."""
SCORES, SCORED_ROWS = "scores.parquet", 1_000
"""File of the record with the scores of validation rows: the gate compares the served model with them."""
CHANGEABLE = ("checkpoint_s", "checkpoint_rounds", "keep_checkpoints")
"""Hyperparameters without an influence on the model: they may change between an interruption and the restart."""


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Parse hyperparameters and folders, as SageMaker's script mode passes them."""
    parser = argparse.ArgumentParser(description="Trains the flights model.")
    parser.add_argument("--num_round", type=int, default=400, help="most boosting rounds")
    parser.add_argument(
        "--early_stopping_rounds",
        type=int,
        default=30,
        help="rounds without a lower validation log loss",
    )
    parser.add_argument("--max_depth", type=int, default=6)
    parser.add_argument("--eta", type=float, default=0.05, help="learning rate")
    parser.add_argument("--min_child_weight", type=float, default=20.0)
    parser.add_argument("--reg_lambda", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--nthread", type=int, default=0, help="threads of xgboost; 0: the machine's cores")
    parser.add_argument("--checkpoint_s", type=float, default=30.0, help="seconds between checkpoints; 0: each round")
    parser.add_argument(
        "--checkpoint_rounds",
        type=int,
        default=0,
        help="rounds between checkpoints; 0: by time only",
    )
    parser.add_argument("--keep_checkpoints", type=int, default=2)
    base = os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml")
    for name, variable, default in (
        ("train", "SM_CHANNEL_TRAIN", f"{base}/input/data/train"),
        ("validation", "SM_CHANNEL_VALIDATION", f"{base}/input/data/validation"),
        ("model_dir", "SM_MODEL_DIR", f"{base}/model"),
        ("output_data_dir", "SM_OUTPUT_DATA_DIR", f"{base}/output/data"),
        ("checkpoint_dir", "SM_CHECKPOINT_DIR", f"{base}/checkpoints"),
    ):
        parser.add_argument(f"--{name}", type=Path, default=Path(os.environ.get(variable, default)))
    return parser.parse_args(argv)


def read_channel(folder: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the rows of a channel, and the description of its columns."""
    table = pq.read_table(folder / DATA)
    return table.to_pandas(), json.loads(table.schema.metadata[b"leeway"])


class Training:
    """Boosts round by round, with checkpoints and a record."""

    def __init__(self, args: argparse.Namespace, tracker: Tracker, stop: StopSignal) -> None:
        self.args, self.tracker, self.stop = args, tracker, stop
        self.checkpoints = Checkpoints(
            args.checkpoint_dir, _list_inputs(args), args.keep_checkpoints, args.checkpoint_s
        )
        rows, description = read_channel(args.train)
        self.schema = Schema.fit(rows, description)
        self.train = self.schema.to_matrix(rows)
        self.validation = self.schema.to_matrix(read_channel(args.validation)[0])

    def run(self) -> Model:
        """Train, and return the model of the best round on validation.

        Raises:
            Stopped: a signal asked for a stop; the rounds so far are in a checkpoint.
        """
        booster, state = self._start()
        self.stop.defer()
        while state["round"] < self.args.num_round and not self._is_exhausted(state):
            self._run_round(booster, state)
            if self._is_due(state):
                self._save(booster, state)
            if self.stop.code:
                raise Stopped
        self._save(booster, state)
        return Model(booster[: state["best_round"] + 1], self.schema)

    def _start(self) -> tuple[xgb.Booster, dict[str, Any]]:
        """Return booster and state of the last checkpoint, or new ones."""
        checkpoint = self.checkpoints.restore()
        if checkpoint is None:
            booster = xgb.Booster(self._list_parameters(), [self.train, self.validation])
            return booster, {"round": 0, "best": float("inf"), "best_round": 0, "rounds": []}
        sys.stderr.write(f"resuming from the checkpoint after round {checkpoint.step}\n")
        if checkpoint.state["xgboost"] != xgb.__version__:
            versions = f"of xgboost {checkpoint.state['xgboost']}, this is {xgb.__version__}"
            sys.stderr.write(f"the checkpoint is {versions}: the model may differ from one of a single version\n")
        booster = xgb.Booster(model_file=bytearray(checkpoint.payload))
        booster.set_param(self._list_parameters())
        self.tracker.rounds = list(checkpoint.state["rounds"])
        return booster, checkpoint.state

    def _run_round(self, booster: xgb.Booster, state: dict[str, Any]) -> None:
        number = state["round"]
        booster.update(self.train, number)
        line = booster.eval_set([(self.train, "train"), (self.validation, "validation")], number)
        metrics = {name: float(value) for name, value in (part.split(":") for part in line.split("\t")[1:])}
        self.tracker.add_round(number, metrics)
        sys.stdout.write(f"{line}\n")
        if metrics["validation-logloss"] < state["best"]:
            state |= {"best": metrics["validation-logloss"], "best_round": number}
        state["round"] = number + 1

    def _is_due(self, state: dict[str, Any]) -> bool:
        every = self.args.checkpoint_rounds
        return self.checkpoints.is_due() or bool(self.stop.code or (every and state["round"] % every == 0))

    def _save(self, booster: xgb.Booster, state: dict[str, Any]) -> None:
        content = {**state, "rounds": self.tracker.rounds, "xgboost": xgb.__version__}
        self.checkpoints.save(state["round"], booster.save_raw("ubj"), content)
        self.tracker.flush()  # after the checkpoint, so that a slow MLflow server does not delay it
        sys.stdout.flush()

    def _is_exhausted(self, state: dict[str, Any]) -> bool:
        return bool(state["round"] - state["best_round"] > self.args.early_stopping_rounds)

    def _list_parameters(self) -> list[tuple[str, Any]]:
        chosen = [(name, getattr(self.args, name)) for name in PARAMETERS]
        fixed = [("objective", "binary:logistic"), ("tree_method", "hist")]
        return [*chosen, *fixed, ("eval_metric", "logloss"), ("eval_metric", "auc")]


def _list_inputs(args: argparse.Namespace) -> dict[str, Any]:
    """Return everything that determines the model: hyperparameters, and digests of the data."""
    values = {name: value for name, value in vars(args).items() if not isinstance(value, Path)}
    data = {name: sha256(vars(args)[name] / DATA) for name in ("train", "validation")}
    return {**{name: value for name, value in values.items() if name not in CHANGEABLE}, **data}


def _describe_error(error: Exception) -> str:
    """Return the error and its place, without the stack of C++ frames that xgboost appends."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = str(error).split("Stack trace")[0].strip()
    return f"{type(error).__name__}: {text} ({Path(frame.filename).name}:{frame.lineno})"


def main() -> int:
    """Train, and write the model to the model folder.

    Returns:
        The exit code: 0 when done, 143 when stopped by SIGTERM, 130 by SIGINT, 1 after an error.
    """
    args = parse_arguments()
    stop = StopSignal()
    try:
        _train(args, stop)
    except Stopped:
        sys.stderr.write("stopped; the last checkpoint is saved\n")
        return stop.code
    except Exception as error:
        with suppress(OSError):  # for example, the disk is full
            # SageMaker shows this file as the job's FailureReason.
            Path(args.output_data_dir).parent.joinpath("failure").write_text(_describe_error(error), encoding="utf-8")
        if os.environ.get("LEEWAY_DEBUG"):
            raise
        sys.stderr.write(f"{_describe_error(error)}\n")
        return 1
    return 0


def _train(args: argparse.Namespace, stop: StopSignal) -> None:
    tracker = Tracker(args.output_data_dir, os.environ.get("TRAINING_JOB_NAME", "local"), "flights")
    tracker.start({name: value for name, value in vars(args).items() if not isinstance(value, Path)})
    model = Training(args, tracker, stop).run()
    model.save(args.model_dir)
    rows = read_channel(args.validation)[0].head(SCORED_ROWS)[list(model.schema.features)]
    rows.assign(score=model.score(rows)).to_parquet(args.output_data_dir / SCORES)
    best = tracker.rounds[model.booster.num_boosted_rounds() - 1]
    tracker.finish({f"best_{name}": value for name, value in best.items()})


if __name__ == "__main__":
    sys.exit(main())
