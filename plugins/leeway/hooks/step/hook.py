"""Run a step of `pipelines` as a child process, and turn its exit code into the error that Airflow needs."""

from __future__ import annotations

import json
import os
import re
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

from leeway import __version__
from leeway.hooks.step.credentials import build_step_environment
from leeway.hooks.step.traces import build_trace_environment
from leeway.package_checks import ForeignPackageError, require_package
from pipelines.contract import SCHEMA_VERSION, Report
from pipelines.errors import SpecError
from pipelines.settings import settings

KILL_AFTER_S = 4
"""Seconds between SIGTERM and SIGKILL of a step's process group. Airflow kills the task itself after 5 seconds."""
INVALID_EXIT_CODE = 2
"""Exit code of a step whose request or data is wrong, so that a retry cannot help; see `pipelines.errors`."""

NO_PACKAGE_TEXT = "No module named pipelines"
"""Part of Python's error if an interpreter cannot find the package `pipelines`."""
INSTALL_HINT = f'Run `pip install "leeway[pipelines]=={__version__}"` in its environment, or change LEEWAY_PYTHON.'


LINE_LEVEL = re.compile(r"(?P<error>error: |E [\w.]+: )|(?P<warning>W [\w.]+: )")
"""Prefix of a step's line that is an error or a warning; see `pipelines.system.log`."""


class Logger(Protocol):
    """The methods of a task's logger that Leeway calls."""

    def info(self, event: Any, *args: Any, **kw: Any) -> Any:
        """Log a line."""

    def warning(self, event: Any, *args: Any, **kw: Any) -> Any:
        """Log a line about a problem."""

    def error(self, event: Any, *args: Any, **kw: Any) -> Any:
        """Log a line about an error."""


