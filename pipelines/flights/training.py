"""Trains the flights model: a SageMaker script-mode script that runs the same on a laptop.

Reads SM_CHANNEL_TRAIN and SM_CHANNEL_VALIDATION (data.parquet that describes itself), writes SM_MODEL_DIR and
SM_OUTPUT_DATA_DIR, keeps checkpoints in SM_CHECKPOINT_DIR (SageMaker's /opt/ml/checkpoints where it is not set).
Stopped at any moment and started again it goes on from the last checkpoint, and ends with the same model.
Runs in the training container: xgboost, pandas, pyarrow, and the few files that its bundle carries.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import xgboost as xgb

from pipelines.flights.model import Model, Schema
from pipelines.tracking import Tracker

STATE = "state.json"
PARAMETERS = ("max_depth", "eta", "min_child_weight", "reg_lambda", "seed")
"""Hyperparameters that are xgboost's own."""


class Stopped(Exception):
    """SIGTERM came: an interruption of spot, or a stop."""


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Hyperparameters and folders, as SageMaker's script mode gives them."""
    parser = argparse.ArgumentParser(description="Trains the flights model.")
    parser.add_argument("--num_round", type=int, default=400, help="most boosting rounds")
    parser.add_argument(
        "--early_stopping_rounds", type=int, default=30, help="rounds without a better validation log loss"
    )
    parser.add_argument("--max_depth", type=int, default=6)
    parser.add_argument("--eta", type=float, default=0.05, help="learning rate")
    parser.add_argument("--min_child_weight", type=float, default=20.0)
    parser.add_argument("--reg_lambda", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--checkpoint_rounds", type=int, default=25, help="rounds between checkpoints")
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


def read(folder: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The rows of a channel, and what its file says of its columns."""
    table = pq.read_table(folder / "data.parquet")
    return table.to_pandas(), json.loads(table.schema.metadata[b"leeway"])


class Checkpoints:
    """The last few states of a training, each a folder named by its round; whole or not there."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = folder, keep
        folder.mkdir(parents=True, exist_ok=True)

    def save(self, booster: xgb.Booster, state: dict[str, Any]) -> None:
        """The state after `state["round"]` rounds is kept."""
        # Made outside: the folder is synchronised to S3 at any moment, and must never hold half a checkpoint.
        making = Path(tempfile.mkdtemp(dir=self.folder.parent, prefix=".checkpoint-"))
        # Not save_model: xgboost 3.2 says "write incomplete" of a full disk, and not of every one.
        (making / "model.ubj").write_bytes(booster.save_raw("ubj"))
        (making / STATE).write_text(json.dumps(state), encoding="utf-8")
        target = self.folder / f"{state['round']:06d}"
        shutil.rmtree(target, ignore_errors=True)
        making.rename(target)
        for old in self._all()[: -self.keep]:
            shutil.rmtree(old, ignore_errors=True)

    def last(self) -> tuple[xgb.Booster, dict[str, Any]] | None:
        """The newest state that can be read."""
        for folder in reversed(self._all()):
            try:
                state = json.loads((folder / STATE).read_text(encoding="utf-8"))
                return xgb.Booster(model_file=folder / "model.ubj"), state
            except (OSError, ValueError, xgb.core.XGBoostError):
                sys.stderr.write(f"checkpoint {folder.name} cannot be read; trying the one before\n")
        return None

    def _all(self) -> list[Path]:
        return sorted(path for path in self.folder.iterdir() if path.name.isdigit())


class Training:
    """Boosting, a round at a time, with its checkpoints and its record."""

    def __init__(self, args: argparse.Namespace, tracker: Tracker) -> None:
        self.args, self.tracker = args, tracker
        self.checkpoints = Checkpoints(args.checkpoint_dir, args.keep_checkpoints)
        rows, described = read(args.train)
        self.schema = Schema.fit(rows, described)
        self.train = self.schema.matrix(rows)
        self.validation = self.schema.matrix(read(args.validation)[0])

    def run(self) -> Model:
        """The model of the best round on validation."""
        found = self.checkpoints.last()
        state: dict[str, Any]
        booster = found[0] if found else xgb.Booster(self._parameters(), [self.train, self.validation])
        booster.set_param(self._parameters())
        state = found[1] if found else {"round": 0, "best": float("inf"), "best_round": 0, "rounds": []}
        self.tracker.rounds = list(state["rounds"])
        if found:
            sys.stderr.write(f"going on from the checkpoint after round {state['round']}\n")
        while state["round"] < self.args.num_round and not self._stale(state):
            self._one(booster, state)
        self._keep(booster, state)
        return Model(booster[: state["best_round"] + 1], self.schema)

    def _one(self, booster: xgb.Booster, state: dict[str, Any]) -> None:
        number = state["round"]
        booster.update(self.train, number)
        line = booster.eval_set([(self.train, "train"), (self.validation, "validation")], number)
        metrics = {name: float(value) for name, value in (part.split(":") for part in line.split("\t")[1:])}
        self.tracker.round(number, metrics)
        sys.stdout.write(f"{line}\n")
        if metrics["validation-logloss"] < state["best"]:
            state |= {"best": metrics["validation-logloss"], "best_round": number}
        state["round"] = number + 1
        if state["round"] % self.args.checkpoint_rounds == 0:
            self._keep(booster, state)

    def _keep(self, booster: xgb.Booster, state: dict[str, Any]) -> None:
        self.tracker.flush()
        self.checkpoints.save(booster, {**state, "rounds": self.tracker.rounds})
        sys.stdout.flush()

    def _stale(self, state: dict[str, Any]) -> bool:
        return bool(state["round"] - state["best_round"] > self.args.early_stopping_rounds)

    def _parameters(self) -> list[tuple[str, Any]]:
        given = [(name, getattr(self.args, name)) for name in PARAMETERS]
        fixed = [("objective", "binary:logistic"), ("tree_method", "hist")]
        return [*given, *fixed, ("eval_metric", "logloss"), ("eval_metric", "auc")]


def _reason(error: Exception) -> str:
    """The error and its place: xgboost appends a stack of C++ frames."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    said = str(error).split("Stack trace")[0].strip()
    return f"{type(error).__name__}: {said} ({Path(frame.filename).name}:{frame.lineno})"


def _stop(signum: int, frame: FrameType | None) -> None:
    raise Stopped


def main() -> int:
    """Trains, and leaves the model in the model folder. 0 when done, 143 when stopped by SIGTERM."""
    signal.signal(signal.SIGTERM, _stop)
    args = arguments()
    try:
        _train(args)
    except Stopped:
        sys.stderr.write("stopped; the last checkpoint is kept\n")
        return 143
    except Exception as error:
        with suppress(OSError):  # a full disk, say
            # SageMaker shows this file as the job's FailureReason.
            Path(args.output_data_dir).parent.joinpath("failure").write_text(_reason(error), encoding="utf-8")
        if os.environ.get("LEEWAY_DEBUG"):
            raise
        sys.stderr.write(f"{_reason(error)}\n")
        return 1
    return 0


def _train(args: argparse.Namespace) -> None:
    tracker = Tracker(args.output_data_dir, os.environ.get("TRAINING_JOB_NAME", "local"), "flights")
    tracker.start({name: value for name, value in vars(args).items() if not isinstance(value, Path)})
    model = Training(args, tracker).run()
    model.save(args.model_dir)
    best = tracker.rounds[model.booster.num_boosted_rounds() - 1]
    tracker.finish({f"best_{name}": value for name, value in best.items()})


if __name__ == "__main__":
    sys.exit(main())
