"""Train gradient-boosted trees: a SageMaker script-mode script that runs the same way on a laptop.

Reads SM_CHANNEL_TRAIN and SM_CHANNEL_VALIDATION (data.parquet, with its columns described in the metadata). Writes
SM_MODEL_DIR and SM_OUTPUT_DATA_DIR. Keeps checkpoints in SM_CHECKPOINT_DIR (/opt/ml/checkpoints if it is not set).
A training that was stopped at any moment resumes from its last checkpoint when it is started again. Its model is
byte-identical to the model of a training without a stop.

The script runs in the training container, so it imports only xgboost, pandas, pyarrow and the files of its bundle.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import xgboost as xgb

from pipelines.classes import tabulate_scores
from pipelines.container.checkpoints import Checkpoints
from pipelines.container.signals import Stopped, StopSignal
from pipelines.container.tracking import Tracker
from pipelines.defaults.arguments import InvalidInput, get_folder, parse_arguments
from pipelines.defaults.folds import FoldTraining, split_by_day
from pipelines.defaults.model import Model, Schema
from pipelines.system.files import sha256
from pipelines.system.traces import record_span

DATA_FILE = "data.parquet"
OBJECTIVES = {"binary": "binary:logistic", "multiclass": "multi:softprob", "regression": "reg:squarederror"}
"""Task to xgboost's objective."""
METRICS: dict[str, tuple[str, ...]] = {
    "binary": ("logloss", "auc"),
    "multiclass": ("mlogloss", "merror"),
    "regression": ("rmse", "mae"),
}
"""Task to the metrics of each round. The first metric decides when to stop; less is better."""
XGBOOST_HYPERPARAMETERS = ("max_depth", "eta", "min_child_weight", "reg_lambda", "seed", "nthread")
"""Hyperparameters that are passed to xgboost."""
SCORES_FILE = "scores.parquet"
"""Output file with the scores of validation rows. The gate compares them with the scores of the served model."""
SCORED_ROWS = 1_000
"""Number of validation rows in `SCORES_FILE`."""
CHANGEABLE_HYPERPARAMETERS = ("checkpoint_s", "checkpoint_rounds", "keep_checkpoints", "verbose_eval")
"""Hyperparameters that do not influence the model: they may change between an interruption and the restart."""


