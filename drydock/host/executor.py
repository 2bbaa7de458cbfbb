"""What an executor is: it runs the hosts of a job. `process` and `container` are the two there are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class HostPlan:
    """One host of a job, ready to be started.

    Attributes:
        name: The job's name, for labels and logs.
        host: This host: algo-1, algo-2, ...
        addresses: The loopback address of every host of the job, by host name.
        root: The host's tree on this machine; the job sees it at /opt/ml where the executor can do that.
        command: What to execute; empty for what the image itself starts.
        env: The whole environment.
        cwd: The working directory, below root.
        log: The file that stdout and stderr are appended to, merged. No pipe: a job must not block on a reader.
        note: The file that names what runs, for as long as it runs.
        image: The TrainingImage or ImageUri that was asked for; "" where an algorithm was named.
        cores: vCPUs of the instance, at most the machine's.
        memory_mb: Memory of the instance in MiB, at most the machine's.
        arguments: What the image's own entrypoint gets, where command is empty (SageMaker: train).
    """

    name: str
    host: str
    addresses: Mapping[str, str]
    root: Path
    command: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    log: Path
    note: Path
    image: str
    cores: int
    memory_mb: int
    arguments: Sequence[str] = ()


class Running(Protocol):
    """A host that was started."""

    @property
    def pid(self) -> int:
        """A process id for the log."""

    def exited(self) -> bool:
        """Return whether the host's command has ended. Cheap: asked ten times a second."""

    def terminate(self) -> None:
        """The host has been sent SIGTERM: its process group, or the container's command."""

    def kill(self) -> None:
        """Every process of the host has been sent SIGKILL."""

    def finish(self) -> int:
        """No process of the host is alive, and note is gone. Returns the exit code, 128 + N after signal N."""


class Executor(Protocol):
    """Starts hosts. Called from any thread."""

    @property
    def is_container(self) -> bool:
        """Whether a job runs in a container, with its image's Python and files instead of this machine's."""

    @property
    def opt_ml(self) -> bool:
        """Whether a job sees its tree at /opt/ml."""

    def base(self, root: Path) -> str:
        """Return the path under which the job's environment names its tree."""

    def interpreter(self) -> str:
        """Return the Python that runs a script-mode program."""

    def start(self, plan: HostPlan) -> Running:
        """The host runs.

        Raises:
            JobFailed: It cannot be started; the reason is the job's FailureReason.
        """

    def kill_left_over(self, note: Path) -> bool:
        """What a killed server left running of the host that note belongs to is dead; returns whether there was any."""

    def kill_strays(self, data: Path) -> int:
        """What runs of a tree below data, noted or not, is dead; returns how many. For a server's start and end."""
