"""Run `python -m pipelines repro` 16 times at once over 4 windows, with this repository's dvc.yaml and real flights.

Each run works as a DAG run does: it takes a new snapshot of its window, then runs every stage up to the gate. Every run
has to succeed without a lock error, each stage of a window has to be computed once, and the outputs of each window have
to be byte-identical to those of a single run (except the seconds and memory of the training). Then the 16 runs are
repeated, with one of them killed in its training (kill -9 of its process group) and started again.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.system.files import sha256

PROJECT = Path(__file__).parents[1]
RUNS = 16
MODEL = "flights"
DAYS = ("2013-01-01", "2013-02-14")
"""First and last ingested day."""
WINDOWS = ("2013-02-13", "2013-02-14", "2013-02-15", "2013-02-16")
"""The as_of of each window."""
SNAPSHOT_TEMPLATE = '{"as_of": "%s", "train_days": 30, "holdout_days": 7}'
EXPECTED_STAGE_RUNS = {"snapshot": RUNS, "preprocess": 4, "train": 4, "evaluate": 4, "gate": 4}
"""How often each stage has to run in all runs together: once for each window, but `snapshot` in every run."""
STAGE_PATTERN = re.compile(r"^Running stage '([^'@]+)", re.MULTILINE)
ERROR_TEXTS = ("Unable to acquire lock", "database is locked", "Traceback")
EXCLUDED_PREFIXES = ("LEEWAY_", "MLFLOW_", "AWS_")
"""Prefixes of environment variables that the runs do not get."""
POLL_S = 0.05
RESOURCES = "training/resources.json"
"""The output with the seconds and memory of the training, which differ between computations."""


def run() -> dict[str, Any]:
    """Return the seconds of each case, and how often each stage ran.

    Raises:
        RuntimeError: a run failed, a stage was computed again, or an output differs.
    """
    with tempfile.TemporaryDirectory(dir=os.environ.get("LEEWAY_BENCH_TMP")) as folder:
        repro_runs = ReproRuns(Path(folder))
        repro_runs.ingest()
        single_s, single_outputs = repro_runs.run_single()
        plain_s, plain_counts = repro_runs.run_at_once(single_outputs, kill_count=0)
        with_kill_s, counts_with_kill = repro_runs.run_at_once(single_outputs, kill_count=1)
    seconds = {"each of 4 windows alone, empty cache": single_s, f"{RUNS} runs at once over 4 windows": [plain_s]}
    rows = {**seconds, f"{RUNS} runs at once, one killed in its training and started again": [with_kill_s]}
    return {
        "seconds": rows,
        "facts": {"stage runs": plain_counts, "stage runs, one run killed": counts_with_kill},
    }


class ReproRuns:
    """A clone of the project and a lake, on which `repro` runs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home, self.project = folder, folder / "home", folder / "project"
        subprocess.run(["git", "clone", "-q", str(PROJECT), str(self.project)], check=True)
        variables = {name: value for name, value in os.environ.items() if not name.startswith(EXCLUDED_PREFIXES)}
        paths = {"PYTHONPATH": self.project, "LEEWAY_PROJECT": self.project, "LEEWAY_HOME": self.home}
        self.env = variables | {name: str(path) for name, path in paths.items()}

    def ingest(self) -> None:
        """Ingest all days of all windows into the lake."""
        first_day, last_day = DAYS
        if self._start("ingest", "backfill", "--dataset", "flights", "--first", first_day, "--last", last_day).wait():
            raise RuntimeError(self._read_log("ingest")[-2_000:])

    def run_single(self) -> tuple[list[float], dict[str, dict[str, str]]]:
        """Run each window by itself; return the seconds of each, and the digests of its outputs by path."""
        seconds, results = [], {}
        for as_of in WINDOWS:
            start_s = time.monotonic()
            if self._start_repro(as_of, as_of).wait():
                raise RuntimeError(self._read_log(as_of)[-2_000:])
            seconds.append(time.monotonic() - start_s)
            results[as_of] = hash_outputs(self.home / "workspaces" / as_of)
        return seconds, results

    def run_at_once(
        self, single_outputs: Mapping[str, Mapping[str, str]], kill_count: int
    ) -> tuple[float, dict[str, int]]:
        """Run all 16 at once with an empty cache. Kill `kill_count` of them in their training, and start them again.

        Returns:
            The wall-clock seconds until the last run ended, and how often each stage started.
        """
        for name in ("dvc", "workspaces"):
            shutil.rmtree(self.home / name)
        start_s = time.monotonic()
        windows = {f"run{n}": WINDOWS[n % len(WINDOWS)] for n in range(RUNS)}
        children = {name: self._start_repro(name, as_of) for name, as_of in windows.items()}
        logs = [self._read_log(self._kill_in_training(children, windows)) for _ in range(kill_count)]
        codes = {name: child.wait() for name, child in children.items()}
        seconds = time.monotonic() - start_s
        logs += [self._read_log(name) for name in windows]
        stage_counts = Counter(stage for log in logs for stage in STAGE_PATTERN.findall(log))
        results = {name: hash_outputs(self.home / "workspaces" / name) for name in windows}
        extra_counts = {"snapshot": kill_count, "train": kill_count}
        expected_counts = {stage: count + extra_counts.get(stage, 0) for stage, count in EXPECTED_STAGE_RUNS.items()}
        # The four runs of a window share one training, so each has to report the same seconds and memory as the first.
        expected_outputs = {
            as_of: {**single_outputs[as_of], RESOURCES: results[f"run{n}"][RESOURCES]}
            for n, as_of in enumerate(WINDOWS)
        }
        differences = {
            name: list_differences(results[name], expected_outputs[as_of]) for name, as_of in windows.items()
        }
        if faults := find_faults(codes, logs, stage_counts, expected_counts, differences):
            raise RuntimeError(f"{faults}; logs: {[log[-300:] for log in logs]}")
        return seconds, dict(stage_counts)

    def _kill_in_training(self, children: dict[str, subprocess.Popen[bytes]], windows: Mapping[str, str]) -> str:
        """Kill a run in its training, start it again, and return the name of the killed run's log."""
        while not (training_runs := [name for name in children if "train" in self._list_stages(name)]):
            if all(child.poll() is not None for child in children.values()):
                raise RuntimeError("all runs have ended, and none has begun its training")
            time.sleep(POLL_S)
        name = training_runs[0]
        os.killpg(children[name].pid, signal.SIGKILL)
        if children[name].wait() != -signal.SIGKILL:
            raise RuntimeError(f"{name} had ended before it was killed")
        (self.folder / f"{name}.log").rename(self.folder / "killed.log")
        children[name] = self._start_repro(name, windows[name])
        return "killed"

    def _list_stages(self, name: str) -> list[str]:
        """Return the stages that a run has begun."""
        return STAGE_PATTERN.findall(self._read_log(name))

    def _start_repro(self, name: str, as_of: str) -> subprocess.Popen[bytes]:
        options = ("--targets", '["gate"]', "--refresh", '["snapshot"]', "--out", str(self.folder / f"{name}.json"))
        params = f'{{"snapshot": {SNAPSHOT_TEMPLATE % as_of}}}'
        return self._start(name, "repro", "--workspace", name, "--model", MODEL, "--params", params, *options)

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-u", "-m", "pipelines", *arguments]
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                command,
                cwd=self.project,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _read_log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")


