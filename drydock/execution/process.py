"""The `process` executor: a host as a process group of its own on this machine.

Where the kernel permits it, each host has its own view of the machine: its tree at /opt/ml, the names of the job's
hosts in /etc/hosts, and its own name as host name; all else is the machine's. Where not, the job finds its tree through
SM_* and SAGEMAKER_BASE_DIR, and the hosts have addresses but no names. Cores and memory are not enforced here.
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from drydock.errors import JobFailed
from drydock.execution import strays
from drydock.execution.spawn import prepare, probe, release
from drydock.host.executor import HostPlan
from drydock.host.tree import CONTAINER_BASE


class ProcessExecutor:
    """Starts hosts as process groups.

    Args:
        opt_ml: Whether the tree is to be at /opt/ml, where the kernel permits it. Tried once, now.

    Attributes:
        opt_ml: Whether it is.
        why_plain: Why it is not; "" where it is.
    """

    is_container = False

    def __init__(self, *, opt_ml: bool = True) -> None:
        self.why_plain = probe() if opt_ml else "switched off"
        self.opt_ml = not self.why_plain

    def base(self, root: Path) -> str:
        """Return the path under which the job's environment names its tree."""
        return str(CONTAINER_BASE) if self.opt_ml else str(root)

    def interpreter(self) -> str:
        """Return the Python that runs a script-mode program: the server's own."""
        return sys.executable

    def start(self, plan: HostPlan) -> "ProcessGroup":
        """The host runs.

        Raises:
            JobFailed: The command cannot be executed.
        """
        return ProcessGroup(plan, opt_ml=self.opt_ml)

    def kill_left_over(self, note: Path) -> bool:
        """What a killed server left running of the host that note belongs to is dead; returns whether there was any.

        Idempotent: the note is gone then. A process that only has the same number by now is left alone.
        """
        try:
            known = json.loads(note.read_text(encoding="utf-8"))
            tree, group = Path(known["tree"]), _living_group(known)
        except (OSError, ValueError, TypeError, KeyError):
            alive = False  # no word in it was ever true of a command that ran
        else:
            alive = strays.kill_tree(tree, group=group) > 0
        note.unlink(missing_ok=True)
        return alive

    def kill_strays(self, data: Path) -> int:
        """No process of a tree below data is alive, whether a note names it or not. Returns how many were killed."""
        return strays.kill_strays(data)


class ProcessGroup:
    """A running host: one process, and all that it starts.

    Args:
        plan: What to run.
        opt_ml: Whether it sees its tree at /opt/ml.

    Raises:
        JobFailed: The command cannot be executed.
    """

    def __init__(self, plan: HostPlan, *, opt_ml: bool) -> None:
        if not plan.command:
            raise JobFailed("ClientError: what the image itself starts needs the container executor; name a script")
        self._note, self._root = plan.note, plan.root.resolve()
        self._popen, server = prepare(plan, opt_ml=opt_ml)
        with server:
            try:
                self._process = psutil.Process(self.pid)
                self._write_note()  # before the command runs: a server that is killed leaves nothing unnamed
                problem = release(server)
            except (OSError, psutil.Error) as error:
                problem = f"InternalServerError: cannot start a process: {error}"
        if problem:
            self.finish()
            raise JobFailed(problem)

    @property
    def pid(self) -> int:
        """The leader's process id, which is the group's id too."""
        return self._popen.pid

    def exited(self) -> bool:
        """Return whether the leader has ended. Not reaped yet: the group's id stays its own."""
        try:
            return bool(self._process.status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True

    def terminate(self) -> None:
        """Every process of the group has been sent SIGTERM."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Every process of the group has been sent SIGKILL."""
        self._send(signal.SIGKILL)

    def finish(self) -> int:
        """No process of the host is alive, and the note is gone. Returns the exit code, 128 + N after signal N."""
        if self._popen.returncode is None:  # once reaped, the id may be another group's
            self.kill()
            strays.kill_tree(self._root, group=self.pid)
            self._popen.wait()
            self._note.unlink(missing_ok=True)
        code = int(self._popen.returncode)
        return code if code >= 0 else 128 - code

    def _send(self, number: signal.Signals) -> None:
        if self._popen.returncode is None:  # once reaped, the id may be another group's
            signal_group(self.pid, number)

    def _write_note(self) -> None:
        known = {"pid": self.pid, "create_time": self._process.create_time(), "tree": str(self._root)}
        self._note.write_text(json.dumps(known), encoding="utf-8")


def signal_group(group: int, number: signal.Signals) -> None:
    """The group, if there is one left, has been sent the signal."""
    # PermissionError: only zombies are left, on macOS.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _living_group(known: Mapping[str, Any]) -> int | None:
    # A group whose leader is gone may be another's by now.
    try:
        return int(known["pid"]) if psutil.Process(known["pid"]).create_time() == known["create_time"] else None
    except psutil.Error:
        return None