class StepHook:
    """Run each step in a process group of its own. If the task is killed or the step crashes, all its processes end.

    Args:
        log: log of the task; each line that the step prints is logged.
        python: interpreter of the environment that has the ML libraries; if empty, LEEWAY_PYTHON, or else the
            interpreter that runs Airflow.
        env: environment variables that the step gets in addition to Airflow's own.
    """

    def __init__(self, log: Logger, python: str = "", env: Mapping[str, Any] | None = None) -> None:
        self.log, self.env = log, dict(env or {})
        self.python = python or get_interpreter()
        self._child: subprocess.Popen[str] | None = None
        """The process of the step that runs, or ran last."""
        self._last_line = ""
        """Last line that the step printed."""

    def run(self, step: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Run a step and return its Result.

        Raises:
            AirflowFailException: the request or the data is wrong. A retry cannot help.
            AirflowException: an external system failed, or there is a bug. A retry can help.
        """
        with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
            spec_file, result_file = Path(folder) / "spec.json", Path(folder) / "result.json"
            # The spec is a file, not a pipe: a write to a pipe could block if the step ends before it reads the spec.
            spec_file.write_text(json.dumps(spec, default=str), encoding="utf-8")
            options = ["--spec", str(spec_file), "--out", str(result_file)]
            exit_code = self._run([self.python, "-u", "-m", "pipelines", step, *options])
            result = _read_result(result_file)
        if exit_code and not result and NO_PACKAGE_TEXT in self._last_line:
            raise AirflowFailException(f"{self.python} cannot run {step}: {self._last_line}. {INSTALL_HINT}")
        if exit_code:
            raise _make_error(step, exit_code, result)
        if result.get("schema_version") != SCHEMA_VERSION:
            raise _make_version_error(step, result)
        return result

    def stop(self) -> None:
        """Stop the step and all processes that it started: send SIGTERM, and SIGKILL after 4 seconds. Idempotent."""
        child = self._child
        if child is None or child.returncode is not None:
            return
        self.log.info("stopping the step (process group %s)", child.pid)
        _signal_group(child, signal.SIGTERM)
        deadline = time.monotonic() + KILL_AFTER_S
        # child.wait() could deadlock: on_kill runs in a signal handler, and the interrupted code may hold the lock that
        # wait() needs.
        while child.returncode is None and time.monotonic() < deadline:
            time.sleep(0.05)
        if child.returncode is None:
            self.log.warning("the step did not stop in %s s: killing it", KILL_AFTER_S)
        _signal_group(child, signal.SIGKILL)

    def _run(self, command: list[str]) -> int:
        """Stream the child's lines to the log; return its exit code."""
        variables = {name: str(value) for name, value in self.env.items()}
        own_variables = {"LEEWAY_PARENT": str(os.getpid()), "LEEWAY_OPERATORS_VERSION": __version__}
        environment = {**os.environ, **build_trace_environment(), **build_step_environment(), **variables}
        with self._start(command, environment | own_variables) as child:
            self._child = child
            threading.Thread(target=_kill_remaining_processes, args=(child,), daemon=True).start()
            try:
                for line in child.stdout or ():
                    self._last_line = line.rstrip()
                    self._log_line(self._last_line)
                _kill_remaining_processes(child)
            except BaseException:
                # A timeout of the task may be raised here. Airflow would call on_kill only after this block.
                self.stop()
                raise
        return child.returncode

    def _log_line(self, line: str) -> None:
        """Log a line of the step with its level, so that Airflow shows errors as errors."""
        match = LINE_LEVEL.match(line)
        level = (match and match.lastgroup) or "info"
        getattr(self.log, level)("%s", line)

    def _start(self, command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
        project = environment.get("LEEWAY_PROJECT") or os.getcwd()
        try:
            require_package("pipelines", [project])
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
        except ForeignPackageError as error:
            raise AirflowFailException(str(error)) from None
        except OSError as error:
            raise AirflowFailException(f"cannot run {self.python} in {project}: {error.strerror}.") from None


def get_interpreter() -> str:
    """Return the interpreter of the steps: LEEWAY_PYTHON, or else the one that runs Airflow.

    Raises:
        AirflowFailException: an environment variable has a wrong value. A retry cannot help.
    """
    try:
        return settings().python or sys.executable
    except SpecError as error:
        raise AirflowFailException(str(error)) from None


def _kill_remaining_processes(child: subprocess.Popen[str]) -> None:
    """Wait for the end of the step, then kill the processes that it left running.

    These processes keep the step's stdout open, and the task waits until the stdout is closed.
    """
    child.wait()
    _signal_group(child, signal.SIGKILL)


def _signal_group(child: subprocess.Popen[str], signal_number: int) -> None:
    # The id of the group is the pid of the step. The kernel does not reuse a pid while its group has processes. So if
    # the step has ended and a process has this pid, the group has ended, too, and the signal would reach another
    # program.
    if child.returncode is not None and psutil.pid_exists(child.pid):
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal_number)


def _read_result(path: Path) -> dict[str, Any]:
    """Read the Result or Report that the step wrote; empty if the file does not exist or is not a JSON object."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return result if isinstance(result, dict) else {}


def _make_error(step: str, exit_code: int, result: Mapping[str, Any]) -> AirflowException:
    """Return the error for a failed step. The exit code decides whether Airflow may retry the task."""
    try:
        report = Report.model_validate(result)
        text = f"{step}: {report.message} {report.hint}".strip()
    except ValidationError:
        is_signal = exit_code < 0
        end_text = (
            f"was ended by {signal.Signals(-exit_code).name}" if is_signal else f"ended with exit code {exit_code}"
        )
        text = f"{step} {end_text} without an error report; see the log above."
    return AirflowFailException(text) if exit_code == INVALID_EXIT_CODE else AirflowException(text)


def _make_version_error(step: str, result: Mapping[str, Any]) -> AirflowException:
    if not result:
        return AirflowException(f"{step} succeeded but wrote no result.")
    version = result.get("schema_version")
    return AirflowFailException(
        f"{step} wrote version {version} of the step contract, and this Airflow reads {SCHEMA_VERSION}: "
        "install the same Leeway in both environments."
    )
