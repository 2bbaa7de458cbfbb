"""Wait until every service of the stack is ready, and notice when one has ended."""

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
from stack.services.record import Stack

START_TIMEOUT_S = 240.0
"""Longest wait for a start; 13 s is usual on two idle cores."""
LOG_LINES = 15
_POLL_S = 0.2

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called when a service becomes ready, with its name, the number of ready services, and the number of all services."""


def wait_until_ready(layout: Layout, stack: Stack, report_progress: Progress) -> None:
    """Wait until every service of the stack answers, then create the bucket. Idempotent.

    Args:
        layout: the folders of the stack.
        stack: the stack that was started.
        report_progress: called for each service that becomes ready.

    Raises:
        UnavailableError: a service ended, another command stopped the stack, or a service did not answer in
            time. A retry can help.
    """
    checks = build_health_checks(stack)
    total, deadline = len(checks), time.monotonic() + START_TIMEOUT_S
    while checks:
        raise_if_dead(layout, stack)
        if time.monotonic() > deadline:
            log = layout.log_file(next(iter(checks)))
            raise UnavailableError(
                f"{', '.join(checks)} did not answer in {START_TIMEOUT_S:.0f} s; see {log}.", read_log_end(log)
            )
        for name in [name for name, is_healthy in checks.items() if is_healthy()]:
            del checks[name]
            report_progress(name, total - len(checks), total)
        time.sleep(_POLL_S if checks else 0)
    create_bucket(stack)


def raise_if_dead(layout: Layout, stack: Stack) -> None:
    """Raise an error where the stack has ended. Do nothing where it runs or is still starting.

    Raises:
        UnavailableError: a service ended by itself, or another command stopped the stack. A retry can help.
    """
    current = Stack.load(layout)
    if current is None or current.id != stack.id:
        raise UnavailableError("The stack was stopped by another command; start it again.")
    if current.failed_service is not None:
        code, log = current.services[current.failed_service].exit_code, layout.log_file(current.failed_service)
        raise UnavailableError(
            f"{current.failed_service} ended by itself (exit code {code}); see {log}.", read_log_end(log)
        )
    if current.supervisor is not None and not current.supervisor.is_alive():
        log = layout.log_file("supervisor")
        raise UnavailableError("The stack's supervisor was killed; start the stack again.", read_log_end(log))


def read_log_end(log: Path, lines: int = LOG_LINES) -> str:
    """Return the last lines of a log; an empty string where there is no log."""
    try:
        with log.open(errors="replace") as file:
            return "".join(deque(file, maxlen=lines)).rstrip()
    except FileNotFoundError:
        return ""


def create_bucket(stack: Stack) -> None:
    """Create the bucket in drydock. Idempotent.

    Raises:
        UnavailableError: drydock refuses. A retry can help.
    """
    scope = f"Credential={ACCESS_KEY_ID}/20130101/{REGION}/s3/aws4_request"
    # moto recognises the service by the scope of the credential. It checks no signature.
    header = {"Authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=none"}
    with requests.Session() as session:
        session.trust_env = False
        response = session.put(f"{stack.drydock_url}/{BUCKET}", headers=header, timeout=10)
    if not response.ok and response.status_code != requests.codes.conflict:
        raise UnavailableError(f"drydock did not create the bucket {BUCKET} (HTTP {response.status_code}).")
