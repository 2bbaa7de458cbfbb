"""Wait until every service of the stack is ready, and raise an error if one ends and is not restarted."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import requests

from stack.errors import UnavailableError
from stack.layout import Layout
from stack.services.environment import ACCESS_KEY_ID, BUCKET, REGION
from stack.services.health import build_health_checks
from stack.services.ports import is_listening
from stack.services.processes import find_unserved_ports
from stack.services.record import Stack, describe_exit_code

START_TIMEOUT_S = 600.0
"""Longest wait for a start. On two idle cores, a start takes 20 s; at a load average of 28, it took 4 minutes."""
LOG_LINES = 15
"""Number of last lines of a service's log that an error shows."""
_POLL_S = 0.2

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called when a service becomes ready, with its name, the number of ready services, and the number of all services."""


class StackStoppedError(UnavailableError):
    """The stack has stopped or is stopping. A new start can help."""


def wait_until_ready(layout: Layout, stack: Stack, report_progress: Progress) -> None:
    """Wait until every service of the stack answers, then create the bucket. Idempotent.

    Args:
        layout: the folders of the stack.
        stack: the stack that was started.
        report_progress: called for each service that becomes ready.

    Raises:
        StackStoppedError: a service ended and is not restarted, the supervisor was killed, or another command stopped
            the stack. A retry can help.
        UnavailableError: another program has a port of the stack, or a service did not answer in time. A retry can
            help.
    """
    unready_names = list(build_health_checks(layout, stack))
    total, deadline = len(unready_names), time.monotonic() + START_TIMEOUT_S
    while unready_names:
        current_stack = load_live_stack(layout, stack)
        if current_stack.restarts:  # a service may have ended because its port was taken
            raise_if_port_is_taken(layout, current_stack)
        if time.monotonic() > deadline:
            log = layout.log_file(unready_names[0])
            raise UnavailableError(
                f"{', '.join(unready_names)} did not answer in {START_TIMEOUT_S:.0f} s; see {log}.", read_log_end(log)
            )
        checks = build_health_checks(layout, current_stack)
        for name in [name for name in unready_names if checks[name]()]:
            unready_names.remove(name)
            report_progress(name, total - len(unready_names), total)
        time.sleep(_POLL_S if unready_names else 0)
    create_bucket(stack)


def load_live_stack(layout: Layout, stack: Stack) -> Stack:
    """Return the present record of the stack, if the stack is live. It is live also while services start or restart.

    Raises:
        StackStoppedError: a service ended and is not restarted, the supervisor was killed, or another command stopped
            the stack. A retry can help.
    """
    current_stack = Stack.load(layout)
    if current_stack is None or current_stack.id != stack.id:
        raise StackStoppedError("The stack was stopped by another command; start it again.")
    if current_stack.failed_service is not None:
        log, name = layout.log_file(current_stack.failed_service), current_stack.failed_service
        process = current_stack.services.get(name)
        end_text = f"ended by itself ({describe_exit_code(process.exit_code)})" if process else "cannot be started"
        count = current_stack.restarts.get(name, 0) + 1
        message = (
            f"{name} {end_text}, {count} times in total; see {log}." if count > 1 else f"{name} {end_text}; see {log}."
        )
        raise StackStoppedError(message, read_log_end(log))
    if current_stack.is_stopping:
        raise StackStoppedError("The stack was stopped by another command; start it again.")
    if current_stack.supervisor is not None and not current_stack.supervisor.is_alive():
        log = layout.log_file("supervisor")
        raise StackStoppedError("The stack's supervisor was killed; start the stack again.", read_log_end(log))
    return current_stack


def raise_if_port_is_taken(layout: Layout, stack: Stack) -> None:
    """Raise an error if another program listens on a port of the stack.

    Health checks cannot show this: the other program may be a stack with another home, which answers them as well.

    Raises:
        UnavailableError: another program listens on a port. A start on other ports can help.
    """
    # In this order, a service of the stack is never reported as another program. The ports in use are listed before the
    # processes that use them, because a service may start in between. Each port without a process of the stack is then
    # checked again, because a service may have ended in between.
    used_ports = [port for port in stack.ports.model_dump().values() if is_listening(port)]
    if taken_ports := [port for port in find_unserved_ports(layout.home, used_ports) if is_listening(port)]:
        raise UnavailableError(
            f"Another program took port {', '.join(map(str, taken_ports))} while the stack started; start again."
        )


def read_log_end(log: Path, lines: int = LOG_LINES) -> str:
    """Return the last lines of a log; an empty string if there is no log."""
    try:
        with log.open(errors="replace") as file:
            return "".join(deque(file, maxlen=lines)).rstrip()
    except FileNotFoundError:
        return ""


def create_bucket(stack: Stack) -> None:
    """Create the bucket in drydock. Idempotent.

    Raises:
        UnavailableError: drydock refuses, or has just ended. A retry can help.
    """
    scope = f"Credential={ACCESS_KEY_ID}/20130101/{REGION}/s3/aws4_request"
    # moto, the library behind drydock's S3, finds the service in the scope of the credential. It checks no signature.
    header = {"Authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=none"}
    try:
        with requests.Session() as session:
            session.trust_env = False
            response = session.put(f"{stack.drydock_url}/{BUCKET}", headers=header, timeout=10)
    except requests.RequestException as error:
        raise UnavailableError(f"drydock did not create the bucket {BUCKET} ({type(error).__name__}).") from None
    if not response.ok and response.status_code != requests.codes.conflict:
        raise UnavailableError(f"drydock did not create the bucket {BUCKET} (HTTP {response.status_code}).")
