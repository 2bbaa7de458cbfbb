"""`python -m pipelines quarantine`: what was set aside, why, and letting go what passes now."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from pipelines import params
from pipelines.dataset import load_dataset
from pipelines.errors import DataError, InvalidError, SpecError
from pipelines.settings import settings
from pipelines.system.log import log
from pipelines.system.progress import track_progress

app = typer.Typer(no_args_is_help=True, help="Shows the rows that validate set aside, and publishes those that pass.")
MAX_NAMED = 5

DatasetOption = Annotated[str, typer.Option("--dataset", help="The dataset.")]
FirstOption = Annotated[str, typer.Option("--from", metavar="YYYY-MM-DD", help="First day.")]
LastOption = Annotated[str, typer.Option("--to", metavar="YYYY-MM-DD", help="Last day, included.")]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON on stdout, for programs.")]


@app.command("list")
def listing(
    name: DatasetOption = "flights", first: FirstOption = "", last: LastOption = "", as_json: JsonOption = False
) -> None:
    """The partitions that have rows in quarantine: how many, and what is wrong with them."""
    found: list[dict[str, Any]] = [
        {"partition": str(day), "rows": rows, "reasons": dict(_reasons(name, day))}
        for day, rows in sorted(_partitions(name, first, last).items())
    ]
    if as_json:
        _tell(json.dumps(found, indent=2))
    for one in [] if as_json else found:
        _tell(f"{one['partition']}  {one['rows']} rows: {_joined(one['reasons'])}")
    if not found and not as_json:
        _tell(f"No row of {name} is in quarantine{_between(first, last)}.")


@app.command("show")
def show(
    name: DatasetOption = "flights",
    first: FirstOption = "",
    last: LastOption = "",
    limit: Annotated[int, typer.Option(min=1, help="Rows shown of each partition.")] = 20,
) -> None:
    """The rows in quarantine, whole, a JSON object a line."""
    from pipelines.lake import Lake, connect

    lake, table = Lake.open(), load_dataset(name).quarantine
    for day in sorted(_partitions(name, first, last)):
        with connect() as connection, lake.create_view(connection, "aside", table, day, day):
            rows = connection.sql(f"FROM aside LIMIT {limit}").to_arrow_table().to_pylist()
        for row in rows:
            _tell(json.dumps(row, default=str, ensure_ascii=False))


@app.command("release")
def release(name: DatasetOption = "flights", first: FirstOption = "", last: LastOption = "") -> None:
    """Rows that pass the suite as it is now are published; those that do not stay. Idempotent.

    Every partition that has rows in quarantine is validated again, as it is staged. One that is refused does not
    stop the others.
    """
    had, refused = _partitions(name, first, last), []
    for day in track_progress(sorted(had), len(had), "releasing days"):
        try:
            left = _validate(name, day)
        except InvalidError as error:
            refused.append(f"{day}: {error.message[:200]}")
            log.error("%s", error)
            continue
        _tell(f"{day}  {had[day] - left} of {had[day]} rows published, {left} stay in quarantine")
    if refused:
        named = " / ".join(refused[:MAX_NAMED])
        raise DataError(f"{len(refused)} of {len(had)} partitions were refused: {named}", "They are as they were.")
    if not had:
        _tell(f"No row of {name} is in quarantine{_between(first, last)}.")


def _validate(name: str, day: dt.date) -> int:
    """Validates a partition as params.yaml says; returns how many rows are in quarantine then."""
    from pipelines.steps import validate

    values = params.load_section(settings().project, "validate") | {"dataset": name, "partition": day}
    return validate.run(validate.ValidateSpec.parse(values, "quarantine release")).quarantined


def _partitions(name: str, first: str, last: str) -> dict[dt.date, int]:
    """The days that have rows in quarantine, and how many."""
    from pipelines.lake import Lake

    begin, end = _day("--from", first, dt.date.min), _day("--to", last, dt.date.max)
    if begin > end:
        raise SpecError(f"--from {first} is after --to {last}.")
    found = Lake.open().count_rows_by_day(load_dataset(name).quarantine)
    return {day: rows for day, rows in found.items() if begin <= day <= end}


def _reasons(name: str, day: dt.date) -> Sequence[tuple[str, int]]:
    """What is wrong with a day's rows, the most frequent first."""
    from pipelines.lake import Lake, connect

    lake, table = Lake.open(), load_dataset(name).quarantine
    with connect() as connection, lake.create_view(connection, "aside", table, day, day):
        rows = connection.execute("SELECT quarantine FROM aside").fetchall()
    counts = Counter(f"{one['expectation']} of {one['column']}" for (reasons,) in rows for one in reasons)
    return counts.most_common()


def _joined(reasons: dict[str, Any]) -> str:
    return "; ".join(f"{number} {reason}" for reason, number in reasons.items())


def _between(first: str, last: str) -> str:
    return (f" from {first}" if first else "") + (f" to {last}" if last else "")


def _day(option: str, text: str, default: dt.date) -> dt.date:
    try:
        return dt.date.fromisoformat(text) if text else default
    except ValueError:
        raise SpecError(f"{option} {text!r}: a day is wanted, YYYY-MM-DD.") from None


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
