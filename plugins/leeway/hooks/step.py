"""Running a step of `pipelines` as a child process, and turning its exit code into what Airflow should do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from pipelines.contract import Report

KILL_AFTER_S = 20
"""Seconds between SIGTERM and SIGKILL of a step's process group."""


class Logger(Protocol):
    """What an operator's `log` has."""

    def info(self, event: Any, *args: Any, **kw: Any) -> Any:
        """Tells a line."""

    def warning(self, event: Any, *args: Any, **kw: Any) -> Any:
        """Tells a line that somebody should see."""


class StepHook:
    """Runs steps in a process group of their own, so that a killed task leaves nothing behind.

    Args:
        log: where the step's lines go.
        python: interpreter of the environment that has the ML libraries; this one where it is empty.
        env: more environment variables for the step.
    """

    def __init__(self, log: Logger, python: str = "", env: Mapping[str, str] | None = None) -> None:
        self.log, self.python, self.env = log, python or sys.executable, dict(env or {})
        self._child: subprocess.Popen[str] | None = None

    def run(self, step: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        """The step's Result.

        Raises:
            AirflowFailException: the request or the data is wrong; Airflow will not try again.
            AirflowException: something outside failed, or a bug; Airflow tries again as the task says.
        """
        with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
            out = Path(folder) / "result.json"
            code = self._run([self.python, "-u", "-m", "pipelines", step, "--spec", "-", "--out", str(out)], spec)
            told = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
        if code:
            raise _error(step, code, told)
        return dict(told)

    def kill(self) -> None:
        """The step and all that it started are gone."""
        child = self._child
        if child is None or child.poll() is not None:
            return
        self.log.info("stopping the step (process group %s)", child.pid)
        _signal_group(child.pid, signal.SIGTERM)
        try:
            child.wait(KILL_AFTER_S)
        except subprocess.TimeoutExpired:
            self.log.warning("the step did not stop in %s s: killing it", KILL_AFTER_S)
        _signal_group(child.pid, signal.SIGKILL)

    def _run(self, command: list[str], spec: Mapping[str, Any]) -> int:
        """Streams the child's lines to the log; returns its exit code."""
        # Airflow's own paths would put plugins/ and dags/ before the step's environment.
        environment = {**os.environ, **self.env, "LEEWAY_PARENT": str(os.getpid())}
        project = environment.get("LEEWAY_PROJECT") or os.getcwd()
        with subprocess.Popen(
            command,
            cwd=project,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as self._child:
            assert self._child.stdin is not None
            assert self._child.stdout is not None
            with self._child.stdin as stdin:
                stdin.write(json.dumps(spec, default=str))
            for line in self._child.stdout:
                self.log.info("%s", line.rstrip())
        return self._child.returncode


def _signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def _error(step: str, code: int, told: dict[str, Any]) -> AirflowException:
    """The exception that an exit code stands for; see `pipelines.errors`."""
    if not told:
        return AirflowException(f"{step} ended with exit code {code} and said nothing; the log above tells more.")
    report = Report.model_validate(told)
    text = f"{step}: {report.message} {report.hint}".strip()
    return AirflowFailException(text) if report.exit_code == 2 else AirflowException(text)
