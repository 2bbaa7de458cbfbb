"""The `container` executor: a host as a container of the job's image, its tree mounted at /opt/ml."""

import contextlib
import json
import logging
import os
import secrets
import subprocess
import tempfile
import time
from pathlib import Path

from drydock.errors import JobFailed
from drydock.execution import engine
from drydock.execution.engine import docker
from drydock.execution.image import Images
from drydock.host.executor import HostPlan
from drydock.host.tree import CONTAINER_BASE

log = logging.getLogger(__name__)

TREE_LABEL = "drydock.tree"
STARTED_WITHIN_S = 120.0
# How long the last of what a container said may take to the log.
ATTACHED_WITHIN_S = 30.0
# --env-file takes lines of less than 64 KiB.
ENV_FILE_VALUE_MAX_CHARS = 10_000


class ContainerExecutor:
    """Starts hosts as containers.

    Args:
        images: Where their images come from.
    """

    is_container = True
    opt_ml = True

    def __init__(self, images: Images) -> None:
        self._images = images

    def base(self, root: Path) -> str:
        """Return the path under which the job's environment names its tree: /opt/ml."""
        return str(CONTAINER_BASE)

    def interpreter(self) -> str:
        """Return the Python that runs a script-mode program: the image's."""
        return "python3"

    def start(self, plan: HostPlan) -> "Container":
        """The host runs.

        Raises:
            JobFailed: There is no image for it, it cannot be built, or the engine cannot start it.
        """
        return Container(plan, self._images.find(plan.image))

    def kill_left_over(self, note: Path) -> bool:
        """The container that note names is gone; returns whether it was running.

        Idempotent: the note is gone then.

        Raises:
            JobFailed: The engine does not answer. The note is kept.
        """
        try:
            container = str(json.loads(note.read_text(encoding="utf-8"))["container"])
        except (OSError, ValueError, TypeError, KeyError):
            container = ""
        alive = bool(container) and _removed(container)
        note.unlink(missing_ok=True)
        return alive

    def kill_strays(self, data: Path) -> int:
        """No container of a tree below data is there, whether a note names it or not. Returns how many were removed.

        Raises:
            JobFailed: The engine does not answer.
        """
        own = data.resolve()
        format_ = f'{{{{.ID}}}} {{{{.Label "{TREE_LABEL}"}}}}'
        listed = docker("ps", "--all", "--no-trunc", "--filter", f"label={TREE_LABEL}", "--format", format_)
        found = [line.partition(" ") for line in listed.splitlines()]
        strays = [container for container, _, tree in found if Path(tree).is_relative_to(own)]
        for container in strays:
            _removed(container)
        return len(strays)


