"""The `process` executor: each host is a process group on this machine.

If the kernel permits it, each host has its own view of the machine: its tree at /opt/ml, the names of the job's hosts
in /etc/hosts, and its own host name. Everything else is the machine's. Otherwise the job finds its tree through SM_*
and SAGEMAKER_BASE_DIR, and the hosts have addresses but no names. This executor does not enforce cores and memory.
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
from drydock.execution.spawn import find_opt_ml_problem, release, start_paused
from drydock.host.executor import HostPlan
from drydock.host.tree import CONTAINER_BASE


class ProcessExecutor:
    """Starts hosts as process groups.

    Args:
        opt_ml: Whether to put the tree at /opt/ml, if the kernel permits it. The constructor tries it once.

    Attributes:
        has_opt_ml: Whether the tree is at /opt/ml.
        opt_ml_problem: Why it is not; "" if it is.
    """

    is_container = False

    def __init__(self, *, opt_ml: bool = True) -> None:
        self.opt_ml_problem = find_opt_ml_problem() if opt_ml else "switched off"
        self.has_opt_ml = not self.opt_ml_problem

    def base(self, root: Path) -> str:
        """Return the path at which a job sees the tree at root."""
        return str(CONTAINER_BASE) if self.has_opt_ml else str(root)

    def interpreter(self) -> str:
        """Return the Python interpreter for a script-mode program: the server's own."""
        return sys.executable

    def start(self, plan: HostPlan) -> "ProcessGroup":
        """Start a host.

        Raises:
            JobFailed: The command cannot be executed.
        """
        return ProcessGroup(plan, has_opt_ml=self.has_opt_ml)

    def kill_leftover(self, process_file: Path) -> bool:
        """Kill what a killed server left running of one host, and delete its process file. Idempotent.

        Another process that has the same id by now is not killed.

        Returns:
            Whether anything was still running.
        """
        try:
            known = json.loads(process_file.read_text(encoding="utf-8"))
            tree, group = Path(known["tree"]), _find_group(known)
        except (OSError, ValueError, TypeError, KeyError):
            was_alive = False  # the file is incomplete, and the command starts only after it is complete
        else:
            was_alive = strays.kill_tree(tree, group=group) > 0
        process_file.unlink(missing_ok=True)
        return was_alive

    def kill_strays(self, data: Path) -> int:
        """Kill every process of a tree below data, whether a process file names it or not. Return how many."""
        return strays.kill_strays(data)


class ProcessGroup:
    """A running host: one process, and all processes that it starts.

    Args:
        plan: What to run.
        has_opt_ml: Whether the process sees its tree at /opt/ml.

    Raises:
        JobFailed: The command cannot be executed.
    """

    def __init__(self, plan: HostPlan, *, has_opt_ml: bool) -> None:
        if not plan.command:
            raise JobFailed("ClientError: what the image itself starts needs the container executor; name a script")
        self._process_file, self._root = plan.process_file, plan.root.resolve()
        self._popen, channel = start_paused(plan, has_opt_ml=has_opt_ml)
        with channel:
            try:
                self._process = psutil.Process(self.pid)
                # Written before the command runs: if the server is killed, the next one finds the process.
                self._write_process_file()
                problem = release(channel)
            except (OSError, psutil.Error) as error:
                problem = f"InternalServerError: cannot start a process: {error}"
        if problem:
            self.finish()
            raise JobFailed(problem)

    @property
    def pid(self) -> int:
        """Process id of the group's leader, which is the group's id too."""
        return self._popen.pid

    def has_exited(self) -> bool:
        """Return whether the leader has ended. It is not reaped yet, so its id cannot belong to another process."""
        try:
            return bool(self._process.status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True

    def terminate(self) -> None:
        """Send SIGTERM to every process of the group."""
        self._send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to every process of the group."""
        self._send_signal(signal.SIGKILL)

    def finish(self) -> int:
        """Kill every process of the host and delete the process file. Idempotent.

        Returns:
            The exit code of the command; 128 + N if signal N ended it.
        """
        if self._popen.returncode is None:  # after the process is reaped, its id may belong to another group
            self.kill()
            strays.kill_tree(self._root, group=self.pid)
            self._popen.wait()
            self._process_file.unlink(missing_ok=True)
        code = int(self._popen.returncode)
        return code if code >= 0 else 128 - code

    def _send_signal(self, number: signal.Signals) -> None:
        if self._popen.returncode is None:  # after the process is reaped, its id may belong to another group
            signal_group(self.pid, number)

    def _write_process_file(self) -> None:
        content = {"pid": self.pid, "create_time": self._process.create_time(), "tree": str(self._root)}
        self._process_file.write_text(json.dumps(content), encoding="utf-8")


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a process group, if it still exists."""
    # PermissionError: on macOS, a group of which only zombies are left.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _find_group(known: Mapping[str, Any]) -> int | None:
    """Return the process group that a process file names; None if its leader is gone, so that the id may be reused."""
    try:
        return int(known["pid"]) if psutil.Process(known["pid"]).create_time() == known["create_time"] else None
    except psutil.Error:
        return None
