"""Print progress, tables and errors, to a terminal or to a log file."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pipelines.escaping import escape, escape_lines
from stack.errors import StackError
from stack.layout import Layout
from stack.services import readiness
from stack.services.commands import USER, read_password
from stack.services.record import Stack

_LOG_WIDTH = 150
"""Characters of a line of output that goes to a file."""
_LOG_INTERVAL_S = 10.0


def open_console(*, stderr: bool = False) -> Console:
    """Return a console for stdout or stderr, which prints text such as [bold] as it is.

    If the output goes to a file, the console is wide enough for the rows of a table.
    """
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _LOG_WIDTH
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=width)


class ProgressBar(Protocol):
    """A function that shows how much of a piece of work is done."""

    def __call__(self, done_count: int, total: int, note: str = "") -> None:
        """Show that `done_count` of `total` parts are done, and a note about the part that is in progress."""


@contextmanager
def show_progress(title: str) -> Iterator[ProgressBar]:
    """Show a progress bar on a terminal. To a file, print a plain line at most every ten seconds."""
    console = open_console()
    if not console.is_terminal:
        yield _ProgressLines(console, title)
        return
    columns = (
        TextColumn("{task.description:<24}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
    )
    with Progress(
        *columns, TimeElapsedColumn(), TextColumn("{task.fields[note]}", markup=False), console=console
    ) as progress:
        task = progress.add_task(title, total=1, note="")

        def update_bar(done_count: int, total: int, note: str = "") -> None:
            progress.update(task, completed=done_count, total=total, note=escape(note))

        yield update_bar


@contextmanager
def show_start_progress() -> Iterator[readiness.Progress]:
    """Show how many services have started. `start_stack` calls the function that this yields."""
    with show_progress("starting the stack") as bar:
        yield lambda name, ready, total: bar(ready, total, f"{name} is ready")


class _ProgressLines:
    """Print progress as plain lines: a new one at most every ten seconds, and one at the end."""

    def __init__(self, console: Console, title: str) -> None:
        self.console, self.title = console, title
        self.last_time = 0.0
        self.last_line = ""

    def __call__(self, done_count: int, total: int, note: str = "") -> None:
        line = f"{self.title}: {done_count}/{total} {note}".rstrip()
        is_due = time.monotonic() - self.last_time > _LOG_INTERVAL_S or done_count == total
        if is_due and line != self.last_line:
            self.console.print(escape(line))
            self.last_time, self.last_line = time.monotonic(), line


def build_url_table(layout: Layout, stack: Stack) -> Table:
    """Return a table of the services' URLs, with Airflow's login."""
    table = Table("service", "URL", "login")
    table.add_row("Airflow", stack.airflow_url, f"user {USER}, password {read_password(layout)}")
    table.add_row("models (Leeway's page in Airflow)", f"{stack.airflow_url}/plugin/leeway/", "the same")
    table.add_row("MLflow", stack.mlflow_url, "")
    table.add_row("data docs", stack.docs_url, "")
    table.add_row("drydock (S3, SageMaker, Logs)", stack.drydock_url, "any credentials")
    return table


def format_restarts(stack: Stack) -> str:
    """Return how often the supervisor has restarted each service; empty if it restarted none."""
    restarts = ", ".join(f"{name} {count}" for name, count in sorted(stack.restarts.items()))
    return restarts and f"Restarts of services that ended: {restarts}"


def print_error(error: StackError) -> None:
    """Print an error to stderr: its details, such as the end of a log, then the line that says what is wrong."""
    console = open_console(stderr=True)
    if error.details:
        console.print(escape_lines(error.details), style="dim")
    console.print(f"error: {escape(error.message)}", style="bold red", soft_wrap=True)
