"""How far a long piece of work is, for whoever watches stderr: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from pipelines.system.log import log

INTERVAL_S = 10.0
"""Seconds from a line to the next, where there is no terminal."""
T = TypeVar("T")


def track_progress(each: Iterable[T], total: int, title: str) -> Iterator[T]:
    """The same things, `total` of them, while stderr tells how many are done."""
    return _draw_bar(each, total, title) if sys.stderr.isatty() else _log_lines(each, total, title)


def _draw_bar(each: Iterable[T], total: int, title: str) -> Iterator[T]:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        yield from progress.track(each, total=total, description=title)


def _log_lines(each: Iterable[T], total: int, title: str) -> Iterator[T]:
    said = time.monotonic()
    for done, one in enumerate(each):
        if time.monotonic() - said >= INTERVAL_S:
            said = time.monotonic()
            log.info("%s: %d of %d", title, done, total)
        yield one
