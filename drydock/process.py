"""The `process` executor: a job as a process group of its own on this machine."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from drydock.errors import JobFailed

GONE_WITHIN_S = 5.0


class ProcessGroup:
    """A running job: one process, and all that it starts unless that leaves the group.

    Args:
        command: What to execute.
        cwd: The working directory.
        env: The whole environment.
        log: The file that stdout and stderr are appended to. No pipe: a job must not block on a reader.
        note: The file that names the process for as long as it runs.

    Raises:
        JobFailed: The command cannot be executed.
    """

    def __init__(self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path, note: Path) -> None:
        try:
            with log.open("ab") as output:
                self._popen = subprocess.Popen(
                    command,
                    cwd=cwd,
                    env=dict(env),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except (OSError, ValueError) as error:
            raise JobFailed(f"AlgorithmError: cannot execute {command[0]!r}: {error}") from error
        self._note = note
        self._process = psutil.Process(self._popen.pid)
        note.write_text(json.dumps({"pid": self._popen.pid, "create_time": self._process.create_time()}))

    @property
    def pid(self) -> int:
        """The leader's process id, which is the group's id too."""
        return self._popen.pid

    def exited(self) -> bool:
        """Return whether the leader has ended. Not reaped yet: the group's id stays its own."""
        try:
            return self._process.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    def terminate(self) -> None:
        """Every process of the group has been sent SIGTERM."""
        signal_group(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Every process of the group has been sent SIGKILL."""
        signal_group(self.pid, signal.SIGKILL)

    def finish(self) -> int:
        """No process of the group is alive. Returns the exit code as a shell does: 128 + N after signal N."""
        if self._popen.returncode is None:  # once reaped, the id may be another group's
            self.kill()
            self._popen.wait()
            wait_group_gone(self.pid)
            self._note.unlink(missing_ok=True)
        code = int(self._popen.returncode)
        return code if code >= 0 else 128 - code


def signal_group(group_id: int, number: signal.Signals) -> None:
    """The group, if there is one left, has been sent the signal."""
    # PermissionError: only zombies are left, on macOS.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group_id, number)


def wait_group_gone(group_id: int) -> None:
    """No process of a killed group is alive, or five seconds have passed (one is stuck in the kernel)."""
    deadline = time.monotonic() + GONE_WITHIN_S
    while time.monotonic() < deadline and _members(group_id):
        time.sleep(0.02)


def _members(group_id: int) -> list[int]:
    return [pid for pid in psutil.pids() if _alive_in(pid, group_id)]


def _alive_in(pid: int, group_id: int) -> bool:
    try:
        return os.getpgid(pid) == group_id and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, PermissionError, psutil.Error):
        return False


def kill_left_over(note: Path) -> bool:
    """The process that note names, left by a server that was killed, is dead with its group.

    Returns:
        Whether it was alive. A process that only has the same id by now is left alone.
    """
    try:
        known = json.loads(note.read_text())
        alive = bool(psutil.Process(known["pid"]).create_time() == known["create_time"])
    except (OSError, ValueError, KeyError, psutil.Error):
        alive = False
    if alive:
        signal_group(known["pid"], signal.SIGKILL)
        wait_group_gone(known["pid"])
    note.unlink(missing_ok=True)
    return alive
