"""The `docker` executor: each host is a container of the job's image.

The host's tree (`HostTree`), the folder with its files, is mounted at /opt/ml.
"""

import contextlib
import json
import logging
import subprocess
import time
from datetime import datetime
from pathlib import Path

from drydock.errors import RunFailed
from drydock.execution.container_creation import TREE_LABEL, create_container
from drydock.execution.engine import find_published_port, read_state, read_usage, remove_container, run_docker
from drydock.execution.image import Images
from drydock.host.executor import HostPlan
from drydock.host.tree import CONTAINER_BASE
from drydock.host.usage import Usage

log = logging.getLogger(__name__)

# Maximum seconds to wait until a container has started.
START_TIMEOUT_S = 120.0
# The exit code of a command that SIGKILL ended. Such a command has not ended by itself.
EXIT_CODE_SIGKILL = 137
# Maximum seconds to wait until the last output of a container is in the log.
OUTPUT_TIMEOUT_S = 30.0


class ContainerExecutor:
    """Starts hosts as containers.

    The process file of a host has the id of its container, and the path of the file for the command's exit code.

    Args:
        images: Finds or builds the image of each host.
    """

    is_container = True
    has_opt_ml = True

    def __init__(self, images: Images) -> None:
        self._images = images

    def get_path_in_job(self, root: Path) -> str:
        """Return the path at which a job sees its tree: /opt/ml."""
        return str(CONTAINER_BASE)

    def get_interpreter(self) -> str:
        """Return the Python interpreter for a script-mode program: the image's `python3`."""
        return "python3"

    def start(self, plan: HostPlan) -> "Container":
        """Start a host.

        Raises:
            RunFailed: The image does not exist, cannot be built, or is for another architecture; or the engine cannot
                start the container.
        """
        return Container(plan, self._images.find_image(plan.image))

    def kill_leftover_host(self, process_file: Path) -> bool:
        """Remove the container that a process file names, and delete the file. Idempotent.

        If the command had ended by itself, write its exit code to the host's exit file first.

        Returns:
            Whether the container was still running.

        Raises:
            RunFailed: The engine does not answer; the file is kept. A retry can help.
        """
        try:
            content = json.loads(process_file.read_text(encoding="utf-8"))
            container, exit_file = str(content["container"]), content.get("exit_file")
        except (OSError, ValueError, TypeError, KeyError):
            was_running = False
        else:
            if exit_file:
                _record_exit(container, Path(exit_file))
            was_running = _remove_if_present(container)
        process_file.unlink(missing_ok=True)
        return was_running

    def kill_all_hosts(self, data: Path) -> int:
        """Remove every container whose tree is in the folder `data`, even if no process file names it.

        Returns:
            The number of removed containers.

        Raises:
            RunFailed: The engine does not answer. A retry can help.
        """
        resolved_data = data.resolve()
        line_format = f'{{{{.ID}}}} {{{{.Label "{TREE_LABEL}"}}}}'
        output = run_docker("ps", "--all", "--no-trunc", "--filter", f"label={TREE_LABEL}", "--format", line_format)
        rows = [line.partition(" ") for line in output.splitlines()]
        containers = [container for container, _, tree in rows if Path(tree).is_relative_to(resolved_data)]
        for container in containers:
            _remove_if_present(container)
        return len(containers)


