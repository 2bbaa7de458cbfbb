"""Test the walk-forward folds: no row of a fold's training was unknown on the first day that it validates on."""

import datetime as dt
import os
import signal
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipelines.defaults import training
from pipelines.defaults.arguments import InvalidInput
from pipelines.defaults.folds import Fold, split_by_day
from pipelines.system.files import read_json, sha256
from tests.tools.tuning import write_features

DESCRIPTION = {"label": "late", "features": {"c": "category"}, "day": "date", "label_delay_days": 1}


def make_rows(days: int, first: dt.date = dt.date(2013, 1, 1), step_days: int = 1) -> pd.DataFrame:
    """Return a row for each day; each day has a category of its own."""
    dates = [first + dt.timedelta(number * step_days) for number in range(days)]
    return pd.DataFrame({"date": dates, "c": [f"{day}" for day in dates], "late": [day.day % 2 == 0 for day in dates]})


def split(rows: pd.DataFrame, folds: int, fold_days: int, **description: Any) -> list[Fold]:
    arguments = Namespace(folds=folds, fold_days=fold_days, quantiles=[])
    return split_by_day(rows, {**DESCRIPTION, **description}, arguments)


def list_days(rows: pd.DataFrame) -> list[int]:
    return [day.day for day in rows["date"]]


def test_each_fold_trains_on_what_was_known_before_it_validates() -> None:
    folds = split(make_rows(10).sample(frac=1, random_state=0), 2, 3)
    assert [(fold.first, fold.last) for fold in folds] == [("2013-01-05", "2013-01-07"), ("2013-01-08", "2013-01-10")]
    assert [list_days(fold.train) for fold in folds] == [[1, 2, 3], [1, 2, 3, 4, 5, 6]], "a day of delay is purged"
    assert [list_days(fold.validation) for fold in folds] == [[5, 6, 7], [8, 9, 10]]
    assert [fold.purged_rows for fold in folds] == [1, 1]


def test_without_a_delay_no_row_is_purged() -> None:
    """This is the negative control: the delay of the window is what removes rows."""
    (fold,) = split(make_rows(10), 1, 3, label_delay_days=0)
    assert (list_days(fold.train), fold.purged_rows) == ([1, 2, 3, 4, 5, 6, 7], 0)
    (fold,) = split(make_rows(10), 1, 3, label_delay_days=4)
    assert (list_days(fold.train), fold.purged_rows) == ([1, 2, 3], 4)


def test_the_label_of_a_month_is_known_after_its_last_day() -> None:
    months = pd.DataFrame({"date": pd.date_range("2013-01-01", periods=6, freq="MS"), "c": "x", "late": True})
    (fold,) = split(months, 1, 31, unit="month", label_delay_days=0)
    assert (fold.first, [day.month for day in fold.train["date"]]) == ("2013-05-02", [1, 2, 3, 4])
    (fold,) = split(months, 1, 31, unit="month", label_delay_days=3)
    assert [day.month for day in fold.train["date"]] == [1, 2, 3], "April is known on the third of May"


def test_categories_come_from_the_training_rows_of_the_fold() -> None:
    folds = split(make_rows(10), 2, 3)
    assert [len(fold.schema.categories["c"]) for fold in folds] == [3, 6]


def test_a_class_that_the_training_has_not_is_left_out_of_the_validation() -> None:
    rows = make_rows(10).assign(late=["a", "b"] * 4 + ["a", "new"])
    (fold,) = split(rows, 1, 3, task="multiclass")
    assert (len(fold.validation), fold.unseen_rows, fold.schema.classes) == (2, 1, ["a", "b"])


@pytest.mark.parametrize(("folds", "fold_days"), [(4, 3), (1, 10), (1, 30)])
def test_more_folds_than_the_window_has_days_are_refused(folds: int, fold_days: int) -> None:
    pattern = rf"{folds} folds of {fold_days} days do not fit into the window 2013-01-01\.\.2013-01-10: .* would train"
    with pytest.raises(InvalidInput, match=pattern):
        split(make_rows(10), folds, fold_days)
    split(make_rows(10), 2, 4)  # this is the negative control


