"""Report the progress of long work on stderr: by a bar on a terminal, else by log lines, at most one in ten seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from pipelines.system.log import log

INTERVAL_S = 10.0
"""Shortest time between two log lines, seconds, if stderr is not a terminal."""
T = TypeVar("T")


def track_progress(items: Iterable[T], total: int, title: str) -> Iterator[T]:
    """Yield the items unchanged, and report under `title` on stderr how many of the `total` are done."""
    return _draw_bar(items, total, title) if sys.stderr.isatty() else _log_lines(items, total, title)


def _draw_bar(items: Iterable[T], total: int, title: str) -> Iterator[T]:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        yield from progress.track(items, total=total, description=title)


def _log_lines(items: Iterable[T], total: int, title: str) -> Iterator[T]:
    logged_at = time.monotonic()
    for count, item in enumerate(items):
        if time.monotonic() - logged_at >= INTERVAL_S:
            logged_at = time.monotonic()
            log.info("%s: %d of %d", title, count, total)
        yield item