def hash_outputs(workspace: Path) -> dict[str, str]:
    """Return the SHA-256 digest of every output of the stages, by path."""
    data = workspace / "models" / MODEL / "data"
    return {str(path.relative_to(data)): sha256(path) for path in sorted(data.rglob("*")) if path.is_file()}


def list_differences(digests: Mapping[str, str], other_digests: Mapping[str, str]) -> list[str]:
    """Return the paths that only one of the two mappings has, or whose digests differ."""
    return sorted(
        path for path in digests.keys() | other_digests.keys() if digests.get(path) != other_digests.get(path)
    )


def find_faults(
    codes: Mapping[str, int],
    logs: list[str],
    stage_counts: Mapping[str, int],
    expected_counts: Mapping[str, int],
    differences: Mapping[str, list[str]],
) -> dict[str, Any]:
    """Return the faults of concurrent runs; empty if all is correct.

    Args:
        codes: the exit code of each run; of a run that was killed, that of its second start.
        logs: the logs of all runs, with those of killed runs.
        stage_counts: how often each stage started, in all runs.
        expected_counts: how often each stage should start.
        differences: for each run, the outputs that differ from those of a single run of the window.
    """
    faults = {
        "failed": {name: code for name, code in codes.items() if code},
        "errors in logs": sorted({text for text in ERROR_TEXTS for log in logs if text in log}),
        "stage_counts": {} if stage_counts == expected_counts else dict(stage_counts),
        "different": {name: paths for name, paths in differences.items() if paths},
    }
    return {fault_type: fault for fault_type, fault in faults.items() if fault}
