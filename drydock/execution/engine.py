"""Run containers with the `docker` command, which finds the container engine by DOCKER_HOST or its context."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from drydock.errors import RunFailed
from drydock.host.usage import Usage

# Seconds after which a docker command is killed.
TIMEOUT_S = 120.0


def find_engine_problem() -> str:
    """Return why no container can run here; "" if containers can run."""
    try:
        run_docker("version", "--format", "{{.Server.Version}}", timeout_s=10.0)
    except RunFailed as error:
        return error.reason.removeprefix("InternalServerError: ")
    return ""


def run_docker(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    timeout_s: float = TIMEOUT_S,
) -> str:
    """Run `docker` with arguments, and return its output without surrounding whitespace.

    Args:
        arguments: The command's arguments.
        env: All environment variables of the command; those of this process if None.
        pass_fds: File descriptors that the command may read.
        timeout_s: Maximum run time in seconds.

    Raises:
        RunFailed: The command failed (the reason has the last line of its stderr), did not end in time, or cannot be
            executed. A retry can help.
    """
    try:
        process = subprocess.run(
            ["docker", *arguments],
            capture_output=True,
            check=True,
            env=env,
            errors="replace",
            pass_fds=pass_fds,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=timeout_s,
        )
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or ["no error message"]
        # `from None`: the message of the original error contains all arguments of the command.
        raise RunFailed(f"InternalServerError: docker {arguments[0]}: {lines[-1]}") from None
    except subprocess.TimeoutExpired:
        raise RunFailed(f"InternalServerError: docker {arguments[0]}: no answer within {timeout_s:.0f} s") from None
    except OSError as error:
        raise RunFailed(f"InternalServerError: cannot execute docker: {error.strerror}") from None
    return process.stdout.strip()


def read_state(container: str) -> dict[str, Any]:
    """Return the engine's State of a container, such as Status, Running, ExitCode, FinishedAt, OOMKilled and Error.

    Raises:
        RunFailed: The container does not exist, or the engine does not answer (then a retry can help).
    """
    output = run_docker("container", "inspect", "--format", "{{json .State}}", container)
    state: dict[str, Any] = json.loads(output)
    return state


def find_published_port(container: str, port: int) -> int | None:
    """Return the port of this machine that leads to a port of a container; None if there is none.

    Raises:
        RunFailed: The container does not run, or the engine does not answer (then a retry can help).
    """
    lines = run_docker("port", container, f"{port}/tcp").splitlines()
    return int(lines[0].rpartition(":")[2]) if lines else None


def read_usage(container: str) -> Usage | None:
    """Return the CPU and memory utilization of a container; None if it does not run any more.

    The engine needs one or two seconds to measure both.

    Raises:
        RunFailed: The container does not exist, or the engine does not answer (then a retry can help).
    """
    output = run_docker("stats", "--no-stream", "--format", "{{.CPUPerc}} {{.MemPerc}}", container)
    try:
        cpu_percent, memory_percent = (float(word.removesuffix("%")) for word in output.split())
    except ValueError:  # the engine prints "-- --" for a container that has ended
        return None
    return Usage(cpu_percent, memory_percent)


def remove_container(container: str) -> None:
    """Kill and remove a container, with its anonymous volumes.

    Raises:
        RunFailed: The engine does not answer (then a retry can help). Some versions of docker also fail if the
            container does not exist.
    """
    run_docker("rm", "--force", "--volumes", container)
