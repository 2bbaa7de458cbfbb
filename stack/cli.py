"""The commands: `python -m stack up | down | status | demo | replay | backup | restore`."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from stack import display
from stack.backups import backup as backups
from stack.backups import restore as restoring
from stack.errors import StackError, UnavailableError
from stack.jobs.demo import Demo
from stack.jobs.replay import Replay
from stack.jobs.request import YEAR_ENDS, Request
from stack.layout import Layout
from stack.services import start_stop
from stack.services.commands import health_checks
from stack.services.ports import PREFERRED

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
_FIRST, _LAST = datetime(2013, 1, 1), datetime(2013, 3, 31)
_MOMENTS = "First of a month to train as of; may be repeated."
_YEAR_ENDS = datetime.combine(YEAR_ENDS, datetime.min.time())
_AS_OF = [datetime(2013, 3, 1), datetime(2013, 4, 1)]
INTERRUPTED = 130


def _day(name: str, text: str, default: str) -> Any:
    return typer.Option(name, formats=["%Y-%m-%d"], help=text, show_default=default, metavar="YYYY-MM-DD")


@app.command()
def up() -> None:
    """Starts drydock, MLflow, data docs and Airflow, and prints where they are. What runs already is left as it is."""
    with _reported():
        layout = Layout.from_environment()
        with display.starting() as watch:
            stack, started = start_stop.up(layout, PREFERRED, watch)
        layout.keep.touch()
        out = display.console()
        out.print(display.urls(layout, stack))
        out.print("Started. `make down` stops it." if started else "It was running already. `make down` stops it.")


@app.command()
def down() -> None:
    """Stops what `up` or `demo` started, after a crash too."""
    with _reported():
        count = start_stop.down(Layout.from_environment())
        display.console().print(f"Stopped {count} processes." if count else "Nothing was running.")


@app.command()
def status() -> None:
    """Says what runs and whether it answers. Exit 0 when all do, 75 when not."""
    with _reported():
        layout = Layout.from_environment()
        stack = start_stop.running(layout)
        out = display.console()
        if stack is None:
            out.print("The stack is not running; `make up` starts it.")
            raise typer.Exit(UnavailableError.exit_code)
        silent = [name for name, check in health_checks(stack).items() if not check()]
        out.print(display.urls(layout, stack))
        logs = layout.home / "logs"
        out.print(f"Not answering: {', '.join(silent)}; see {logs}." if silent else "All answer.")
        raise typer.Exit(UnavailableError.exit_code if silent else 0)


@app.command()
def demo(
    start: Annotated[datetime, _day("--from", "First day to ingest.", "2013-01-01")] = _FIRST,
    end: Annotated[datetime, _day("--to", "Last day to ingest.", "2013-03-31")] = _LAST,
    as_of: Annotated[list[datetime], _day("--as-of", _MOMENTS, "2013-03-01, 2013-04-01")] = _AS_OF,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack up afterwards.")] = False,
) -> None:
    """Runs the whole loop on real flights: ingest, validate, train, evaluate, gate, promote. Idempotent."""
    with _reported():
        moments = [moment.date() for moment in as_of]
        request = Request.checked(start.date(), end.date(), moments, keep)
        Demo(Layout.from_environment(), request).run()


@app.command()
def replay(
    start: Annotated[datetime, _day("--from", "First day to ingest.", "2013-01-01")] = _FIRST,
    end: Annotated[datetime, _day("--to", "Last day to play.", "2013-12-31")] = _YEAR_ENDS,
    as_of: Annotated[datetime, _day("--as-of", "First of the month of the first model.", "2013-03-01")] = _AS_OF[0],
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack up afterwards.")] = False,
) -> None:
    """Plays the year a day at a time: scores, drift, retraining; tells what the loop was worth. Takes over an hour.

    It can be interrupted at any time: it goes on where it was.
    """
    with _reported():
        request = Request.checked(start.date(), end.date(), [as_of.date()], keep)
        Replay(Layout.from_environment(), request).run()


@app.command()
def backup(
    archive: Annotated[Path | None, typer.Argument(help="File to make; by default leeway-MOMENT.tar.")] = None,
) -> None:
    """Puts all state into one file, which has keys and connections in it. The stack has to be down."""
    with _reported():
        named = archive or Path(f"leeway-{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}.tar")
        made = backups.backup(Layout.from_environment(), named)
        size = f"{made.size_bytes / 1e6:,.0f} MB"
        display.console().print(f"{made.archive}: {made.files:,} files, {size}. It has Airflow's keys: keep it safe.")


@app.command()
def restore(
    archive: Annotated[Path, typer.Argument(help="File from `backup`.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the state that is there.")] = False,
) -> None:
    """Puts the state of a backup in the place of none, or with --force of what is there. Verified before it begins."""
    with _reported():
        layout = Layout.from_environment()
        made = restoring.restore(layout, archive, force)
        display.console().print(f"{layout.home} is as of {made.made_at:%Y-%m-%d %H:%M:%S} UTC. `make up` starts it.")


@contextmanager
def _reported() -> Iterator[None]:
    """Turns errors into one line and an exit code; LEEWAY_DEBUG=1 shows where they came from."""
    # `down` asks a starting `up` to give way with SIGTERM: as with Ctrl-C it then clears up behind itself.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except StackError as error:
        if os.environ.get("LEEWAY_DEBUG") == "1":
            raise
        display.complain(error)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        display.console(stderr=True).print("interrupted")
        raise typer.Exit(INTERRUPTED) from None
