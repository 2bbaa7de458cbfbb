"""What a person sees: progress, tables and errors, on a terminal and in a log file."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from stack.errors import StackError
from stack.layout import Layout
from stack.services.commands import USER, password
from stack.services.record import Stack
from stack.services.start_stop import Watcher

_LOG_WIDTH = 150
_SAY_EVERY_S = 10.0


def console(*, stderr: bool = False) -> Console:
    """A console that does not break a table's rows where there is no terminal to be narrow."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else _LOG_WIDTH)


class Bar(Protocol):
    """Something that shows how far a piece of work is."""

    def __call__(self, done: int, total: int, note: str = "") -> None:
        """Shows `done` of `total`, and what is going on."""


@contextmanager
def progress(title: str) -> Iterator[Bar]:
    """A bar on a terminal; elsewhere a plain line now and then."""
    out = console()
    if not out.is_terminal:
        yield _Lines(out, title)
        return
    columns = (
        TextColumn("{task.description:<24}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
    )
    with Progress(*columns, TimeElapsedColumn(), TextColumn("{task.fields[note]}"), console=out) as bar:
        task = bar.add_task(title, total=1, note="")

        def show(done: int, total: int, note: str = "") -> None:
            bar.update(task, completed=done, total=total, note=note)

        yield show


@contextmanager
def starting() -> Iterator[Watcher]:
    """The progress of a start, for `lifecycle.up`."""
    with progress("starting the stack") as bar:
        yield lambda name, ready, total: bar(ready, total, f"{name} is ready")


class _Lines:
    def __init__(self, out: Console, title: str) -> None:
        self.out, self.title = out, title
        self.said_at = 0.0
        self.said = ""

    def __call__(self, done: int, total: int, note: str = "") -> None:
        line = f"{self.title}: {done}/{total} {note}".rstrip()
        due = time.monotonic() - self.said_at > _SAY_EVERY_S or done == total
        if due and line != self.said:
            self.out.print(line, markup=False)
            self.said_at, self.said = time.monotonic(), line


def urls(layout: Layout, stack: Stack) -> Table:
    """Where a person finds what runs, and the login."""
    table = Table("service", "URL", "login")
    table.add_row("Airflow", stack.airflow_url, f"user {USER}, password {password(layout)}")
    table.add_row("MLflow", stack.mlflow_url, "")
    table.add_row("data docs", stack.docs_url, "")
    table.add_row("drydock (S3, SageMaker, Logs)", stack.drydock_url, "any credentials")
    return table


def complain(error: StackError) -> None:
    """The error's line, below the end of the log that it speaks of, on stderr."""
    out = console(stderr=True)
    if error.details:
        out.print(error.details, markup=False, style="dim")
    out.print(f"error: {error.message}", markup=False, style="bold red", soft_wrap=True)