class Container:
    """A running host: one container, and the `docker start --attach` that appends what it says to the log.

    Args:
        plan: What to run.
        image: An image that the engine has.

    Raises:
        JobFailed: The engine cannot start it.
    """

    def __init__(self, plan: HostPlan, image: str) -> None:
        self._plan, self._code = plan, -1
        self._id = _create(plan, image)
        try:
            plan.note.write_text(json.dumps({"container": self._id}), encoding="utf-8")
            self._attached = _attach(self._id, plan.log)
        except OSError as error:
            _removed(self._id)
            raise JobFailed(f"InternalServerError: cannot start a container: {error}") from error
        try:
            self._wait_started()
        except JobFailed:
            self._drop()
            raise

    @property
    def pid(self) -> int:
        """The process id of the attached docker command."""
        return self._attached.pid

    def exited(self) -> bool:
        """Return whether the container has ended."""
        return self._attached.poll() is not None

    def terminate(self) -> None:
        """The container's command has been sent SIGTERM."""
        self._signal("TERM")

    def kill(self) -> None:
        """Every process of the container has been sent SIGKILL."""
        self._signal("KILL")

    def finish(self) -> int:
        """The container and the note are gone. Returns the exit code, 128 + N after signal N.

        Raises:
            JobFailed: The engine does not answer. The note is kept, for the next server.
        """
        if self._code < 0:
            self.kill()
            docker("wait", self._id)
            self._read_out()
            ended = engine.state(self._id)
            if ended["OOMKilled"] and ended["ExitCode"] != 0:
                self._say(f"drydock: out of memory: the instance has {self._plan.memory_mb} MiB")
            self._drop()
            self._code = int(ended["ExitCode"])
        return self._code

    def _wait_started(self) -> None:
        # A SIGTERM to a container that has not started would be lost.
        deadline = time.monotonic() + STARTED_WITHIN_S
        while True:
            over = self.exited() or time.monotonic() > deadline  # asked first: it may start and end in between
            now = engine.state(self._id)
            if now["Status"] != "created":
                return
            if over or now["Error"]:
                raise JobFailed(
                    f"InternalServerError: the container did not start: {now['Error'] or 'why is in its log'}"
                )
            time.sleep(0.02)

    def _signal(self, name: str) -> None:
        try:
            docker("kill", "--signal", name, self._id)
        except JobFailed as error:
            if "is not running" not in error.reason:
                log.warning("%s: %s", self._plan.name, error.reason)

    def _say(self, line: str) -> None:
        with contextlib.suppress(OSError), self._plan.log.open("a", encoding="utf-8") as output:
            output.write(f"{line}\n")

    def _read_out(self) -> None:
        try:
            self._attached.wait(ATTACHED_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._attached.kill()
            self._attached.wait()

    def _drop(self) -> None:
        _removed(self._id)
        self._read_out()
        self._plan.note.unlink(missing_ok=True)


def _attach(container: str, log_file: Path) -> subprocess.Popen[bytes]:
    """The container was told to start; returns the command that is attached to it until it ends."""
    with log_file.open("ab") as output:
        return subprocess.Popen(
            ["docker", "start", "--attach", container],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _removed(container: str) -> bool:
    """The container is gone; returns whether it was running."""
    try:
        running = bool(engine.state(container)["Running"])
        engine.remove(container)
    except JobFailed as error:
        if "no such container" not in error.reason.lower():
            raise
        return False
    return running


def _create(plan: HostPlan, image: str) -> str:
    """Return the id of a container that is ready to be started.

    The job's environment is on no command line, where every user could read it: it goes through a file without a name,
    and what such a file cannot hold through the environment of the docker command.
    """
    lines = {name: value for name, value in plan.env.items() if _fits_a_line(value)}
    others = {name: value for name, value in plan.env.items() if name not in lines}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        file.writelines(f"{name}={value}\n" for name, value in lines.items())
        file.seek(0)
        options = [f"--env-file=/dev/fd/{file.fileno()}", *(f"--env={name}" for name in others)]
        command = [*options, *_options(plan), *_entrypoint(plan, image)]
        return docker("create", *command, env={**os.environ, **others}, pass_fds=[file.fileno()])


def _fits_a_line(value: str) -> bool:
    return len(value) <= ENV_FILE_VALUE_MAX_CHARS and len(value.splitlines()) <= 1


def _options(plan: HostPlan) -> list[str]:
    root = plan.root.resolve()
    return [
        f"--name=drydock-{plan.name}-{plan.host}-{secrets.token_hex(4)}",
        f"--label={TREE_LABEL}={root}",
        "--pull=never",
        "--init",  # so that SIGTERM ends a command that does not handle it, as it ends a process
        "--log-driver=none",  # the log file has it already
        f"--user={os.getuid()}:{os.getgid()}",
        "--network=host",  # the job's own AWS clients find this server at 127.0.0.1
        f"--hostname={plan.host}",
        *(f"--add-host={host}:{address}" for host, address in plan.addresses.items()),
        f"--mount={_mount(root)}",
        f"--workdir={CONTAINER_BASE / plan.cwd.resolve().relative_to(root)}",
        f"--cpus={plan.cores}",
        f"--memory={plan.memory_mb}m",
        f"--memory-swap={plan.memory_mb}m",
    ]


def _mount(root: Path) -> str:
    # A line of CSV: a comma in the path must not end the field.
    source = f"source={root}".replace('"', '""')
    return f'type=bind,"{source}",target={CONTAINER_BASE}'


def _entrypoint(plan: HostPlan, image: str) -> list[str]:
    if not plan.command:
        return [image, *plan.arguments]
    return [f"--entrypoint={plan.command[0]}", image, *plan.command[1:]]
