"""Run the training script for one trial in a process of its own, and read the objective from its log."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from pipelines.container.local_job import FOLDERS, Script, build_command, build_environment
from pipelines.system.locks import hold_lock
from pipelines.system.parent_process import end_with_parent
from pipelines.tuning.sagemaker_job import METRIC_REGEX

OBJECTIVE_LINE = re.compile(rf"^(?:\[(\d+)\]\s)?{METRIC_REGEX}\s*$")
"""A line with the objective of a round, which begins with the round's number in brackets, from 0; or a line with the
objective of the best round, which has no number."""
LOG_FILE = "log.txt"
RESULT_FILE = "output/data/resources.json"
"""File that the script writes last. A trial with this file is finished, even if the search was killed before
it saw the end of its process."""
FOLDS_FILE = "output/data/folds.json"
"""File in which the script describes its folds."""
TAIL_BYTES = 4_000
"""Bytes at the end of a log that are read for its last lines."""
READ_BYTES = 1 << 20
"""Bytes of a log that are read at once."""
MAX_LINE_BYTES = 64 << 10
"""A longer line has no objective. It is skipped: it must neither fill the memory nor be read again and again."""


@dataclass
class ObjectiveLog:
    """Reads the objective of a trial from its log while the log grows."""

    path: Path
    rounds: dict[int, float] = field(default_factory=dict)
    """Maps each number of finished rounds, from 1, to the objective after these rounds."""
    final: float | None = None
    """Objective of the best round, which the script logs last."""
    _position: int = 0
    """Number of bytes of the log that were read."""
    _is_in_long_line: bool = False
    """Whether the bytes before the position are the start of a line that is too long."""

    def read(self) -> None:
        """Read the lines that were added since the last call. An incomplete last line is read at the next call."""
        with self.path.open("rb") as file:
            file.seek(self._position)
            while content := file.read(READ_BYTES):
                complete_bytes = content.rfind(b"\n") + 1
                self._parse(content[:complete_bytes])
                if complete_bytes:
                    self._is_in_long_line = False
                if len(content) - complete_bytes > MAX_LINE_BYTES:
                    complete_bytes, self._is_in_long_line = len(content), True
                self._position += complete_bytes
                if complete_bytes < len(content) < READ_BYTES:  # the end of the log, with an incomplete line
                    return
                file.seek(self._position)

    def _parse(self, content: bytes) -> None:
        """Store the objectives in some complete lines."""
        if self._is_in_long_line:
            content = content.partition(b"\n")[2]
        for line in content.decode(errors="replace").splitlines():
            if match := OBJECTIVE_LINE.match(line):
                self._add(match[1], match[2])

    def _add(self, number: str | None, text: str) -> None:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if number is None:
            self.final = value
        else:
            self.rounds[int(number) + 1] = value

    @property
    def objective(self) -> float | None:
        """The objective of the trial: after the best round, or else after the last round; None if none was logged."""
        return self.final if self.final is not None else next(reversed(self.rounds.values()), None)

    def find_best_until(self, rounds: int) -> float:
        """Return the lowest objective that was logged after any of the first `rounds` rounds."""
        return min(value for number, value in self.rounds.items() if number <= rounds)

    def find_undefined_round(self) -> int | None:
        """Return the first number of rounds after which the objective was no finite number; None if there is none."""
        return next((number for number, value in self.rounds.items() if not math.isfinite(value)), None)


@dataclass
class TrialProcess:
    """A trial: its folder, its log, and its process while it runs."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None
    """None if the trial was already finished, so that no process was started."""
    started_s: float = field(default_factory=time.monotonic)
    log: ObjectiveLog = field(init=False)

    def __post_init__(self) -> None:
        """Open the log."""
        self.log = ObjectiveLog(self.folder / LOG_FILE)

    @property
    def failure_file(self) -> Path:
        """File in which the script says why it failed."""
        return self.folder / "output" / "failure"

    @property
    def seconds(self) -> float:
        """Seconds since the process was started."""
        return time.monotonic() - self.started_s

    def poll(self) -> int | None:
        """Read the log. Return the exit code of the process; None while it runs."""
        exit_code = self.process.poll() if self.process else 0
        self.log.read()
        return exit_code

    def terminate(self) -> None:
        """Send SIGTERM to the process, which then saves a checkpoint and ends. Idempotent."""
        if self.process:
            self.process.terminate()

    def end(self) -> None:
        """Terminate the process and wait for its end; after 30 seconds, kill it."""
        if self.process:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def read_tail(self) -> list[str]:
        """Return the last lines of the log."""
        with self.log.path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()[-5:]

    def read_folds(self) -> dict[str, Any]:
        """Return what the script wrote about its folds; empty if it wrote nothing."""
        try:
            content = json.loads((self.folder / FOLDS_FILE).read_bytes())
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def remove_checkpoints(self) -> None:
        """Remove the checkpoints and the model of a trial that has ended. Its log and its results are kept."""
        for name in (FOLDERS["SM_CHECKPOINT_DIR"], FOLDERS["SM_MODEL_DIR"]):
            shutil.rmtree(self.folder / name, ignore_errors=True)


def start_trial(
    folder: Path, script: Script, channels: Mapping[str, Path], hyperparameters: Mapping[str, Any], threads: int
) -> TrialProcess:
    """Start the script for a trial, or resume it from the checkpoints in `folder`. A finished trial is not run again.

    When this process ends, even by SIGKILL, the trial's process saves a checkpoint and ends. If the operating system
    cannot do this (only Linux can), the trial's process continues, and a restart of the search waits for its end.

    Args:
        folder: folder of the trial.
        script: training script of the dataset.
        channels: folder of each input channel, by name.
        hyperparameters: arguments of the script.
        threads: number of threads that the trial may use.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LOG_FILE).touch()
    with hold_lock(folder / "lock") as lock:
        if (folder / RESULT_FILE).exists():
            return TrialProcess(folder)
        for name in FOLDERS.values():
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "output" / "failure").unlink(missing_ok=True)
        job = f"{folder.parents[1].name}-{folder.name}"
        environment = build_environment(script, job, folder, channels)
        environment |= {"OMP_NUM_THREADS": str(threads), "OMP_THREAD_LIMIT": str(threads)}
        environment.pop("MLFLOW_TRACKING_URI", None)  # this process logs all trials: a client in each costs seconds
        with (folder / LOG_FILE).open("ab+") as log:
            _end_last_line(log)
            process = subprocess.Popen(
                build_command(script, hyperparameters),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[lock],  # so the lock is held until the trial's process ends
                preexec_fn=partial(end_with_parent, os.getpid()),  # noqa: PLW1509 - it calls only prctl, getppid and kill
            )
    return TrialProcess(folder, process)


def _end_last_line(log: BinaryIO) -> None:
    """End an incomplete last line: a killed process may leave one, and the next objective needs a line of its own."""
    if log.seek(0, os.SEEK_END):
        log.seek(-1, os.SEEK_END)
        if log.read() != b"\n":
            log.write(b"\n")
            log.flush()
