"""Create the container of a host from its plan."""

import os
import secrets
import tempfile
from pathlib import Path

from drydock.execution.engine import run_docker
from drydock.host.executor import HostPlan
from drydock.host.tree import CONTAINER_BASE

TREE_LABEL = "drydock.tree"
"""Label of each container: the resolved path of its tree."""
# --env-file cannot read lines of 64 KiB or more. A character has at most 4 bytes.
ENV_FILE_VALUE_MAX_CHARS = 10_000


def create_container(plan: HostPlan, image: str) -> str:
    """Create a container without starting it, and return its id.

    The job's environment must not be on a command line, where every user of the machine could read it. It is passed in
    a temporary file without a name. Values that --env-file cannot read are passed in the environment of the docker
    command.

    Raises:
        RunFailed: The engine refuses the plan, or does not answer (then a retry can help).
    """
    file_variables = {name: value for name, value in plan.env.items() if _fits_in_env_file(value)}
    environment_variables = {name: value for name, value in plan.env.items() if name not in file_variables}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        file.writelines(f"{name}={value}\n" for name, value in file_variables.items())
        file.seek(0)
        variables = [f"--env-file=/dev/fd/{file.fileno()}", *(f"--env={name}" for name in environment_variables)]
        arguments = [*variables, *_build_options(plan), *_build_entrypoint(plan, image)]
        return run_docker("create", *arguments, env={**os.environ, **environment_variables}, pass_fds=[file.fileno()])


def _fits_in_env_file(value: str) -> bool:
    return len(value) <= ENV_FILE_VALUE_MAX_CHARS and len(value.splitlines()) <= 1


def _build_options(plan: HostPlan) -> list[str]:
    root = plan.root.resolve()
    return [
        f"--name=drydock-{plan.name}-{plan.host}-{secrets.token_hex(4)}",
        f"--label={TREE_LABEL}={root}",
        "--pull=never",
        "--init",  # without it, SIGTERM would not end a command that has no handler for it
        "--log-driver=none",  # the command `docker start --attach` writes the log file
        f"--user={os.getuid()}:{os.getgid()}",
        *_build_network(plan),
        f"--hostname={plan.host}",
        *(f"--add-host={host}:{address}" for host, address in plan.addresses.items()),
        f"--mount={_build_mount(root)}",
        *([f"--workdir={CONTAINER_BASE / plan.cwd.resolve().relative_to(root)}"] if plan.command else []),
        f"--cpus={plan.cores}",
        f"--memory={plan.memory_mib}m",
        f"--memory-swap={plan.memory_mib}m",
    ]


def _build_network(plan: HostPlan) -> list[str]:
    if plan.port:  # several hosts with the same port can run at the same time
        return [f"--publish=127.0.0.1::{plan.port}"]
    return ["--network=host"]  # the job's AWS clients reach this server at 127.0.0.1


def _build_mount(root: Path) -> str:
    # docker reads the option as a line of CSV. With the quotes, a comma in the path does not end the field.
    source = f"source={root}".replace('"', '""')
    return f'type=bind,"{source}",target={CONTAINER_BASE}'


def _build_entrypoint(plan: HostPlan, image: str) -> list[str]:
    if not plan.command:
        return [image, *plan.arguments]
    return [f"--entrypoint={plan.command[0]}", image, *plan.command[1:]]
