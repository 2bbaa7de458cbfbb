"""Running a step of `pipelines` as a child process, and turning its exit code into what Airflow should do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import psutil
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from pydantic import ValidationError

from pipelines.contract import SCHEMA_VERSION, Report
from pipelines.settings import settings

KILL_AFTER_S = 4
"""Seconds between SIGTERM and SIGKILL of a step's process group: Airflow kills the task itself after 5."""
REQUEST_IS_WRONG = 2
"""Exit code after which a retry cannot help; see `pipelines.errors`."""


class Logger(Protocol):
    """What an operator's `log` has."""

    def info(self, event: Any, *args: Any, **kw: Any) -> Any:
        """Tells a line."""

    def warning(self, event: Any, *args: Any, **kw: Any) -> Any:
        """Tells a line that somebody should see."""


class StepHook:
    """Runs steps in a process group of their own, so that neither a killed task nor a step that died leaves anything.

    Args:
        log: where the step's lines go.
        python: interpreter of the environment that has the ML libraries; where it is empty LEEWAY_PYTHON, or this one.
        env: more environment variables for the step.
    """

    def __init__(self, log: Logger, python: str = "", env: Mapping[str, Any] | None = None) -> None:
        self.log, self.env = log, dict(env or {})
        self.python = python or settings().python or sys.executable
        self._child: subprocess.Popen[str] | None = None

    def run(self, step: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        """The step's Result.

        Raises:
            AirflowFailException: the request or the data is wrong; Airflow will not try again.
            AirflowException: something outside failed, or a bug; Airflow tries again as the task says.
        """
        with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
            asked, out = Path(folder) / "spec.json", Path(folder) / "result.json"
            # A file, not a pipe: nothing to wait for where the step ends before it reads.
            asked.write_text(json.dumps(spec, default=str), encoding="utf-8")
            code = self._run([self.python, "-u", "-m", "pipelines", step, "--spec", str(asked), "--out", str(out)])
            told = _told(out)
        if code:
            raise _error(step, code, told)
        if told.get("schema_version") != SCHEMA_VERSION:
            raise _unreadable(step, told)
        return told

    def kill(self) -> None:
        """The step and all that it started are gone."""
        child = self._child
        if child is None or child.returncode is not None:
            return
        self.log.info("stopping the step (process group %s)", child.pid)
        _signal_group(child, signal.SIGTERM)
        deadline = time.monotonic() + KILL_AFTER_S
        # Not child.wait: on_kill runs in a signal handler, and what it interrupted may hold the lock of that.
        while child.returncode is None and time.monotonic() < deadline:
            time.sleep(0.05)
        if child.returncode is None:
            self.log.warning("the step did not stop in %s s: killing it", KILL_AFTER_S)
        _signal_group(child, signal.SIGKILL)

    def _run(self, command: list[str]) -> int:
        """Streams the child's lines to the log; returns its exit code."""
        own = {name: str(value) for name, value in self.env.items()}
        environment = {**os.environ, **own, "LEEWAY_PARENT": str(os.getpid())}
        with self._started(command, environment) as child:
            self._child = child
            threading.Thread(target=_sweep, args=(child,), daemon=True).start()
            try:
                for line in child.stdout or ():
                    self.log.info("%s", line.rstrip())
                _sweep(child)
            except BaseException:
                # A time-out of the task comes out of the blue, and on_kill only after this block: which would wait.
                self.kill()
                raise
        return child.returncode

    def _started(self, command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
        project = environment.get("LEEWAY_PROJECT") or os.getcwd()
        try:
            return subprocess.Popen(
                command,
                cwd=project,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise AirflowFailException(f"cannot run {self.python} in {project}: {error.strerror}.") from None


def _sweep(child: subprocess.Popen[str]) -> None:
    """Waits for the step, then ends what it left behind: children that hold its stdout would hang the task."""
    child.wait()
    _signal_group(child, signal.SIGKILL)


def _signal_group(child: subprocess.Popen[str], number: int) -> None:
    # The kernel may give a reaped step's number away, but not while its group lives: taken, it is another's.
    if child.returncode is not None and psutil.pid_exists(child.pid):
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


def _told(out: Path) -> dict[str, Any]:
    """What the step left at `--out`; nothing where that is not a JSON object."""
    try:
        told = json.loads(out.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _error(step: str, code: int, told: Mapping[str, Any]) -> AirflowException:
    """The exception that an exit code stands for; see `pipelines.errors`."""
    try:
        report = Report.model_validate(told)
        text = f"{step}: {report.message} {report.hint}".strip()
    except ValidationError:
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        text = f"{step} {how} and said no more; the log above tells what it did."
    return AirflowFailException(text) if code == REQUEST_IS_WRONG else AirflowException(text)


def _unreadable(step: str, told: Mapping[str, Any]) -> AirflowException:
    if not told:
        return AirflowException(f"{step} ended well but left no result.")
    version = told.get("schema_version")
    return AirflowFailException(
        f"{step} answered in version {version} of the step contract, and this Airflow reads {SCHEMA_VERSION}: "
        "install the same Leeway in both environments."
    )
