"""The `process` executor: each host is a process group on this machine.

If the kernel permits it, each host has its own view of the machine: its tree at /opt/ml, the names of the job's hosts
in /etc/hosts, and its own host name. It shares everything else with the machine. If the kernel does not permit it,
the job finds its tree by the variables SM_* and SAGEMAKER_BASE_DIR, and the hosts have addresses but no names. Cores
and memory are not limited.
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

from drydock.errors import RunFailed
from drydock.execution import host_processes
from drydock.execution.spawn import find_opt_ml_problem, release_process, start_paused_process
from drydock.host.executor import HostPlan
from drydock.host.tree import CONTAINER_BASE
from drydock.host.usage import Usage, UsageMeter, list_processes


class ProcessExecutor:
    """Starts hosts as process groups. The process file of a host has its process id.

    Args:
        opt_ml: Whether to put the tree at /opt/ml, if the kernel permits it. The constructor tests whether it does.

    Attributes:
        has_opt_ml: Whether the tree is at /opt/ml.
        opt_ml_problem: Why the tree is not at /opt/ml; "" if it is there.
    """

    is_container = False

    def __init__(self, *, opt_ml: bool = True) -> None:
        self.opt_ml_problem = find_opt_ml_problem() if opt_ml else "switched off"
        self.has_opt_ml = not self.opt_ml_problem

    def get_path_in_job(self, root: Path) -> str:
        """Return the path at which a job sees the tree at root."""
        return str(CONTAINER_BASE) if self.has_opt_ml else str(root)

    def get_interpreter(self) -> str:
        """Return the Python interpreter for a script-mode program: the server's own."""
        return sys.executable

    def start(self, plan: HostPlan) -> "ProcessGroup":
        """Start a host.

        Raises:
            RunFailed: The plan has no command, or the command cannot be executed.
        """
        return ProcessGroup(plan, has_opt_ml=self.has_opt_ml)

    def kill_leftover_host(self, process_file: Path) -> bool:
        """Kill the processes of one host that an earlier server left running, and delete the process file. Idempotent.

        If the process has ended and its id belongs to another process now, that process is not killed.

        Returns:
            Whether anything was still running.
        """
        try:
            content = json.loads(process_file.read_text(encoding="utf-8"))
            tree, group = Path(content["tree"]), _find_group(content)
        except (OSError, ValueError, TypeError, KeyError):
            was_running = False  # no complete file: the command had not started, or the host has finished
        else:
            was_running = host_processes.kill_host_processes(tree, group=group) > 0
        process_file.unlink(missing_ok=True)
        return was_running

    def kill_all_hosts(self, data: Path) -> int:
        """Kill every process of the hosts below data, even if no process file names it. Return how many were killed."""
        return host_processes.kill_processes_of_all_hosts(data)


class ProcessGroup:
    """A running host: one process, and all processes that it starts.

    Args:
        plan: What to run.
        has_opt_ml: Whether the process sees its tree at /opt/ml.

    Raises:
        RunFailed: The plan has no command, or the command cannot be executed.
    """

    def __init__(self, plan: HostPlan, *, has_opt_ml: bool) -> None:
        if not plan.command:
            raise RunFailed(
                "ClientError: the request has no script, and running an image's entrypoint needs --executor docker"
            )
        self._process_file, self._root = plan.process_file, plan.root.resolve()
        self._meter = UsageMeter(plan.memory_mib)
        self._popen, release_socket = start_paused_process(plan, has_opt_ml=has_opt_ml)
        with release_socket:
            try:
                self._process = psutil.Process(self.pid)
                # Written before the command runs: if the server is killed, the next one finds the process.
                self._write_process_file()
                problem = release_process(release_socket)
            except (OSError, psutil.Error) as error:
                problem = f"InternalServerError: cannot start a process: {error}"
        if problem:
            self.finish()
            raise RunFailed(problem)

    @property
    def pid(self) -> int:
        """Process id of the group's leader, which is the group's id too."""
        return self._popen.pid

    def has_exited(self) -> bool:
        """Return whether the leader has ended. Until `finish` reaps it, its id cannot belong to another process."""
        try:
            return bool(self._process.status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True

    def find_published_port(self) -> None:
        """Return None: the processes use the machine's network."""

    def measure_usage(self) -> Usage | None:
        """Return the usage since the last call; None at the first call, or if the process has ended."""
        return self._meter.measure(self.pid)

    def list_process_ids(self) -> list[int]:
        """Return the ids of the host's processes; [] after `finish`."""
        try:
            return [process.pid for process in list_processes(self._process)]
        except psutil.Error:  # it has just ended
            return []

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
            host_processes.kill_host_processes(self._root, group=self.pid)
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


def _find_group(content: Mapping[str, Any]) -> int | None:
    """Return the process group that a process file names.

    None if its leader has ended: another process may have the leader's id now.
    """
    try:
        is_same_process = psutil.Process(content["pid"]).create_time() == content["create_time"]
        return int(content["pid"]) if is_same_process else None
    except psutil.Error:
        return None
