"""Waiting until every service answers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import requests

from stack.errors import UnavailableError
from stack.layout import Layout
from stack.services.commands import health_checks
from stack.services.environment import ACCESS_KEY_ID, BUCKET, REGION
from stack.services.record import Stack

START_S = 240.0
"""Longest wait for a start; 13 s is usual on two idle cores."""
LOG_LINES = 15
_POLL_S = 0.2


def wait_until_ready(layout: Layout, stack: Stack, watch: Callable[[str, int, int], None]) -> None:
    """Returns when every service of the stack answers, and the bucket is there.

    Args:
        layout: where the logs are.
        stack: the stack that was started.
        watch: told which service became ready, how many are, and how many there are.

    Raises:
        UnavailableError: a service ended, the stack was stopped meanwhile, or the time is over.
    """
    checks = health_checks(stack)
    total, ends = len(checks), time.monotonic() + START_S
    while checks:
        raise_if_dead(layout, stack)
        if time.monotonic() > ends:
            late = next(iter(checks))
            raise UnavailableError(
                f"{', '.join(checks)} did not answer in {START_S:.0f} s; see {layout.log(late)}.",
                tail(layout.log(late)),
            )
        for name in [name for name, check in checks.items() if check()]:
            del checks[name]
            watch(name, total - len(checks), total)
        time.sleep(_POLL_S if checks else 0)
    make_bucket(stack)


def raise_if_dead(layout: Layout, stack: Stack) -> None:
    """Returns where the stack lives, or is about to be born.

    Raises:
        UnavailableError: a service ended by itself, or somebody stopped the stack.
    """
    now = Stack.load(layout)
    if now is None or now.id != stack.id:
        raise UnavailableError("The stack was stopped by another command; start it again.")
    if now.died is not None:
        code, log = now.services[now.died].exit_code, layout.log(now.died)
        raise UnavailableError(f"{now.died} ended by itself (exit code {code}); see {log}.", tail(log))
    if now.keeper is not None and not now.keeper.alive():
        raise UnavailableError("The stack's keeper was killed; start it again.", tail(layout.log("keeper")))


def tail(log: Path, lines: int = LOG_LINES) -> str:
    """The last lines of a log; empty where there is none."""
    try:
        with log.open(errors="replace") as file:
            return "".join(deque(file, maxlen=lines)).rstrip()
    except FileNotFoundError:
        return ""


def make_bucket(stack: Stack) -> None:
    """The bucket is in drydock. Idempotent.

    Raises:
        UnavailableError: drydock does not make it.
    """
    scope = f"Credential={ACCESS_KEY_ID}/20130101/{REGION}/s3/aws4_request"
    # moto finds the service by the credential's scope; it checks no signature.
    header = {"Authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=none"}
    with requests.Session() as session:
        session.trust_env = False
        answer = session.put(f"{stack.drydock_url}/{BUCKET}", headers=header, timeout=10)
    if not answer.ok and answer.status_code != requests.codes.conflict:
        raise UnavailableError(f"drydock did not make the bucket {BUCKET} (HTTP {answer.status_code}).")
