"""Up and down: the life of one stack."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TypeAlias

import psutil

from stack.errors import RequestError, UnavailableError
from stack.layout import CODE, Layout
from stack.services import environment, locks, processes
from stack.services.commands import services, write_secrets
from stack.services.health import tail, wait_until_ready
from stack.services.ports import choose
from stack.services.record import Ports, Stack
from stack.services.supervisor import Plan

LOCK = "stack"
HANDOVER_S = 60.0
"""Longest wait of `down` for a starting `up` to give way."""

_keepers: list[subprocess.Popen[bytes]] = []
# Keepers outlive us on purpose; a handle that is dropped while its process runs warns of it.

Watcher: TypeAlias = Callable[[str, int, int], None]
"""Told, while services start: which one became ready, how many are, how many there are."""


def up(layout: Layout, wanted: Ports, watch: Watcher) -> tuple[Stack, bool]:
    """Leaves a stack that answers. Idempotent: one that runs already is taken as it is.

    Args:
        layout: where its state goes, and which project it runs.
        wanted: ports to take where they are free.
        watch: told of the progress.

    Returns:
        the stack, and whether this call started it.

    Raises:
        RequestError: the project is not one, or the running stack is of another project.
        UnavailableError: a service ended or did not answer (everything is stopped again), another command is
            changing the stack, or the disk is full.
    """
    layout.prepare()
    with locks.exclusive(layout.lock(LOCK), "stack up"):
        stack = running(layout)
        if stack is not None:
            _refuse_other_project(layout, stack)
            wait_until_ready(layout, stack, watch)
            return stack, False
        processes.stop(layout.home)
        stack = Stack(id=uuid.uuid4().hex, project=layout.project, started_at=datetime.now(UTC), ports=choose(wanted))
        try:
            _launch(layout, stack)
            wait_until_ready(layout, stack, watch)
            _refuse_others_ports(layout, stack)
        except BaseException:
            with uninterrupted():
                _stop(layout)
            raise
        return stack, True


def down(layout: Layout) -> int:
    """Ends what this home's stack started, after a crash too. Idempotent.

    Returns:
        how many processes there were; 0 where nothing ran.

    Raises:
        UnavailableError: a process does not end though killed, or a starting `up` does not give way.
    """
    if not layout.home.is_dir():
        return 0
    ends = time.monotonic() + HANDOVER_S
    while True:
        try:
            with locks.exclusive(layout.lock(LOCK), "stack down"):
                return _stop(layout)
        except locks.BusyError:
            if time.monotonic() > ends:
                raise
        # An `up` that gets SIGTERM stops what it has started, and lets go of the lock.
        _interrupt(locks.holder(layout.lock(LOCK)))
        time.sleep(0.2)


def running(layout: Layout) -> Stack | None:
    """The stack of this home, if its keeper lives."""
    stack = Stack.load(layout)
    return stack if stack is not None and stack.alive() else None


def _refuse_other_project(layout: Layout, stack: Stack) -> None:
    if stack.project != layout.project:
        raise RequestError(f"The stack in {layout.home} runs {stack.project}; `make down` there stops it.")


def _refuse_others_ports(layout: Layout, stack: Stack) -> None:
    """What answered is ours: between choice and start another may have taken the port, and answers as ours would."""
    taken = processes.unserved(layout.home, stack.ports.model_dump().values())
    if taken:
        raise UnavailableError(f"Another program took port {', '.join(map(str, taken))} meanwhile; start again.")


def _launch(layout: Layout, stack: Stack) -> None:
    write_secrets(layout)
    stack.save(layout)
    plan = Plan(
        home=layout.home,
        project=layout.project,
        stack=stack,
        services=services(layout, stack),
        environment=environment.build(layout, stack, os.environ),
    )
    with layout.log("keeper").open("wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "stack.services.supervisor"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=CODE,
            env={**plan.environment, "PYTHONPATH": str(CODE)},
            start_new_session=True,
        )
    _keepers.append(keeper)
    assert keeper.stdin is not None
    with suppress(BrokenPipeError), keeper.stdin as pipe:
        pipe.write(plan.model_dump_json().encode())
    while (Stack.load(layout) or stack).keeper is None:
        if keeper.poll() is not None:
            raise UnavailableError(f"The stack's keeper ended; see {layout.log('keeper')}.", tail(layout.log("keeper")))
        time.sleep(0.05)


def _stop(layout: Layout) -> int:
    stack = Stack.load(layout)
    if stack is not None and stack.keeper is not None and stack.keeper.alive():
        # First, so that it does not take the end of its services for a crash.
        os.kill(stack.keeper.pid, signal.SIGTERM)
    count = processes.stop(layout.home)
    layout.state.unlink(missing_ok=True)
    layout.keep.unlink(missing_ok=True)
    return count


def _interrupt(holder: locks.Holder | None) -> None:
    if holder is not None and holder.command == "stack up":
        with suppress(psutil.Error):
            psutil.Process(holder.process.pid).terminate()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Lets the clean-up end, however often a person presses Ctrl-C."""
    before = {one: signal.signal(one, signal.SIG_IGN) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
