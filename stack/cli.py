"""Start and stop the embedded stack, run the demo and the replay, back up and restore."""

from __future__ import annotations

import os
import signal
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from stack import display
from stack.backups.backup import back_up
from stack.backups.restore import restore as restore_archive
from stack.errors import StackError, UnavailableError
from stack.jobs.demo import Demo
from stack.jobs.replay import Replay
from stack.jobs.request import LAST_DAY, Request
from stack.layout import PROGRAM, Layout
from stack.services.commands import USER, read_password
from stack.services.health import build_health_checks
from stack.services.ports import PREFERRED_PORTS
from stack.services.readiness import load_live_stack
from stack.services.record import Stack
from stack.services.start_stop import find_running_stack, start_stack, stop_stack

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
_FIRST_DAY, _LAST_DAY = datetime(2013, 1, 1), datetime(2013, 3, 31)
_LAST_DAY_OF_REPLAY = datetime.combine(LAST_DAY, datetime.min.time())
_REPLAY_AS_OF = datetime(2013, 3, 1)
_DEMO_AS_OF = [_REPLAY_AS_OF, datetime(2013, 4, 1)]
_AS_OF_HELP = "Moment of a training: the first of a month. It sees only labels that were known before. May be repeated."
_FIRST_MODEL_HELP = "Moment of the first training: the first of a month. The replay begins with this day."
_KEEP_HELP = "Leave the stack running afterwards."
EXIT_INTERRUPTED = 130
"""The exit code after Ctrl-C, as in a shell."""


def _build_day_option(name: str, text: str, default: str) -> Any:
    return typer.Option(name, formats=["%Y-%m-%d"], help=text, show_default=default, metavar="YYYY-MM-DD")


@app.command()
def up() -> None:
    """Start drydock, MLflow, the data docs and Airflow, and print their URLs. A running stack is not changed."""
    with _report_errors():
        layout = Layout.from_environment()
        with display.show_start_progress() as report_progress:
            stack, is_new = start_stack(layout, PREFERRED_PORTS, report_progress)
        layout.keep_running_file.touch()
        console = display.open_console()
        console.print(display.build_url_table(layout, stack))
        console.print(f"{'Started.' if is_new else 'The stack runs already.'} `{PROGRAM} down` stops it.")


@app.command()
def down() -> None:
    """Stop the processes that `up`, `demo` or `replay` started, even after a crash."""
    with _report_errors():
        count = stop_stack(Layout.from_environment())
        display.open_console().print(f"Stopped {count} processes." if count else "Nothing was running.")


@app.command()
def services() -> None:
    """Print the services' URLs, and whether each answers. The exit code is 0 when all services answer, else 75."""
    with _report_errors():
        layout = Layout.from_environment()
        stack = find_running_stack(layout)
        console = display.open_console()
        if stack is None:
            console.print(f"The stack is not running; `{PROGRAM} up` starts it.{_explain_end(layout)}", soft_wrap=True)
            raise typer.Exit(UnavailableError.exit_code)
        unhealthy_names = [name for name, is_healthy in build_health_checks(layout, stack).items() if not is_healthy()]
        console.print(display.build_url_table(layout, stack))
        logs = layout.home / "logs"
        console.print(
            f"Not answering: {', '.join(unhealthy_names)}; see {logs}." if unhealthy_names else "All services answer."
        )
        if restarts := display.format_restarts(stack):
            console.print(f"{restarts}; see {layout.log_file('supervisor')}.", soft_wrap=True)
        raise typer.Exit(UnavailableError.exit_code if unhealthy_names else 0)


@app.command("open")
def open_page(
    model: Annotated[str, typer.Argument(metavar="[MODEL]", help="Model to show (default: the list of models).")] = "",
) -> None:
    """Open Leeway's page in the browser: the state of the models. It is a part of Airflow, so log in there."""
    with _report_errors():
        layout = Layout.from_environment()
        stack = find_running_stack(layout)
        if stack is None:
            raise UnavailableError(f"The stack is not running; `{PROGRAM} up` starts it.{_explain_end(layout)}")
        page = f"models/{quote(model, safe='')}" if model else ""
        url = f"{stack.airflow_url}/plugin/leeway/{page}"
        console = display.open_console()
        console.print(f"{url} (user {USER}, password {read_password(layout)})", soft_wrap=True)
        if not webbrowser.open(url):
            console.print("No browser was found here: open this address yourself.")