def read_channel(folder: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the rows of a channel, and the description of its columns.

    Raises:
        InvalidInput: the file does not exist, is damaged, or has no description.
    """
    with _open_channel(folder) as file:
        return file.read().to_pandas(), _parse_description(file)


def read_description(folder: Path) -> dict[str, Any]:
    """Return `dataset`, `task`, `features` and `label` of a channel. Errors: see `read_channel`."""
    with _open_channel(folder) as file:
        return _parse_description(file)


@contextmanager
def _open_channel(folder: Path) -> Iterator[pq.ParquetFile]:
    path = folder / DATA_FILE
    try:
        # Not read_table: it would read the files of a folder, and add columns that are named in the path.
        with pq.ParquetFile(path) as file:
            yield file
    except (OSError, pa.ArrowException, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).rstrip(".")
        raise InvalidInput(f"{path} cannot be read: {reason}. The step `preprocess` writes it.") from None


def _parse_description(file: pq.ParquetFile) -> dict[str, Any]:
    description: dict[str, Any] = json.loads((file.schema_arrow.metadata or {}).get(b"leeway", b""))
    return description


class Training:
    """Train a booster round by round, save checkpoints, and report the metrics of each round to the tracker."""

    def __init__(self, args: argparse.Namespace, tracker: Tracker, stop_signal: StopSignal) -> None:
        self.args, self.tracker, self.stop_signal = args, tracker, stop_signal
        (rows, description), (validation_rows, _) = map(read_channel, (args.train, args.validation))
        self.objective, self.metrics = choose_objective(args, description)
        self.checkpoints = Checkpoints(
            args.checkpoint_dir, _list_inputs(args), args.keep_checkpoints, args.checkpoint_s
        )
        try:
            self.schema = Schema.fit(rows, description, args.quantiles)
            self.train_matrix, self.validation_matrix = map(self.schema.to_matrix, (rows, validation_rows))
        except KeyError as error:
            raise InvalidInput(f"a channel lacks {error}. The step `preprocess` writes the channels.") from None

    def run(self) -> Model:
        """Train, and return the model of the best round on validation.

        Raises:
            Stopped: a signal requested a stop; all rounds so far are in a checkpoint.
        """
        booster, state = self._restore_or_create()
        self.stop_signal.defer()
        while state["round"] < self.args.num_round and not self._has_stopped_improving(state):
            self._run_round(booster, state)
            if self._is_checkpoint_due(state):
                self._save_checkpoint(booster, state)
            if self.stop_signal.exit_code:
                raise Stopped
        self._save_checkpoint(booster, state)
        best_metrics = ", ".join(
            f"{name} {value:g}" for name, value in self.tracker.rounds[state["best_round"]].items()
        )
        sys.stdout.write(f"trained {state['round']} rounds; the best on validation: {best_metrics}\n")
        return Model(booster[: state["best_round"] + 1], self.schema)

    def _restore_or_create(self) -> tuple[xgb.Booster, dict[str, Any]]:
        """Return the booster and the state of the last checkpoint; if there is none, return new ones."""
        checkpoint = self.checkpoints.restore()
        if checkpoint is None:
            booster = xgb.Booster(self._list_parameters(), [self.train_matrix, self.validation_matrix])
            return booster, {"round": 0, "best": float("inf"), "best_round": 0, "rounds": []}
        sys.stderr.write(f"resuming from the checkpoint after round {checkpoint.step}\n")
        if checkpoint.state["xgboost"] != xgb.__version__:
            versions = f"saved by xgboost {checkpoint.state['xgboost']}, not by {xgb.__version__}"
            sys.stderr.write(f"the checkpoint was {versions}: the model may differ from that of a single version\n")
        booster = xgb.Booster(model_file=bytearray(checkpoint.payload))
        booster.set_param(self._list_parameters())
        self.tracker.rounds = list(checkpoint.state["rounds"])
        return booster, checkpoint.state

    def _run_round(self, booster: xgb.Booster, state: dict[str, Any]) -> None:
        number = state["round"]
        booster.update(self.train_matrix, number)
        line = booster.eval_set([(self.train_matrix, "train"), (self.validation_matrix, "validation")], number)
        metrics = {name: float(value) for name, value in (part.split(":") for part in line.split("\t")[1:])}
        self.tracker.add_round(number, metrics)
        if number % self.args.verbose_eval == 0:
            sys.stdout.write(f"{line}\n")
        loss = metrics[f"validation-{self.metrics[0]}"]
        if loss < state["best"]:
            state |= {"best": loss, "best_round": number}
        state["round"] = number + 1

    def _is_checkpoint_due(self, state: dict[str, Any]) -> bool:
        interval = self.args.checkpoint_rounds
        is_interval_over = interval and state["round"] % interval == 0
        return self.checkpoints.is_due() or bool(self.stop_signal.exit_code or is_interval_over)

    def _save_checkpoint(self, booster: xgb.Booster, state: dict[str, Any]) -> None:
        content = {**state, "rounds": self.tracker.rounds, "xgboost": xgb.__version__}
        self.checkpoints.save(state["round"], booster.save_raw("ubj"), content)
        self.tracker.flush()  # after the checkpoint, so that a slow MLflow server does not delay it
        sys.stdout.flush()

    def _has_stopped_improving(self, state: dict[str, Any]) -> bool:
        return bool(state["round"] - state["best_round"] > self.args.early_stopping_rounds)

    def _list_parameters(self) -> list[tuple[str, Any]]:
        return list_parameters(self.args, self.objective, self.metrics, self.schema)


def choose_objective(args: argparse.Namespace, description: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return xgboost's objective, and the metrics of each round, for the task in the description of a channel.

    Raises:
        InvalidInput: quantiles are given, and the task is not a regression.
    """
    task = description.get("task", "binary")
    if not args.quantiles:
        return OBJECTIVES[task], METRICS[task]
    if task != "regression":
        raise InvalidInput(f"hyperparameter quantiles: models of the task {task} have no quantiles. Leave it out.")
    return "reg:quantileerror", ("quantile",)


def list_parameters(
    args: argparse.Namespace, objective: str, metrics: Sequence[str], schema: Schema
) -> list[tuple[str, Any]]:
    """Return the parameters of a booster."""
    parameters = [(name, getattr(args, name)) for name in XGBOOST_HYPERPARAMETERS]
    parameters += [("objective", objective), ("tree_method", "hist")]
    parameters += [("num_class", len(schema.classes))] if schema.classes else []
    parameters += [("quantile_alpha", args.quantiles)] if args.quantiles else []
    return [*parameters, *(("eval_metric", metric) for metric in metrics)]


def _list_inputs(args: argparse.Namespace) -> dict[str, Any]:
    """Return everything that determines the model: the hyperparameters, and the digests of the data."""
    hyperparameters = {name: value for name, value in vars(args).items() if not isinstance(value, Path)}
    digests = {name: sha256(vars(args)[name] / DATA_FILE) for name in ("train", "validation")}
    fixed_values = {name: value for name, value in hyperparameters.items() if name not in CHANGEABLE_HYPERPARAMETERS}
    return {**fixed_values, **digests}


def _describe_error(error: Exception) -> str:
    """Describe an error on one line, without the C++ stack that xgboost appends.

    The text names the file and line of the code, unless the input is wrong.
    """
    text = " ".join(str(error).split("Stack trace")[0].split())
    if isinstance(error, InvalidInput):
        return text
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {text} ({Path(frame.filename).name}:{frame.lineno})"


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
        _train(args, stop_signal)
    except Stopped:
        sys.stderr.write("stopped; the last checkpoint is saved\n")
        return stop_signal.exit_code
    except Exception as error:
        with suppress(OSError):  # for example, the disk is full
            # SageMaker shows this file as the job's FailureReason.
            output_folder.parent.joinpath("failure").write_text(_describe_error(error), encoding="utf-8")
        if os.environ.get("LEEWAY_DEBUG"):
            raise
        sys.stderr.write(f"{_describe_error(error)}\n")
        return 1
    return 0


def _train(args: argparse.Namespace, stop_signal: StopSignal) -> None:
    experiment = read_description(args.train).get("dataset", "local")
    tracker = Tracker(args.output_data_dir, os.environ.get("TRAINING_JOB_NAME", "local"), experiment)
    unused_names = () if args.folds else ("folds", "fold_days")
    tracker.start(
        {name: value for name, value in vars(args).items() if not isinstance(value, Path) and name not in unused_names}
    )
    if args.folds:
        _train_on_folds(args, tracker, stop_signal)
        return
    with record_span("training.read"):
        training = Training(args, tracker, stop_signal)
    with record_span("training.fit") as attributes:
        model = training.run()
        attributes["leeway.rounds"] = model.booster.num_boosted_rounds()
    with record_span("training.save"):
        model.save(args.model_dir)
        rows = read_channel(args.validation)[0].head(SCORED_ROWS)[list(model.schema.features)]
        rows.join(tabulate_scores(model.score(rows))).to_parquet(args.output_data_dir / SCORES_FILE)
    best_metrics = tracker.rounds[model.booster.num_boosted_rounds() - 1]
    tracker.finish({f"best_{name}": value for name, value in best_metrics.items()})


def _train_on_folds(args: argparse.Namespace, tracker: Tracker, stop_signal: StopSignal) -> None:
    """Measure the hyperparameters on walk-forward folds of both channels; write the record, and no model."""
    with record_span("training.read"):
        (rows, description), (validation_rows, _) = map(read_channel, (args.train, args.validation))
        objective, metrics = choose_objective(args, description)
        folds = split_by_day(pd.concat([rows, validation_rows], ignore_index=True), description, args)
        checkpoints = Checkpoints(args.checkpoint_dir, _list_inputs(args), args.keep_checkpoints, args.checkpoint_s)
        parameters = [list_parameters(args, objective, metrics[:1], fold.schema) for fold in folds]
        training = FoldTraining(args, folds, parameters, checkpoints, tracker, stop_signal)
    with record_span("training.fit") as attributes:
        attributes["leeway.rounds"] = training.run()
    tracker.finish(training.summarize())


if __name__ == "__main__":
    sys.exit(main())
