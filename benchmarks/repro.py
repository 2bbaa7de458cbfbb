"""16 `repro` at once over 4 windows, on this repository's own dvc.yaml and real flights.

As a DAG run asks for it: the window pinned afresh, then every stage up to the gate. What is asked of it: every run ends
well without a lock error, each stage of a window is computed once, and each window's outputs have the bytes that a run
by itself gives (but for the seconds and the memory that a training took). Then the same, with one of the 16 killed
(kill -9, its whole group) in its training, and run again.
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
DAYS = ("2013-01-01", "2013-02-14")
WINDOWS = ("2013-02-13", "2013-02-14", "2013-02-15", "2013-02-16")
SNAPSHOT = '{"as_of": "%s", "train_days": 30, "holdout_days": 7}'
STAGES = {"snapshot": RUNS, "preprocess": 4, "train": 4, "evaluate": 4, "gate": 4}
"""Stage to how often it runs: `snapshot` looks at the lake in every run."""
STARTED = re.compile(r"^Running stage '([^']+)'", re.MULTILINE)
LOCKED = ("Unable to acquire lock", "database is locked", "Traceback")
FOREIGN = ("LEEWAY_", "MLFLOW_", "AWS_")
LOOK_S = 0.05
USED = "training/resources.json"
"""Output that says what a training used: of the computation, not of the window."""


def run() -> dict[str, Any]:
    """Seconds of each, and what was counted.

    Raises:
        RuntimeError: a run failed, a stage was computed again, or an output differs.
    """
    with tempfile.TemporaryDirectory(dir=os.environ.get("LEEWAY_BENCH_TMP")) as folder:
        place = Place(Path(folder))
        place.ingest()
        alone_s, wanted = place.alone()
        calm_s, calm = place.together(wanted, killed=0)
        stormy_s, stormy = place.together(wanted, killed=1)
    seconds = {"each of 4 windows by itself, nothing cached": alone_s, f"{RUNS} at once over 4 windows": [calm_s]}
    rows = {**seconds, f"{RUNS} at once, one killed in its training and run again": [stormy_s]}
    return {"seconds": rows, "facts": {"stages run": calm, "stages run, one killed": stormy}}


class Place:
    """A clone of the project, a lake, and the runs over them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home, self.project = folder, folder / "home", folder / "project"
        subprocess.run(["git", "clone", "-q", str(PROJECT), str(self.project)], check=True)
        own = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        paths = {"PYTHONPATH": self.project, "LEEWAY_PROJECT": self.project, "LEEWAY_HOME": self.home}
        self.env = own | {name: str(path) for name, path in paths.items()}

    def ingest(self) -> None:
        """The lake has all days of all windows."""
        first, last = DAYS
        if self._start("ingest", "backfill", "--first", first, "--last", last).wait():
            raise RuntimeError(self._log("ingest")[-2_000:])

    def alone(self) -> tuple[list[float], dict[str, dict[str, str]]]:
        """Seconds of each window by itself, and its outputs."""
        seconds, found = [], {}
        for as_of in WINDOWS:
            began = time.monotonic()
            if self._repro(as_of, as_of).wait():
                raise RuntimeError(self._log(as_of)[-2_000:])
            seconds.append(time.monotonic() - began)
            found[as_of] = outputs(self.home / "workspaces" / as_of)
        return seconds, found

    def together(self, wanted: Mapping[str, Mapping[str, str]], killed: int) -> tuple[float, dict[str, int]]:
        """Seconds of all runs at once, over an empty cache, and how often each stage was begun."""
        for name in ("dvc", "workspaces"):
            shutil.rmtree(self.home / name)
        began = time.monotonic()
        windows = {f"run{n}": WINDOWS[n % len(WINDOWS)] for n in range(RUNS)}
        children = {name: self._repro(name, as_of) for name, as_of in windows.items()}
        logs = [self._log(self._kill_in_training(children, windows)) for _ in range(killed)]
        codes = {name: child.wait() for name, child in children.items()}
        seconds = time.monotonic() - began
        logs += [self._log(name) for name in windows]
        begun = Counter(stage for log in logs for stage in STARTED.findall(log))
        made = {name: outputs(self.home / "workspaces" / name) for name in windows}
        twice = {"snapshot": killed, "train": killed}
        expected = {stage: count + twice.get(stage, 0) for stage, count in STAGES.items()}
        # The four of a window share one computation, so what it used, too: the first of them stands for it.
        alone = {as_of: {**wanted[as_of], USED: made[f"run{n}"][USED]} for n, as_of in enumerate(WINDOWS)}
        differ = {name: differing(made[name], alone[as_of]) for name, as_of in windows.items()}
        if wrong := faults(codes, logs, begun, expected, differ):
            raise RuntimeError(f"{wrong}; logs: {[log[-300:] for log in logs]}")
        return seconds, dict(begun)

    def _kill_in_training(self, children: dict[str, subprocess.Popen[bytes]], windows: Mapping[str, str]) -> str:
        """One run that trains is killed and started again; gives the name of the killed one's log."""
        while not (trains := [name for name in children if "Running stage 'train'" in self._log(name)]):
            time.sleep(LOOK_S)
        name = trains[0]
        os.killpg(children[name].pid, signal.SIGKILL)
        if children[name].wait() != -signal.SIGKILL:
            raise RuntimeError(f"{name} had ended before it was killed")
        (self.folder / f"{name}.log").rename(self.folder / "killed.log")
        children[name] = self._repro(name, windows[name])
        return "killed"

    def _repro(self, name: str, as_of: str) -> subprocess.Popen[bytes]:
        given = ("--targets", '["gate"]', "--refresh", '["snapshot"]', "--out", str(self.folder / f"{name}.json"))
        params = f'{{"snapshot": {SNAPSHOT % as_of}}}'
        return self._start(name, "repro", "--workspace", name, "--params", params, *given)

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

    def _log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")


def outputs(workspace: Path) -> dict[str, str]:
    """Path to SHA-256 of every file that the stages made."""
    data = workspace / "data"
    return {str(path.relative_to(data)): sha256(path) for path in sorted(data.rglob("*")) if path.is_file()}


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The paths that only one has, or that are not the same in both."""
    return sorted(path for path in one.keys() | other.keys() if one.get(path) != other.get(path))


def faults(
    codes: Mapping[str, int],
    logs: list[str],
    begun: Mapping[str, int],
    expected: Mapping[str, int],
    differ: Mapping[str, list[str]],
) -> dict[str, Any]:
    """What is wrong with runs at once: nothing where it is empty.

    Args:
        codes: run to exit code.
        logs: of all runs.
        begun: stage to how often it was begun, in all of them.
        expected: the same as it should be.
        differ: run to its outputs that are not those of the window by itself.
    """
    told = {
        "failed": {name: code for name, code in codes.items() if code},
        "locked": sorted({text for text in LOCKED for log in logs if text in log}),
        "begun": {} if begun == expected else dict(begun),
        "different": {name: paths for name, paths in differ.items() if paths},
    }
    return {what: found for what, found in told.items() if found}