def _explain_end(layout: Layout) -> str:
    """Return why the last stack ended, if `down` did not stop it."""
    stack = Stack.load(layout)
    if stack is None:
        return ""
    try:
        load_live_stack(layout, stack)
    except UnavailableError as error:
        return f" {error.message}"
    return ""


@app.command()
def demo(
    start: Annotated[datetime, _build_day_option("--from", "First day to ingest.", "2013-01-01")] = _FIRST_DAY,
    end: Annotated[datetime, _build_day_option("--to", "Last day to ingest.", "2013-03-31")] = _LAST_DAY,
    as_of: Annotated[list[datetime], _build_day_option("--as-of", _AS_OF_HELP, "2013-03-01, 2013-04-01")] = _DEMO_AS_OF,
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="Model of the example to train.")] = "flights",
    keep: Annotated[bool, typer.Option("--keep", help=_KEEP_HELP)] = False,
) -> None:
    """Run the whole loop on real flights: ingest, validate, train, evaluate, gate, promote.

    The demo starts the stack and stops it at the end. A repeated demo runs only what is missing or failed.
    """
    with _report_errors():
        moments = [moment.date() for moment in as_of]
        layout = Layout.from_environment()
        layout.require_example()
        layout.require_model(model)
        request = Request.create(start.date(), end.date(), moments, keep, model)
        Demo(layout, request).run()


@app.command()
def replay(
    start: Annotated[datetime, _build_day_option("--from", "First day to ingest.", "2013-01-01")] = _FIRST_DAY,
    end: Annotated[datetime, _build_day_option("--to", "Last day to replay.", "2013-12-31")] = _LAST_DAY_OF_REPLAY,
    as_of: Annotated[datetime, _build_day_option("--as-of", _FIRST_MODEL_HELP, "2013-03-01")] = _REPLAY_AS_OF,
    keep: Annotated[bool, typer.Option("--keep", help=_KEEP_HELP)] = False,
) -> None:
    """Replay the year day by day (scores, drift, retraining), and compare retraining on drift with other strategies.

    A replay takes about three hours on two cores, and can be interrupted at any time: the next one resumes it.
    """
    with _report_errors():
        request = Request.create(start.date(), end.date(), [as_of.date()], keep)
        layout = Layout.from_environment()
        layout.require_example()
        Replay(layout, request).run()


@app.command()
def backup(
    archive: Annotated[Path | None, typer.Argument(help="File to write; by default leeway-TIME.tar.")] = None,
) -> None:
    """Write all state to one file, which contains keys and connections. The stack must be stopped."""
    with _report_errors():
        target = archive or Path(f"leeway-{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}.tar")
        result = back_up(Layout.from_environment(), target)
        size = f"{result.size_bytes / 1e6:,.0f} MB"
        display.open_console().print(
            f"{result.archive}: {result.files:,} files, {size}. It has Airflow's keys: keep it safe."
        )


@app.command()
def restore(
    archive: Annotated[Path, typer.Argument(help="File that `backup` wrote.")],
    force: Annotated[bool, typer.Option("--force", help="Replace existing state.")] = False,
) -> None:
    """Restore the state of a backup. The file is verified before any change. The stack must be stopped."""
    with _report_errors():
        layout = Layout.from_environment()
        manifest = restore_archive(layout, archive, force)
        display.open_console().print(
            f"{layout.home} has the state of {manifest.made_at:%Y-%m-%d %H:%M:%S} UTC. `{PROGRAM} up` starts the stack."
        )


@contextmanager
def _report_errors() -> Iterator[None]:
    """Print an error as one line and exit with its code. With LEEWAY_DEBUG=1 the traceback is shown instead."""
    # `down` sends SIGTERM to an `up` that is starting the stack. SIGTERM has the effect of Ctrl-C: `up` stops the
    # processes that it has started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except StackError as error:
        if os.environ.get("LEEWAY_DEBUG") == "1":
            raise
        display.print_error(error)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        display.open_console(stderr=True).print("interrupted")
        raise typer.Exit(EXIT_INTERRUPTED) from None
