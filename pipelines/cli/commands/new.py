"""`python -m pipelines new NAME`: create a model from a sample of its data, and first a project if there is none."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.options import JsonOption, parse_days
from pipelines.cli.terminal import make_console, write_json, write_line
from pipelines.errors import DataError, SpecError
from pipelines.settings import settings

if TYPE_CHECKING:
    from pipelines.scaffold.creation import Creation
    from pipelines.scaffold.request import Option, Request

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the model and of its dataset, such as orders.")
]
SourceOption = Annotated[
    str, typer.Option(metavar="PATH|URL", help="File (CSV, JSON lines, Parquet), folder, database or API.")
]
TableOption = Annotated[str, typer.Option(help="Table of the database.")]
QueryOption = Annotated[str, typer.Option(help="SQL query of the database, instead of a table.")]
RowsOption = Annotated[str, typer.Option(help="Dotted path to the list of rows in a page of an HTTP API.")]
TaskOption = Annotated[str, typer.Option(help="binary, multiclass or regression (default: inferred from the label).")]
LabelOption = Annotated[str, typer.Option(help="Column to predict.")]
PositiveOption = Annotated[str, typer.Option(help="Value of a binary label that means true.")]
TimeOption = Annotated[str, typer.Option(help="Column with the time of a row.")]
FormatsOption = Annotated[
    list[str] | None, typer.Option(help="Format of the times, such as %d.%m.%Y. Repeat the option for each format.")
]
ZoneOption = Annotated[str, typer.Option(help="Time zone of times without an offset.")]
KeyOption = Annotated[str, typer.Option(help="Columns that identify a row within its day, separated by commas.")]
KnownLaterOption = Annotated[
    str, typer.Option(help="Columns that are not known when the prediction is made, separated by commas.")
]
KnownBeforeOption = Annotated[
    str,
    typer.Option(
        help="Columns to keep as features although each alone predicts the label: they are known in time. Separated by "
        "commas."
    ),
]
DelayOption = Annotated[int, typer.Option(help="Days until the label of a day is known.", min=0, max=366)]
ScheduleOption = Annotated[str, typer.Option(metavar="HH:MM", help="Time of day at which a day is ingested, UTC.")]
FirstDayOption = Annotated[
    str, typer.Option("--first", metavar="YYYY-MM-DD", help="First day to read from an HTTP API.")
]
UpdateOption = Annotated[
    bool, typer.Option("--update", help="Update the files of the model NAME to the templates of this Leeway.")
]
LastDayOption = Annotated[str, typer.Option("--last", metavar="YYYY-MM-DD", help="Last day to read from an HTTP API.")]


def run_command(
    name: NameArgument,
    source: SourceOption = "",
    table: TableOption = "",
    query: QueryOption = "",
    rows: RowsOption = "",
    task: TaskOption = "",
    label: LabelOption = "",
    positive: PositiveOption = "",
    time: TimeOption = "",
    time_format: FormatsOption = None,
    timezone: ZoneOption = "UTC",
    key: KeyOption = "",
    known_later: KnownLaterOption = "",
    known_before: KnownBeforeOption = "",
    label_delay_days: DelayOption = 1,
    schedule: ScheduleOption = "00:00",
    first: FirstDayOption = "",
    last: LastDayOption = "",
    update: UpdateOption = False,
    as_json: JsonOption = False,
) -> None:
    """Create a model from a sample of its data; in a folder without params.yaml, create a project first.

    Columns, key, time, label and task are inferred. The command asks for what it cannot infer; without a terminal, it
    ends with an error that names the option. `--update` merges the changes of newer templates, and keeps your changes.
    """
    from pipelines.scaffold.creation import create
    from pipelines.scaffold.request import Request, refuse_to_ask

    days = parse_days(first, last, ("--first", "--last"))
    columns = (_split(key), time, label, positive, _split(known_later), _split(known_before))
    times = (tuple(time_format or ()), timezone, _parse_time(schedule), label_delay_days)
    request = Request(name, source, table, query, rows, task, *columns, *times, *days)
    if update:
        _update(request, as_json=as_json)
        return
    ask = _ask_person if sys.stdin.isatty() and sys.stdout.isatty() else refuse_to_ask
    creation = create(request, settings().project, ask)
    (_write_json if as_json else _print_summary)(creation)


def _update(request: Request, *, as_json: bool) -> None:
    """Update the files of a model to the templates of this Leeway, and write which files changed."""
    from pipelines.scaffold.updating import update

    if request != type(request)(request.name):  # another option than --json was given, too
        message = "--update takes no other option than --json, because it uses the options that `new` recorded."
        raise SpecError(message, "Leave the others out, and edit the files instead.")
    result = update(request.name, settings().project)
    if as_json:
        write_json({"old_version": result.old_version, "changed": result.changed_files, "conflicts": result.conflicts})
    else:
        for path in result.changed_files:
            write_line(f"{'conflict' if path in result.conflicts else 'updated'}: {path}")
        write_line(
            f"{len(result.changed_files)} file(s) were updated. Their earlier templates were those of Leeway "
            f"{result.old_version}."
        )
    if result.conflicts:
        message = f"{', '.join(result.conflicts)}: you and the templates changed the same lines."
        raise DataError(message, "Both versions are in the file: keep one of them, and remove the conflict markers.")


def _parse_time(text: str) -> str:
    """Return the cron expression of a time of day.

    Raises:
        SpecError: the text is not a time of day. A retry cannot help.
    """
    hour, _, minute = text.partition(":")
    if not (hour.isdecimal() and minute.isdecimal() and int(hour) < 24 and int(minute) < 60):
        raise SpecError(f"--schedule {text!r} is not a time of day.", "Write it as HH:MM, in UTC: 03:30.")
    return f"{int(minute)} {int(hour)} * * *"


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _ask_person(option: Option, reason: str, choices: Sequence[str]) -> str:
    """Ask a person at the terminal until the answer is one of the choices, or, for a key, one or several of them.

    If there are no choices, accept any text. Several choices are returned with a comma between them.
    """
    write_line(reason)
    is_list = option == "key"
    if choices:
        write_line(f"{'One or several' if is_list else 'One'} of: {', '.join(choices)}")
    while True:
        answer = str(typer.prompt(f"--{option.replace('_', '-')}")).strip()
        parts = _split(answer)
        if not choices or (parts and set(parts) <= set(choices) and (is_list or len(parts) == 1)):
            return ",".join(parts) if choices else answer
        write_line(f"{answer!r} is not {'one or several' if is_list else 'one'} of these.")


def _write_json(creation: Creation) -> None:
    plan, sizes = creation.plan, creation.sizes
    write_json(
        {
            "name": plan.request.name,
            "task": plan.label.task,
            "label": plan.label.name,
            "time": plan.time,
            "key": list(plan.key),
            "features": dict(plan.features),
            "known_later": dict(plan.known_later),
            "dropped": dict(plan.dropped_columns),
            "rows": sizes.rows,
            "first": str(sizes.first),
            "last": str(sizes.last),
            "as_of": str(sizes.as_of),
            "expectations": creation.expectation_count,
            "files": creation.files,
            "is_new_project": creation.is_new_project,
            "variable": creation.address_variable,
        }
    )


def _print_summary(creation: Creation) -> None:
    """Print a table that describes the new model, and the next commands."""
    from rich.table import Table

    plan, sizes = creation.plan, creation.sizes
    table = Table(title=f"{plan.request.name}: predicts {plan.label.name} ({plan.label.task})", show_header=False)
    rows = {
        "rows": f"{sizes.rows:,} with a label, {sizes.first} to {sizes.last}, {sizes.rows_per_day:.1f} a day",
        "time; key": f"{plan.time or 'in the name of the file'}; {', '.join(plan.key) or 'one row a day'}",
        "features": ", ".join(plan.features),
        "known later": "\n".join(f"{name}: {reason}" for name, reason in plan.known_later.items()),
        "not read": "\n".join(f"{name}: {reason}" for name, reason in plan.dropped_columns.items()),
        "windows": f"{sizes.train_days} days of training, {sizes.holdout_days} of holdout, as of {sizes.as_of}",
        "expectations": _describe_expectations(creation),
        "files": f"{len(creation.files)}, such as models/{plan.request.name}/params.yaml",
    }
    for title, text in rows.items():
        if text:
            table.add_row(title, text)
    make_console().print(table)
    if creation.address_variable:
        write_line(
            "The address of the source contains a secret, so it was written to no file. Where the steps run, set the "
            f"environment variable {creation.address_variable} to the address."
        )
    write_line(f"Next: python -m pipelines check {plan.request.name}, then dvc repro gate@{plan.request.name}")


def _describe_expectations(creation: Creation) -> str:
    text = f"{creation.expectation_count} drafted; review expectations/{creation.plan.request.name}.json"
    is_short = (creation.sizes.last - creation.sizes.first).days + 1 < 365
    season = "The sample has less than a year, so expectations that may depend on the season block nothing."
    return f"{text}. {season}" if is_short else text
