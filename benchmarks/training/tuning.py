"""Tune the model flights by Hyperband and by random search, 50 trials each; compare the losses of the winners.

Both searches have the same seed. The random search prunes no trial.
The results of each search are its seconds, the mean log loss of its winner on the folds, and the log loss of the refit
on the holdout. The trials of the random search then run again in two ways: as bare processes without a study, two at a
time, which shows the overhead of the search; and in one process by Optuna alone, which reads the data once and uses all
cores.

LEEWAY_BENCH_TRIALS sets another number of trials.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import optuna
import pandas as pd
import xgboost as xgb

from pipelines.costs.prices import find_price
from pipelines.defaults.arguments import parse_arguments
from pipelines.defaults.channels import read_channel
from pipelines.defaults.folds import split_by_day
from pipelines.defaults.objectives import choose_objective, list_parameters

PROJECT = Path(__file__).parents[2]
TRIALS = int(os.environ.get("LEEWAY_BENCH_TRIALS", "50"))
PARALLEL = 2
STRATEGIES = ("hyperband", "random")
FIXED = {"num_round": "400", "early_stopping_rounds": "30", "seed": "13", "folds": "3", "fold_days": "7"}
"""Hyperparameters of section `train` that are not searched, and the folds of section `tune`."""
EXCLUDED_PREFIXES = ("LEEWAY_", "MLFLOW_", "AWS_", "OMP_")
"""Environment variables with these prefixes are not passed to the steps."""


def run() -> dict[str, Any]:
    """Return the seconds of each search and of the repeated trials, and as facts the losses of the winners.

    Raises:
        RuntimeError: a step failed.
    """
    with tempfile.TemporaryDirectory(dir=os.environ.get("LEEWAY_BENCH_TMP")) as folder:
        model = FlightsModel(Path(folder))
        model.prepare()
        seconds: dict[str, list[float]] = {}
        cpu_s: list[float] = []
        facts: dict[str, Any] = {"trials": TRIALS, "parallel": PARALLEL}
        for strategy in STRATEGIES:
            begin_cpu_s = _read_cpu_seconds()
            seconds[f"{strategy}: {TRIALS} trials"] = [model.tune(strategy)]
            cpu_s.append(_read_cpu_seconds() - begin_cpu_s)
            facts[f"{strategy}: overhead over the seconds of its trials"] = model.compute_overhead(
                seconds[f"{strategy}: {TRIALS} trials"][0]
            )
            facts |= {f"{strategy}: {name}": value for name, value in model.refit_winner().items()}
        trials = list(model.read_trials())
        begin_cpu_s = _read_cpu_seconds()
        seconds["random: the same trials as bare processes"] = [model.run_bare(trials)]
        cpu_s.append(_read_cpu_seconds() - begin_cpu_s)
        seconds["random: the same trials by Optuna in one process"] = [model.run_in_one_process(trials)]
    # Entries 1 and 2, from 0, are the random search, and the same trials as bare processes.
    searched_s, bare_s = (seconds[name][0] for name in list(seconds)[1:3])
    facts["overhead of the search over its bare trials"] = round(searched_s / bare_s - 1, 4)
    facts["overhead of the search over its bare trials, CPU time"] = round(cpu_s[1] / cpu_s[2] - 1, 4)
    return {"seconds": seconds, "facts": facts}


class FlightsModel:
    """A copy of the model flights, with a lake of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.model = folder, folder / "project/models/flights"
        self.model.mkdir(parents=True)
        for name in ("expectations", "pipelines", "params.yaml"):
            (folder / "project" / name).symlink_to(PROJECT / name)
        (self.model / "params.yaml").write_text((PROJECT / "models/flights/params.yaml").read_text())
        variables = {name: value for name, value in os.environ.items() if not name.startswith(EXCLUDED_PREFIXES)}
        paths = {"PYTHONPATH": PROJECT, "LEEWAY_PROJECT": folder / "project", "LEEWAY_HOME": folder / "home"}
        self.env = variables | {name: str(path) for name, path in paths.items()}

    def prepare(self) -> None:
        """Pin the window, whose days `snapshot` ingests, and build the features."""
        self._run("snapshot")
        self._run("preprocess")

    def tune(self, strategy: str) -> float:
        """Run a search, and return its seconds."""
        begin = time.perf_counter()
        self._run("tune", "--strategy", strategy, "--trials", str(TRIALS), "--parallel", str(PARALLEL))
        return time.perf_counter() - begin

    def compute_overhead(self, elapsed_s: float) -> float:
        """Return the overhead of the last search as a share: its start, its report, and slots without a trial.

        The seconds of the search and of its trials come from one run. So a machine whose speed varies between runs does
        not change the share.

        Args:
            elapsed_s: seconds of the search.
        """
        best = json.loads((self.model / "data/tuning/best.json").read_text())
        trials_s = float(best["seconds"]) / PARALLEL  # the seconds of all trials
        return round(elapsed_s / trials_s - 1, 4)

    def refit_winner(self) -> dict[str, float]:
        """Train with the winner's values on the whole window.

        Return the losses on the folds and on the holdout, the cost of the trials, and how many were pruned or failed.
        """
        best = json.loads((self.model / "data/tuning/best.json").read_text())
        hyperparameters = {**FIXED, **best["hyperparameters"], "folds": "0"}
        self._run("train", "--hyperparameters", json.dumps(hyperparameters))
        self._run("evaluate")
        metrics = json.loads((self.model / "data/evaluation/metrics.json").read_text())
        usd = best["seconds"] * find_price("ml.m5.large", "us-east-1").usd_h / 3_600
        counts: dict[str, float] = {"USD of the trials' seconds on ml.m5.large, on demand": round(usd, 4)}
        counts |= {f"{name} trials": count for name, count in best["counts"].items() if name in {"pruned", "failed"}}
        losses = {
            "log loss of the winner on the folds": best["objective"],
            "log loss on the holdout": metrics["log_loss"],
        }
        return {**{name: round(value, 5) for name, value in losses.items()}, **counts}

    def read_trials(self) -> Iterator[dict[str, str]]:
        """Yield the hyperparameters of each trial of the last search."""
        with (self.model / "data/tuning/trials.csv").open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                yield {name.removeprefix("param_"): row[name] for name in row if name.startswith("param_")}

    def run_bare(self, trials: list[dict[str, str]]) -> float:
        """Run the training script for each trial, without a study, and return the seconds of all."""
        begin = time.perf_counter()
        with ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(self._run_bare_trial, range(len(trials)), trials))
        return time.perf_counter() - begin

    def run_in_one_process(self, trials: list[dict[str, str]]) -> float:
        """Run the trials by Optuna alone in this process. Return the seconds of all, including reading the data."""
        begin = time.perf_counter()
        channels = [read_channel(self.model / "data/features" / name) for name in ("train", "validation")]
        rows, description = pd.concat([frame for frame, _ in channels], ignore_index=True), channels[0][1]
        folds = split_by_day(rows, description, parse_arguments(_list_arguments(FIXED)))
        matrices = [(fold.schema.to_matrix(fold.train), fold.schema.to_matrix(fold.validation)) for fold in folds]

        # Optuna suggests no values: each trial has those of a trial of the search.
        def measure(trial: optuna.Trial) -> float:
            arguments = parse_arguments(_list_arguments({**FIXED, **trials[trial.number]}))
            objective, metrics = choose_objective(arguments, description)
            boosters = [
                xgb.Booster(list_parameters(arguments, objective, metrics[:1], fold.schema), pair)
                for fold, pair in zip(folds, matrices, strict=True)
            ]
            return _train_fold_boosters(arguments, boosters, matrices)

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        optuna.create_study(direction="minimize").optimize(measure, n_trials=len(trials))
        return time.perf_counter() - begin

    def _run_bare_trial(self, number: int, values: Mapping[str, str]) -> None:
        base, features = self.folder / "bare" / str(number), self.model / "data/features"
        (base / "output").mkdir(parents=True)
        channels = {f"SM_CHANNEL_{name.upper()}": str(features / name) for name in ("train", "validation")}
        threads = str(max(1, (os.cpu_count() or 1) // PARALLEL))
        env = {**self.env, **channels, "SAGEMAKER_BASE_DIR": str(base), "OMP_NUM_THREADS": threads}
        command = [sys.executable, str(PROJECT / "pipelines/defaults/training.py")]
        arguments = _list_arguments({**FIXED, **values})
        env["OMP_THREAD_LIMIT"] = threads
        subprocess.run([*command, *arguments], env=env, check=True, stdout=subprocess.DEVNULL)

    def _run(self, step: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "pipelines", step, *arguments]
        process = subprocess.run(command, cwd=self.model, env=self.env, capture_output=True, text=True, check=False)
        if process.returncode:
            raise RuntimeError(process.stderr[-2_000:])


def _read_cpu_seconds() -> float:
    """Return the CPU seconds of all processes that this process has started, and that have ended.

    If the speed of the machine varies, two measurements are compared better by CPU time than by wall-clock time.
    """
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _train_fold_boosters(
    arguments: argparse.Namespace, boosters: list[xgb.Booster], matrices: list[tuple[xgb.DMatrix, xgb.DMatrix]]
) -> float:
    """Train a booster for each fold, round by round, until the mean loss stops falling; return the lowest mean loss."""
    best_loss, best_round = float("inf"), 0
    for number in range(arguments.num_round):
        losses = []
        for booster, (train, validation) in zip(boosters, matrices, strict=True):
            booster.update(train, number)
            losses.append(float(booster.eval(validation, "fold", number).rpartition(":")[2]))
        mean = sum(losses) / len(losses)
        if mean < best_loss:
            best_loss, best_round = mean, number
        if number + 1 - best_round > arguments.early_stopping_rounds:
            break
    return best_loss


def _list_arguments(values: Mapping[str, str]) -> list[str]:
    return [part for name, value in values.items() for part in (f"--{name}", value)]
