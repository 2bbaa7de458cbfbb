"""The container engine, spoken to by the `docker` command, which finds it as it always does (DOCKER_HOST, contexts)."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from drydock.errors import JobFailed

ANSWERED_WITHIN_S = 120.0


def engine_available() -> str:
    """Return why no container can be run here; "" where one can."""
    try:
        docker("version", "--format", "{{.Server.Version}}", within_s=10.0)
    except JobFailed as error:
        return error.reason.removeprefix("InternalServerError: ")
    return ""


def docker(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    within_s: float = ANSWERED_WITHIN_S,
) -> str:
    """Return what `docker arguments` printed, stripped.

    Args:
        arguments: The command's arguments.
        env: The command's whole environment; this process's where it is None.
        pass_fds: File descriptors that the command may read.
        within_s: Seconds after which it is given up.

    Raises:
        JobFailed: It failed; the reason has the last line that it said. A retry can help.
    """
    try:
        done = subprocess.run(
            ["docker", *arguments],
            capture_output=True,
            check=True,
            env=env,
            errors="replace",
            pass_fds=pass_fds,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=within_s,
        )
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines() or ["it said nothing"]
        raise JobFailed(f"InternalServerError: docker {arguments[0]}: {said[-1]}") from None  # its arguments stay here
    except subprocess.TimeoutExpired:
        raise JobFailed(f"InternalServerError: docker {arguments[0]}: no answer within {within_s:.0f} s") from None
    except OSError as error:
        raise JobFailed(f"InternalServerError: cannot execute docker: {error.strerror}") from None
    return done.stdout.strip()


def state(container: str) -> dict[str, Any]:
    """Return the engine's State of a container: Status, Running, ExitCode, OOMKilled, Error.

    Raises:
        JobFailed: There is no such container, or no engine.
    """
    found: dict[str, Any] = json.loads(docker("container", "inspect", "--format", "{{json .State}}", container))
    return found


def remove(container: str) -> None:
    """The container is gone, with the processes and the anonymous volumes that it had.

    Raises:
        JobFailed: There is no such container, or no engine.
    """
    docker("rm", "--force", "--volumes", container)
