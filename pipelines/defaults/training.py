"""Train gradient-boosted trees: a SageMaker script-mode script that runs the same way on a laptop.

Reads SM_CHANNEL_TRAIN and SM_CHANNEL_VALIDATION (data.parquet, with its columns described in the metadata). Writes the
model to SM_MODEL_DIR. Writes the record of the training (parameters, metrics of each round, used resources) and scores
of validation rows to SM_OUTPUT_DATA_DIR. Keeps checkpoints in SM_CHECKPOINT_DIR (default: /opt/ml/checkpoints).
A training that was stopped at any moment resumes from its last checkpoint when it is started again. Its model is
byte-identical to the model of a training without a stop.

With the hyperparameter `folds`, the script writes no model: it measures the loss of the hyperparameters on walk-forward
folds.

On several hosts (SM_HOSTS), each host reads all rows and trains on its share of them. If S3 divides the channel train
among the hosts (ShardedByS3Key), each host reads only its share. The first host writes the checkpoints, the record and
the model.

The script runs in the training container, so it imports only xgboost, pandas, pyarrow and the files of its bundle.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import xgboost as xgb

from pipelines.classes import tabulate_scores
from pipelines.container.checkpoints import Checkpoint, Checkpoints, compute_digest
from pipelines.container.data_wait import DataWait
from pipelines.container.hosts import Hosts, HostsError, read_hosts
from pipelines.container.signals import Stopped, StopSignal
from pipelines.container.tracking import SilentTracker, Tracker
from pipelines.defaults import collective
from pipelines.defaults.arguments import InvalidInput, get_folder, parse_arguments
from pipelines.defaults.channels import check_distribution, compute_data_digest, read_channel, read_description
from pipelines.defaults.folds import FoldTraining, split_by_day
from pipelines.defaults.model import Model, Schema
from pipelines.defaults.objectives import choose_objective, list_parameters
from pipelines.defaults.shares import check_row_count, make_train_matrix
from pipelines.system.traces import record_span

SCORES_FILE = "scores.parquet"
"""Output file with features and scores of validation rows. The gate compares these scores with those of the packaged
model."""
SCORED_ROWS = 1_000
"""Largest number of validation rows in `SCORES_FILE`."""
QUANTILES_ON_HOSTS = (
    "quantiles on several hosts: xgboost sets each leaf to the mean of the hosts' quantiles, so the model is about as "
    "good as that of one host, but not the same\n"
)
CHANGEABLE_HYPERPARAMETERS = ("checkpoint_s", "checkpoint_rounds", "keep_checkpoints", "verbose_eval")
"""Hyperparameters that do not influence the model: they may change between an interruption and the restart."""


class Training:
    """Train a booster round by round, save checkpoints, and report the metrics of each round to the tracker.

    On several hosts, all hosts train the same booster, each on its share of the rows. Each host measures the booster on
    all validation rows, so that the metrics are equal to those of a training on one host. Only the first host has
    checkpoints.
    """

    def __init__(self, args: argparse.Namespace, tracker: Tracker, stop_signal: StopSignal, hosts: Hosts) -> None:
        self.args, self.tracker, self.stop_signal, self.hosts = args, tracker, stop_signal, hosts
        self.data_wait = DataWait()
        (rows, description), (validation_rows, _) = map(read_channel, (args.train, args.validation))
        self.objective, self.metrics = choose_objective(args, description)
        # If the step `divide` divided the file: number of rows, digest, categories and classes of the whole file.
        self.parts = description.get("parts", {})
        self.inputs = _list_inputs(args)
        self.checkpoints = (
            Checkpoints(args.checkpoint_dir, self.inputs, args.keep_checkpoints, args.checkpoint_s)
            if hosts.is_first
            else None
        )
        try:
            self.schema = Schema.fit(rows, description, args.quantiles)
            self.train_matrix = make_train_matrix(self.schema, rows, hosts, self.parts)
            self.validation_matrix = self.schema.to_matrix(validation_rows)
        except KeyError as error:
            raise InvalidInput(f"a channel lacks {error}. The step `preprocess` writes the channels.") from None
        self.data_wait.end_reading()

    def run(self) -> Model:
        """Train, and return the model of the best round on validation.

        Raises:
            Stopped: a signal requested a stop; all rounds so far are in a checkpoint.
            InvalidInput: the hosts lack rows or have some twice, or the checkpoint is that of another model.
            HostsError: the hosts cannot train together: see `find_group` and `join`.
        """
        group = collective.find_group(self.hosts, compute_digest(self.inputs))
        self.stop_signal.defer()
        if self.args.quantiles and self.hosts.count > 1 and self.hosts.is_first:
            sys.stdout.write(QUANTILES_ON_HOSTS)
        with collective.join(group):
            check_row_count(self.hosts, self.train_matrix.num_row(), self.parts)
            booster, state = self._restore_or_create()
            self._run_rounds(booster, state)
        self._save_checkpoint(booster, state)
        best_metrics = ", ".join(
            f"{name} {value:g}" for name, value in self.tracker.rounds[state["best_round"]].items()
        )
        if self.hosts.is_first:
            sys.stdout.write(f"trained {state['round']} rounds; the best on validation: {best_metrics}\n")
        return Model(booster[: state["best_round"] + 1], self.schema)

    def _run_rounds(self, booster: xgb.Booster, state: dict[str, Any]) -> None:
        while state["round"] < self.args.num_round and not self._has_stopped_improving(state):
            self._run_round(booster, state)
            # If one host is to stop, all hosts stop after the same round.
            exit_code = collective.reduce_max(self.hosts, self.stop_signal.exit_code)
            if exit_code or self._is_checkpoint_due(state):
                self._save_checkpoint(booster, state)
            if exit_code:
                self.stop_signal.exit_code = exit_code
                raise Stopped

    def _restore_or_create(self) -> tuple[xgb.Booster, dict[str, Any]]:
        """Return the booster and the state of the last checkpoint; if there is none, return new ones.

        On several hosts, only the first one has checkpoints, and sends its last one to the others.

        Raises:
            InvalidInput: the checkpoint is that of another model. A retry cannot help.
        """
        checkpoint = collective.share_checkpoint(self.hosts, self.checkpoints.restore() if self.checkpoints else None)
        if checkpoint is None:
            booster = xgb.Booster(self._list_parameters(), [self.train_matrix, self.validation_matrix])
            return booster, {"round": 0, "best": float("inf"), "best_round": 0, "rounds": []}
        self._check_checkpoint(checkpoint)
        sys.stderr.write(f"resuming from the checkpoint after round {checkpoint.step}\n")
        if checkpoint.state["xgboost"] != xgb.__version__:
            versions = f"saved by xgboost {checkpoint.state['xgboost']}, not by {xgb.__version__}"
            sys.stderr.write(f"the checkpoint was {versions}: the model may differ from that of a single version\n")
        booster = xgb.Booster(model_file=bytearray(checkpoint.payload))
        booster.set_param(self._list_parameters())
        self.tracker.rounds = list(checkpoint.state["rounds"])
        self.data_wait.load_state_dict(checkpoint.state.get("data_wait", {}))
        return booster, checkpoint.state

    def _check_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Check that a checkpoint is that of a model with the same objective and the same features."""
        for name, own_value in self._describe_model().items():
            if checkpoint.state.get(name, own_value) != own_value:
                raise InvalidInput(
                    f"the checkpoint after round {checkpoint.step} is of a model with other {name}: "
                    f"{str(checkpoint.state[name])[:200]}, not {str(own_value)[:200]}. Use another checkpoint folder."
                )

    def _run_round(self, booster: xgb.Booster, state: dict[str, Any]) -> None:
        number = state["round"]
        booster.update(self.train_matrix, number)
        line = booster.eval_set([(self.train_matrix, "train"), (self.validation_matrix, "validation")], number)
        line = collective.share_line(self.hosts, line)
        metrics = {name: float(value) for name, value in (part.split(":") for part in line.split("\t")[1:])}
        self.tracker.add_round(number, metrics)
        if number % self.args.verbose_eval == 0 and self.hosts.is_first:
            sys.stdout.write(f"{line}\n")
        loss = metrics[f"validation-{self.metrics[0]}"]
        if loss < state["best"]:
            state |= {"best": loss, "best_round": number}
        state["round"] = number + 1

    def _is_checkpoint_due(self, state: dict[str, Any]) -> bool:
        interval = self.args.checkpoint_rounds
        is_interval_over = interval and state["round"] % interval == 0
        is_due = self.checkpoints is not None and self.checkpoints.is_due()
        return is_due or bool(is_interval_over)

    def _save_checkpoint(self, booster: xgb.Booster, state: dict[str, Any]) -> None:
        if self.checkpoints is None:
            return
        content = {
            **{**state, **self._describe_model(), "rounds": self.tracker.rounds, "xgboost": xgb.__version__},
            "data_wait": self.data_wait.state_dict(),
        }
        self.checkpoints.save(state["round"], booster.save_raw("ubj"), content)
        self.tracker.flush()  # after the checkpoint, so that a slow MLflow server does not delay it
        sys.stdout.flush()

    def _describe_model(self) -> dict[str, Any]:
        """Return what a checkpoint must have in common with this training."""
        return {"objective": self.objective, "features": self.schema.features}

    def _has_stopped_improving(self, state: dict[str, Any]) -> bool:
        return bool(state["round"] - state["best_round"] > self.args.early_stopping_rounds)

    def _list_parameters(self) -> list[tuple[str, Any]]:
        return list_parameters(self.args, self.objective, self.metrics, self.schema)