class Container:
    """A running host: one container, and a process `docker start --attach` that appends its output to the log.

    Args:
        plan: What to run.
        image: An image that the engine has.

    Raises:
        RunFailed: The engine cannot start the container.
    """

    def __init__(self, plan: HostPlan, image: str) -> None:
        self._plan = plan
        self._exit_code = -1  # negative until `finish` has read it
        try:
            self._id = create_container(plan, image)
        except OSError as error:
            raise RunFailed(f"InternalServerError: cannot create a container: {error}") from error
        try:
            content = {"container": self._id, "exit_file": str(plan.exit_file)}
            plan.process_file.write_text(json.dumps(content), encoding="utf-8")
            self._docker_process = _start_container(self._id, plan.log)
        except OSError as error:
            _remove_if_present(self._id)
            raise RunFailed(f"InternalServerError: cannot start a container: {error}") from error
        try:
            self._wait_until_started()
        except RunFailed:
            self._remove()
            raise

    @property
    def pid(self) -> int:
        """Process id of the attached docker command."""
        return self._docker_process.pid

    def has_exited(self) -> bool:
        """Return whether the container has ended."""
        return self._docker_process.poll() is not None

    def find_published_port(self) -> int | None:
        """Return the port of this machine that leads to the plan's port.

        None if the plan has no port, if the engine does not name the port (yet), or if the container has ended.
        """
        try:
            return find_published_port(self._id, self._plan.port) if self._plan.port else None
        except RunFailed:  # the container has just ended
            return None

    def measure_usage(self) -> Usage | None:
        """Return the usage, which the engine measures in one or two seconds.

        None if the container has ended, or if the engine does not answer.
        """
        try:
            return read_usage(self._id)
        except RunFailed:  # the container has just ended
            return None

    def list_process_ids(self) -> list[int]:
        """Return an empty list: drydock gives its containers no GPU."""
        return []

    def terminate(self) -> None:
        """Send SIGTERM to the container's command."""
        # The process file is written again without the path of the exit file: a command that this signal ends has not
        # ended by itself, so the next server must not record its exit code.
        with contextlib.suppress(OSError):
            self._plan.process_file.write_text(json.dumps({"container": self._id}), encoding="utf-8")
        self._send_signal("TERM")

    def kill(self) -> None:
        """Send SIGKILL to every process of the container."""
        self._send_signal("KILL")

    def finish(self) -> int:
        """Kill and remove the container, and delete the process file. Idempotent.

        Returns:
            The exit code of the command; 128 + N if signal N ended it.

        Raises:
            RunFailed: The engine does not answer (then a retry can help), or somebody has removed the container. The
                process file is kept for the next server.
        """
        if self._exit_code < 0:
            self.kill()
            run_docker("wait", self._id)
            self._wait_for_output()
            state = read_state(self._id)
            if state["OOMKilled"] and state["ExitCode"] != 0:
                self._append_to_log(f"drydock: out of memory: the instance has {self._plan.memory_mib} MiB")
            self._remove()
            self._exit_code = int(state["ExitCode"])
        return self._exit_code

    def _wait_until_started(self) -> None:
        # A SIGTERM to a container that has not started would be lost.
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            # Computed before the state is read, since the container may start and end between the two.
            is_wait_over = self.has_exited() or time.monotonic() > deadline
            state = read_state(self._id)
            if state["Status"] != "created":
                return
            if is_wait_over or state["Error"]:
                reason = state["Error"] or "the job's log may say why"
                raise RunFailed(f"InternalServerError: the container did not start: {reason}")
            time.sleep(0.02)

    def _send_signal(self, name: str) -> None:
        try:
            run_docker("kill", "--signal", name, self._id)
        except RunFailed as error:
            if "is not running" not in error.reason:
                log.warning("job %s: cannot send SIG%s: %s", self._plan.name, name, error.reason)

    def _append_to_log(self, line: str) -> None:
        with contextlib.suppress(OSError), self._plan.log.open("a", encoding="utf-8") as output:
            output.write(f"{line}\n")

    def _wait_for_output(self) -> None:
        try:
            self._docker_process.wait(OUTPUT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._docker_process.kill()
            self._docker_process.wait()

    def _remove(self) -> None:
        _remove_if_present(self._id)
        self._wait_for_output()
        self._plan.process_file.unlink(missing_ok=True)


def _start_container(container: str, log_file: Path) -> subprocess.Popen[bytes]:
    """Start a container, and return the docker process that writes its output to the log file until it ends."""
    with log_file.open("ab") as output:
        return subprocess.Popen(
            ["docker", "start", "--attach", container],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _record_exit(container: str, exit_file: Path) -> None:
    """Write the exit code of a container to a file, if the container exists and has ended by itself.

    Raises:
        RunFailed: The engine does not answer. A retry can help.
    """
    try:
        state = read_state(container)
    except RunFailed as error:
        if "no such container" not in error.reason.lower():
            raise
        return
    if state["Status"] == "exited" and state["ExitCode"] != EXIT_CODE_SIGKILL:
        ended_at = datetime.fromisoformat(state["FinishedAt"]).timestamp()
        content = {"exit_code": int(state["ExitCode"]), "ended_at": ended_at}
        exit_file.write_text(json.dumps(content), encoding="utf-8")


def _remove_if_present(container: str) -> bool:
    """Remove a container if it exists. Return whether it was running."""
    try:
        was_running = bool(read_state(container)["Running"])
        remove_container(container)
    except RunFailed as error:
        if "no such container" not in error.reason.lower():
            raise
        return False
    return was_running