def test_days_without_rows_are_refused() -> None:
    with pytest.raises(InvalidInput, match="would validate on no row"):
        split(make_rows(5, step_days=7), 2, 3)


@pytest.mark.parametrize("day", ["", "missing"])
def test_features_without_a_day_are_refused(day: str) -> None:
    with pytest.raises(InvalidInput, match=r"do not name the column of a row's day\. Run `preprocess` again"):
        split(make_rows(10), 1, 3, day=day)


def start(base: Path, features: Path, **hyperparameters: Any) -> subprocess.Popen[str]:
    """Start the training script on folds."""
    (base / "output").mkdir(parents=True, exist_ok=True)
    channels = {f"SM_CHANNEL_{name.upper()}": str(features / name) for name in ("train", "validation")}
    environment = {**os.environ, **channels, "SAGEMAKER_BASE_DIR": str(base), "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = str(Path(training.__file__).parents[2])
    values = {"folds": 2, "fold_days": 3, "num_round": 40, "early_stopping_rounds": 40, "nthread": 1, **hyperparameters}
    arguments = [part for name, value in values.items() for part in (f"--{name}", str(value))]
    command = [sys.executable, "-u", training.__file__, *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def list_objectives(log: str) -> list[str]:
    return [line for line in log.splitlines() if "tuning-objective:" in line]


@pytest.mark.slow
def test_a_training_on_folds_that_was_killed_ends_with_the_same_bytes(tmp_path: Path) -> None:
    write_features(tmp_path / "features")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    log, _ = start(whole, tmp_path / "features", checkpoint_rounds=7).communicate()
    process = start(killed, tmp_path / "features", checkpoint_rounds=7)
    assert process.stdout
    for line in process.stdout:
        if line.startswith("[20]"):
            process.send_signal(signal.SIGKILL)
            break
    process.communicate()
    resumed_log, _ = start(killed, tmp_path / "features", checkpoint_rounds=7).communicate()
    assert "checkpoint restored: name=0000" in resumed_log
    names = ["output/data/rounds.csv", "output/data/folds.json"]
    assert [sha256(killed / name) for name in names] == [sha256(whole / name) for name in names]
    lines, resumed_lines = list_objectives(log), list_objectives(resumed_log)
    assert len(lines) == 41
    assert 2 < len(resumed_lines) < 41 and resumed_lines == lines[-len(resumed_lines) :]
    assert not list((whole / "model").glob("*")), "no model is written"


def test_the_record_has_each_fold_and_the_mean(tmp_path: Path) -> None:
    write_features(tmp_path / "features", task="regression")
    process = start(tmp_path, tmp_path / "features", early_stopping_rounds=2, eta=1.0)
    log, _ = process.communicate()
    assert process.returncode == 0, log
    rounds = pd.read_csv(tmp_path / "output/data/rounds.csv")
    means = rounds[["fold-1-rmse", "fold-2-rmse"]].mean(axis=1)
    assert rounds["mean-rmse"].to_list() == pytest.approx(means.to_list(), rel=1e-12)
    best = int(rounds["mean-rmse"].argmin())
    assert len(rounds) == best + 3 < 40, "the mean stops the training early"
    folds = read_json(tmp_path / "output/data/folds.json", "the script writes it")
    assert (folds["best_round"], folds["metric"]) == (best, "rmse")
    assert [fold["loss"] for fold in folds["folds"]] == rounds.loc[best, ["fold-1-rmse", "fold-2-rmse"]].to_list()
    assert list_objectives(log)[-1] == f"tuning-objective:{means[best]:.9g}"


def test_a_loss_that_is_no_number_fails_the_training(tmp_path: Path) -> None:
    write_features(tmp_path / "features", task="regression")
    process = start(tmp_path, tmp_path / "features", eta=2e9, num_round=60)
    log, _ = process.communicate()
    assert process.returncode == 1
    assert (tmp_path / "output/failure").read_text() in log
    assert "is inf. Use other hyperparameters." in log or "is nan. Use other hyperparameters." in log
    assert list_objectives(log)
