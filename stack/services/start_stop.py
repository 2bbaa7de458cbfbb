"""Start and stop the stack of one home."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.util import find_spec

import psutil

from stack.errors import RequestError, UnavailableError
from stack.layout import CODE_FOLDER, IS_CHECKOUT, PROGRAM, Layout
from stack.services.commands import list_services, write_secrets
from stack.services.environment import build_environment
from stack.services.locks import Holder, LockedError, hold_lock, read_holder
from stack.services.ports import are_free, choose_ports
from stack.services.processes import DRYDOCK_GRACE_S, KILL_TIMEOUT_S
from stack.services.readiness import (
    Progress,
    StackStoppedError,
    raise_if_port_is_taken,
    read_log_end,
    wait_until_ready,
)
from stack.services.record import Ports, Stack
from stack.services.shutdown import stop_services
from stack.services.supervisor import Plan

LOCK = "stack"
"""The name of the lock that commands hold while they start or stop the stack."""
INTERRUPT_TIMEOUT_S = 60.0
"""Longest time that `stop_stack` waits for a command that is changing the stack, seconds."""
MAX_PORT_CHOICES = 3
"""How often a start chooses ports. Another program can take a port before the service takes it; then the start chooses
again."""

SERVICE_PACKAGES = ("airflow", "mlflow", "moto")
"""Packages that the services need. Without the extra `local`, an environment lacks some of them."""

_POLL_S = 0.1
# The supervisors that this process has started. They outlive it; Python warns of a Popen object that is deleted while
# its process runs.
_supervisors: list[subprocess.Popen[bytes]] = []


def start_stack(layout: Layout, preferred_ports: Ports, report_progress: Progress) -> tuple[Stack, bool]:
    """Start the stack of a home, and wait until all services answer. A running stack is not changed. Idempotent.

    Args:
        layout: the folders of the stack.
        preferred_ports: ports to take if they are free; 0 means any port.
        report_progress: called for each service that becomes ready.

    Returns:
        the stack, and whether this call started it.

    Raises:
        RequestError: a package is missing, the project has no dags folder, Airflow's keys are damaged, or the running
            stack belongs to another project. A retry cannot help.
        UnavailableError: a service ended too often or did not answer, another command is changing the stack, or the
            disk is full. Services that this call started are stopped. A retry can help.
    """
    _check_packages()
    layout.create_folders()
    with hold_lock(layout.lock_file(LOCK), "stack up"):
        stack = join_running_stack(layout, report_progress)
        if stack is not None:
            return stack, False
        for _ in range(MAX_PORT_CHOICES - 1):
            ports = choose_ports(preferred_ports)
            try:
                return _start_new_stack(layout, ports, report_progress), True
            except UnavailableError:
                if are_free(ports):
                    raise
        return _start_new_stack(layout, choose_ports(preferred_ports), report_progress), True


def _check_packages() -> None:
    missing_packages = [name for name in SERVICE_PACKAGES if find_spec(name) is None]
    if missing_packages:
        command = 'run `pip install "leeway[local]"`, in a checkout `make setup`'
        raise RequestError(f"The services need {', '.join(missing_packages)}, which {sys.executable} lacks: {command}.")


def stop_stack(layout: Layout) -> int:
    """Stop all processes of a home's stack, even after a crash. Idempotent.

    A command that is starting the stack is interrupted first. A backup or a restore is not: this function waits for it.

    Returns:
        the number of processes that were stopped; 0 if none ran.

    Raises:
        UnavailableError: a process did not end after SIGKILL; or a command that is starting the stack, a backup or a
            restore did not end in time. A retry can help.
    """
    if not layout.home.is_dir():
        return 0
    deadline = time.monotonic() + INTERRUPT_TIMEOUT_S
    while True:
        try:
            with hold_lock(layout.lock_file(LOCK), "stack down"):
                return _stop(layout)
        except LockedError:
            if time.monotonic() > deadline:
                raise
        # On SIGTERM, the command `up` stops what it has started, and releases the lock.
        _interrupt_up(read_holder(layout.lock_file(LOCK)))
        time.sleep(0.2)


def find_running_stack(layout: Layout) -> Stack | None:
    """Return the stack of this home, or None if its supervisor does not run."""
    stack = Stack.load(layout)
    return stack if stack is not None and stack.is_alive() else None


def join_running_stack(layout: Layout, report_progress: Progress) -> Stack | None:
    """Wait until the running stack answers, and return it. Return None if no stack runs, or if it stops meanwhile.

    Raises:
        RequestError: the running stack belongs to another project. A retry cannot help.
        UnavailableError: a service does not answer. A retry can help.
    """
    stack = find_running_stack(layout)
    if stack is None:
        return None
    _check_project(layout, stack)
    try:
        wait_until_ready(layout, stack, report_progress)
    except StackStoppedError:
        deadline = time.monotonic() + DRYDOCK_GRACE_S + KILL_TIMEOUT_S
        while stack.is_alive() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return None
    return stack


def _start_new_stack(layout: Layout, ports: Ports, report_progress: Progress) -> Stack:
    """Start a stack on these ports, and wait until all services answer. On an error, stop what was started."""
    stop_services(layout.home, Stack.load(layout))  # services of an earlier stack can outlive their supervisor
    stack = Stack(id=uuid.uuid4().hex, project=layout.project, started_at=datetime.now(UTC), ports=ports)
    try:
        _start_supervisor(layout, stack)
        wait_until_ready(layout, stack, report_progress)
        raise_if_port_is_taken(layout, stack)
    except BaseException:
        with ignore_interrupts():
            _stop(layout)
        raise
    return stack


def _check_project(layout: Layout, stack: Stack) -> None:
    if stack.project != layout.project:
        raise RequestError(
            f"The stack in {layout.home} runs the project {stack.project}. Run `{PROGRAM} down` there first."
        )


def _start_supervisor(layout: Layout, stack: Stack) -> None:
    write_secrets(layout)
    stack.save(layout)
    plan = Plan(
        home=layout.home,
        project=layout.project,
        stack=stack,
        services=list_services(layout, stack),
        environment=build_environment(layout, stack, os.environ),
    )
    log = layout.log_file("supervisor")
    with log.open("wb") as output:
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "stack.services.supervisor"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=CODE_FOLDER if IS_CHECKOUT else layout.home,
            env={**plan.environment, "PYTHONPATH": str(CODE_FOLDER) if IS_CHECKOUT else ""},
            start_new_session=True,
        )
    _supervisors.append(supervisor)
    assert supervisor.stdin is not None
    with suppress(BrokenPipeError), supervisor.stdin as pipe:
        pipe.write(plan.model_dump_json().encode())
    while (Stack.load(layout) or stack).supervisor is None:
        if supervisor.poll() is not None:
            raise UnavailableError(f"The stack's supervisor ended; see {log}.", read_log_end(log))
        time.sleep(0.05)


def _stop(layout: Layout) -> int:
    stack = Stack.load(layout)
    if stack is not None and stack.supervisor is not None and stack.supervisor.is_alive():
        # The supervisor gets its signal first. Otherwise it would record the end of its services as a crash.
        os.kill(stack.supervisor.pid, signal.SIGTERM)
    count = stop_services(layout.home, stack)
    layout.record_file.unlink(missing_ok=True)
    layout.keep_running_file.unlink(missing_ok=True)
    return count


def _interrupt_up(holder: Holder | None) -> None:
    if holder is not None and holder.command == "stack up":
        with suppress(psutil.Error):
            psutil.Process(holder.process.pid).terminate()


@contextmanager
def ignore_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C and SIGTERM inside the `with` block, so that a clean-up is completed."""
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