def _list_inputs(args: argparse.Namespace) -> dict[str, Any]:
    """Return everything that determines the model: hyperparameters that influence it, and the digests of the data."""
    hyperparameters = {name: value for name, value in vars(args).items() if not isinstance(value, Path)}
    digests = {name: compute_data_digest(vars(args)[name]) for name in ("train", "validation")}
    fixed_values = {name: value for name, value in hyperparameters.items() if name not in CHANGEABLE_HYPERPARAMETERS}
    return {**fixed_values, **digests}


def _describe_error(error: Exception) -> str:
    """Describe an error on one line, without the C++ stack that xgboost appends.

    The text names the file and line of the code, unless the input is wrong or the hosts cannot work together.
    """
    text = " ".join(str(error).split("Stack trace")[0].split())
    if isinstance(error, (InvalidInput, HostsError)):
        return text
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {text} ({Path(frame.filename).name}:{frame.lineno})"


def main() -> int:
    """Train, and write the model to the model folder; with `folds`, measure the loss on folds, and write no model.

    Returns:
        The exit code: 0 when done, 143 when stopped by SIGTERM, 130 by SIGINT, 1 after an error. With LEEWAY_DEBUG, an
        error is raised instead.
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
    hosts = read_hosts()
    check_distribution(hosts, divisible_channels=("train",))
    experiment = read_description(args.train).get("dataset", "local")
    tracker_class = Tracker if hosts.is_first else SilentTracker
    tracker = tracker_class(args.output_data_dir, os.environ.get("TRAINING_JOB_NAME", "local"), experiment)
    unused_names = () if args.folds else ("folds", "fold_days")
    tracker.start(
        {name: value for name, value in vars(args).items() if not isinstance(value, Path) and name not in unused_names}
    )
    if args.folds:
        if hosts.count > 1:
            raise InvalidInput("hyperparameter folds: folds are trained on one host. Set instance_count to 1.")
        _train_on_folds(args, tracker, stop_signal)
        return
    with record_span("training.read"):
        training = Training(args, tracker, stop_signal, hosts)
    with record_span("training.fit") as attributes:
        model = training.run()
        attributes["leeway.rounds"] = model.booster.num_boosted_rounds()
    if not hosts.is_first:
        return
    with record_span("training.save"):
        model.save(args.model_dir)
        rows = read_channel(args.validation)[0].head(SCORED_ROWS)[list(model.schema.features)]
        rows.join(tabulate_scores(model.score(rows))).to_parquet(args.output_data_dir / SCORES_FILE)
    best_metrics = tracker.rounds[model.booster.num_boosted_rounds() - 1]
    tracker.finish({f"best_{name}": value for name, value in best_metrics.items()} | training.data_wait.report())


def _train_on_folds(args: argparse.Namespace, tracker: Tracker, stop_signal: StopSignal) -> None:
    """Measure the loss of the hyperparameters on folds of both channels; write the record, but no model."""
    with record_span("training.read"):
        data_wait = DataWait()
        (rows, description), (validation_rows, _) = map(read_channel, (args.train, args.validation))
        objective, metrics = choose_objective(args, description)
        folds = split_by_day(pd.concat([rows, validation_rows], ignore_index=True), description, args)
        checkpoints = Checkpoints(args.checkpoint_dir, _list_inputs(args), args.keep_checkpoints, args.checkpoint_s)
        parameters = [list_parameters(args, objective, metrics[:1], fold.schema) for fold in folds]
        training = FoldTraining(args, folds, parameters, checkpoints, tracker, stop_signal, data_wait)
    with record_span("training.fit") as attributes:
        attributes["leeway.rounds"] = training.run()
    tracker.finish(training.summarize() | data_wait.report())


if __name__ == "__main__":
    sys.exit(main())
