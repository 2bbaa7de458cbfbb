"""The interface of an executor, which runs hosts: each stands for one instance of a job or of an endpoint.

The two executors are `process`, in which a host is a process group of this machine, and `docker`, in which it is a
container.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from drydock.host.tree import HostTree
from drydock.host.usage import Usage


@dataclass(frozen=True)
class HostPlan:
    """All that an executor needs to start one host.

    Attributes:
        name: Name of the job, or of the folder of an endpoint's instance; for the names of containers, and for logs.
        host: Name of this host: algo-1, algo-2, ...
        addresses: The loopback address of every host of the job, by host name.
        root: The folder on this machine that has the host's files. The job sees it at /opt/ml if `has_opt_ml`.
        command: The command to execute; empty to run the image's own entrypoint.
        env: All environment variables.
        cwd: The working directory: root, or a folder below it.
        log: The file that stdout and stderr are appended to. Not a pipe, since a job must not wait for a reader.
        process_file: The file that identifies the process or container, so that a later server can kill it. `finish`
            or `kill_leftover_host` deletes it.
        image: The image that the request or the model names; "" if a training request names an algorithm instead.
        cores: vCPUs of the instance, at most those of this machine.
        memory_mib: Memory of the instance in MiB, at most that of this machine.
        arguments: The arguments of the image's own entrypoint, used if command is empty (SageMaker's default: train).
        port: The port at which the host answers requests; 0 if it answers none. A container with a port has a network
            of its own, and the port is published on this machine's loopback address only.
        niceness: Scheduling priority of the process while it starts, from -20 (highest) to 19; 0 is the usual one. On
            Linux, the process executor sets it for the process's session before the command starts. The command has
            to restore the usual priority itself, as the model server does when the model is loaded. Otherwise it has
            no effect.
    """

    name: str
    host: str
    addresses: Mapping[str, str]
    root: Path
    command: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    log: Path
    process_file: Path
    image: str
    cores: int
    memory_mib: int
    arguments: Sequence[str] = ()
    port: int = 0
    niceness: int = 0

    @property
    def exit_file(self) -> Path:
        """The file for the command's exit code, beside `root`."""
        return HostTree(self.root).exit_file


class RunningHost(Protocol):
    """A host that an executor has started."""

    @property
    def pid(self) -> int:
        """A process id, for the log."""

    def has_exited(self) -> bool:
        """Return whether the host's command has ended. Cheap: it is called ten times a second."""

    def find_published_port(self) -> int | None:
        """Return the port of this machine that leads to the plan's port.

        None if the host has no network of its own, or if the container engine does not name the port (yet).
        """

    def measure_usage(self) -> Usage | None:
        """Return the CPU and memory that the host uses; None if they are not known yet, or if the host has ended."""

    def list_process_ids(self) -> Sequence[int]:
        """Return the ids of the host's processes on this machine, by which the host's use of GPUs is measured.

        The sequence is empty for a container, because drydock gives containers no GPU.
        """

    def terminate(self) -> None:
        """Send SIGTERM to the host: to its process group, or to the container's command."""

    def kill(self) -> None:
        """Send SIGKILL to every process of the host."""

    def finish(self) -> int:
        """Kill the processes of the host that still run, and delete its process file. Idempotent.

        Returns:
            The exit code of the command; 128 + N if signal N ended it.

        Raises:
            RunFailed: The container engine does not answer; the process file is kept. A retry can help.
        """


class Executor(Protocol):
    """Starts hosts. Safe for several threads."""

    @property
    def is_container(self) -> bool:
        """Whether a job runs in a container, with its image's Python and files instead of this machine's."""

    @property
    def has_opt_ml(self) -> bool:
        """Whether a job sees the folder with its files at /opt/ml."""

    def get_path_in_job(self, root: Path) -> str:
        """Return the path at which a job sees the folder `root` of this machine."""

    def get_interpreter(self) -> str:
        """Return the path of the Python interpreter that runs a script-mode program."""

    def start(self, plan: HostPlan) -> RunningHost:
        """Start a host.

        Raises:
            RunFailed: The host cannot be started; the reason becomes the job's FailureReason.
        """

    def kill_leftover_host(self, process_file: Path) -> bool:
        """Kill the processes of one host that an earlier server left running, and delete the process file. Idempotent.

        If the command had ended by itself, its exit code is in the host's exit file afterwards.

        Args:
            process_file: The host's process file. It need not exist.

        Returns:
            Whether the host was still running.

        Raises:
            RunFailed: The container engine does not answer; the file is kept. A retry can help.
        """

    def kill_all_hosts(self, data: Path) -> int:
        """Kill every process or container of the hosts whose trees are below data. Idempotent.

        Hosts that no process file names are killed, too. Called when a server starts, and when it ends.

        Args:
            data: The server's data folder.

        Returns:
            The number of killed processes or containers.

        Raises:
            RunFailed: The container engine does not answer. A retry can help.
        """
