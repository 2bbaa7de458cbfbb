"""Measure the loss of hyperparameters on walk-forward folds of the training window, for the search for hyperparameters.

Fold k trains on the rows before its first validation day, and validates on `fold_days` days. Rows whose label was not
yet known when that day began are left out of its training, as they are between the training window and the holdout.
The last fold ends with the last day of the channels; the holdout is not a channel.

One booster is trained for each fold. Each round trains all boosters, so after it the mean loss of the folds is known,
and is logged: a tuner reads it, and can stop the training after any round.

The module is part of the training job's source bundle.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import xgboost as xgb

from pipelines.container.checkpoints import Checkpoints
from pipelines.container.data_wait import DataWait
from pipelines.container.signals import Stopped, StopSignal
from pipelines.container.tracking import Tracker
from pipelines.defaults.arguments import InvalidInput
from pipelines.defaults.model import Schema

OBJECTIVE = "tuning-objective"
"""Name of the mean loss in the log. `[ROUND]<TAB>NAME:VALUE` is the line of a round, `NAME:VALUE` the last line, with
the value of the best round."""
FOLDS_FILE = "folds.json"
"""Output file with the days, the rows and the loss of each fold."""
DIGITS = 9
"""Significant digits of a logged loss. Nine digits identify a 32-bit float."""


@dataclass(frozen=True)
class Fold:
    """One fold: the days that it validates on, and its rows."""

    first: str
    """First day of validation, YYYY-MM-DD."""
    last: str
    """Last day of validation."""
    train: pd.DataFrame
    validation: pd.DataFrame
    purged_rows: int
    """Number of rows before `first` whose label was not yet known when that day began."""
    unseen_rows: int
    """Number of rows of the validation days whose class is not in the training rows; they are left out."""
    schema: Schema
    """Fitted on the training rows of the fold."""


def split_by_day(rows: pd.DataFrame, description: Mapping[str, Any], args: argparse.Namespace) -> list[Fold]:
    """Split the rows into `args.folds` walk-forward folds, oldest first.

    Args:
        rows: labelled features.
        description: metadata of the features; `day` names the column with the day of a row, and `label_delay_days` is
            the number of days until a label is known, counted from the row's day or, if `unit` is month, from the last
            day of its month.
        args: hyperparameters `folds`, `fold_days` and `quantiles`.

    Raises:
        InvalidInput: the features do not name the column of the day, or a fold has no rows to train or to validate on.
    """
    column = description.get("day", "")
    if column not in rows:
        raise InvalidInput(
            "the features do not name the column of a row's day. Run `preprocess` again to add the name."
        )
    days = pd.to_datetime(rows[column])
    order = days.argsort(kind="stable")
    rows, days = rows.iloc[order].reset_index(drop=True), days.iloc[order].reset_index(drop=True)
    period_ends = days + pd.offsets.MonthEnd(0) if description.get("unit") == "month" else days
    known_days = period_ends + pd.Timedelta(days=int(description.get("label_delay_days", 0)))
    length = pd.Timedelta(days=args.fold_days)
    first_days = [days.max() - (args.folds - number) * length + pd.Timedelta(days=1) for number in range(args.folds)]
    return [_build_fold(rows, days, known_days, first, description, args) for first in first_days]


def _build_fold(
    rows: pd.DataFrame,
    days: pd.Series[Any],
    known_days: pd.Series[Any],
    first: pd.Timestamp,
    description: Mapping[str, Any],
    args: argparse.Namespace,
) -> Fold:
    last = first + pd.Timedelta(days=args.fold_days - 1)
    is_known = (days < first) & (known_days < first)
    train, validation = rows[is_known], rows[(days >= first) & (days <= last)]
    period = f"{first:%Y-%m-%d}..{last:%Y-%m-%d}"
    if train.empty or validation.empty:
        problem = "train on no row whose label was known" if train.empty else "validate on no row"
        raise InvalidInput(
            f"hyperparameter folds: {args.folds} folds of {args.fold_days} days do not fit into the window "
            f"{days.min():%Y-%m-%d}..{days.max():%Y-%m-%d}: the fold of {period} would {problem}. "
            "Use fewer or shorter folds."
        )
    label, is_scorable = description["label"], pd.Series(True, validation.index)
    if description.get("task") == "multiclass":
        is_scorable = validation[label].isin(train[label].unique())
    return Fold(
        first=f"{first:%Y-%m-%d}",
        last=f"{last:%Y-%m-%d}",
        train=train,
        validation=validation[is_scorable],
        purged_rows=int((days < first).sum()) - len(train),
        unseen_rows=int((~is_scorable).sum()),
        schema=Schema.fit(train, dict(description), args.quantiles),
    )


class FoldTraining:
    """Train a booster for each fold, one round of all boosters after the other; log the mean loss of each round.

    Args:
        args: hyperparameters; `num_round`, `early_stopping_rounds` and `checkpoint_rounds` are used.
        folds: folds of the window.
        parameters: parameters of xgboost for each fold, with one metric, of which a lower value is better.
        checkpoints: where the boosters are saved. A checkpoint holds all of them.
        tracker: gets the loss of each fold and the mean, round by round.
        stop_signal: when set, a checkpoint is saved, and the training stops.
        data_wait: measures how long the training reads its data. The constructor records the end of the reading.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        folds: Sequence[Fold],
        parameters: Sequence[list[tuple[str, Any]]],
        checkpoints: Checkpoints,
        tracker: Tracker,
        stop_signal: StopSignal,
        data_wait: DataWait,
    ) -> None:
        self.args, self.folds, self.parameters = args, folds, parameters
        self.checkpoints, self.tracker, self.stop_signal = checkpoints, tracker, stop_signal
        self.data_wait = data_wait
        self.metric = dict(parameters[0])["eval_metric"]
        self.matrices = [(fold.schema.to_matrix(fold.train), fold.schema.to_matrix(fold.validation)) for fold in folds]
        self.state: dict[str, Any] = {"round": 0, "best": math.inf, "best_round": 0, "rounds": []}
        data_wait.end_reading()

    def run(self) -> int:
        """Train, and write `FOLDS_FILE`; return the number of rounds.

        Raises:
            Stopped: a signal requested a stop; all rounds so far are in a checkpoint.
            InvalidInput: the loss is not a finite number.
        """
        boosters = self._restore_or_create()
        self.stop_signal.defer()
        while self.state["round"] < self.args.num_round and not self._has_stopped_improving():
            self._run_round(boosters)
            if self._is_checkpoint_due():
                self._save_checkpoint(boosters)
            if self.stop_signal.exit_code:
                raise Stopped
        self._save_checkpoint(boosters)
        self._write_folds()
        sys.stdout.write(f"best round: [{self.state['best_round']}] of {self.state['round']}\n")
        _write_objective(self.state["best"])
        return int(self.state["round"])

    def summarize(self) -> dict[str, float]:
        """Return the losses of the best round, by name with the prefix `best_`, as results for the tracker."""
        losses = self.tracker.rounds[self.state["best_round"]]
        return {f"best_{name}": value for name, value in losses.items()}

    def _restore_or_create(self) -> list[xgb.Booster]:
        """Return the boosters of the last checkpoint and restore the state; if there is none, return new boosters."""
        checkpoint = self.checkpoints.restore()
        if checkpoint is None:
            return [
                xgb.Booster(parameters, matrices)
                for parameters, matrices in zip(self.parameters, self.matrices, strict=True)
            ]
        sys.stderr.write(f"resuming from the checkpoint after round {checkpoint.step}\n")
        self.state, self.tracker.rounds = checkpoint.state, list(checkpoint.state["rounds"])
        self.data_wait.load_state_dict(self.state.get("data_wait", {}))
        boosters, start = [], 0
        for length, parameters in zip(checkpoint.state["sizes_bytes"], self.parameters, strict=True):
            booster = xgb.Booster(model_file=bytearray(checkpoint.payload[start : start + length]))
            booster.set_param(parameters)
            boosters.append(booster)
            start += length
        return boosters

    def _run_round(self, boosters: Sequence[xgb.Booster]) -> None:
        number = self.state["round"]
        losses = {}
        for index, (booster, (train, validation)) in enumerate(zip(boosters, self.matrices, strict=True), start=1):
            booster.update(train, number)
            losses[f"fold-{index}-{self.metric}"] = float(booster.eval(validation, "fold", number).rpartition(":")[2])
        mean = math.fsum(losses.values()) / len(losses)
        if not math.isfinite(mean):
            raise InvalidInput(f"the {self.metric} of round {number} is {mean}. Use other hyperparameters.")
        self.tracker.add_round(number, {**losses, f"mean-{self.metric}": mean})
        _write_objective(mean, f"[{number}]\t")
        if mean < self.state["best"]:
            self.state |= {"best": mean, "best_round": number}
        self.state["round"] = number + 1

    def _has_stopped_improving(self) -> bool:
        return bool(self.state["round"] - self.state["best_round"] > self.args.early_stopping_rounds)

    def _is_checkpoint_due(self) -> bool:
        interval = self.args.checkpoint_rounds
        is_interval_over = interval and self.state["round"] % interval == 0
        return self.checkpoints.is_due() or bool(self.stop_signal.exit_code or is_interval_over)

    def _save_checkpoint(self, boosters: Sequence[xgb.Booster]) -> None:
        payloads = [bytes(booster.save_raw("ubj")) for booster in boosters]
        self.state |= {"rounds": self.tracker.rounds, "sizes_bytes": list(map(len, payloads))}
        self.state["data_wait"] = self.data_wait.state_dict()
        self.checkpoints.save(self.state["round"], b"".join(payloads), self.state)
        self.tracker.flush()
        sys.stdout.flush()

    def _write_folds(self) -> None:
        """Write the days, the rows and the loss at the best round of each fold."""
        losses = self.tracker.rounds[self.state["best_round"]]
        records = [
            {
                "first": fold.first,
                "last": fold.last,
                "rows_train": len(fold.train),
                "rows_validation": len(fold.validation),
                "rows_purged": fold.purged_rows,
                "rows_unseen_class": fold.unseen_rows,
                "loss": losses[f"fold-{number}-{self.metric}"],
            }
            for number, fold in enumerate(self.folds, start=1)
        ]
        content = {"metric": self.metric, "best_round": self.state["best_round"], "folds": records}
        path = self.tracker.folder / FOLDS_FILE
        path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _write_objective(value: float, prefix: str = "") -> None:
    sys.stdout.write(f"{prefix}{OBJECTIVE}:{value:.{DIGITS}g}\n")
    sys.stdout.flush()
