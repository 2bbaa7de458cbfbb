"""`python -m pipelines quarantine`: list and show quarantined rows, and publish those that pass now."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from pipelines import params
from pipelines.cli.options import FirstOption, JsonOption, LastOption, parse_days
from pipelines.cli.terminal import write_json, write_line
from pipelines.dataset import load_dataset
from pipelines.errors import DataError, InvalidError
from pipelines.settings import settings
from pipelines.system.log import log
from pipelines.system.progress import track_progress

app = typer.Typer(
    no_args_is_help=True, help="Show the rows that the step `validate` quarantined, and publish those that pass now."
)
MAX_NAMED = 5

DatasetOption = Annotated[str, typer.Option("--dataset", help="Dataset.")]


@app.command("list")
def listing(
    name: DatasetOption = "flights", first: FirstOption = "", last: LastOption = "", as_json: JsonOption = False
) -> None:
    """List the partitions that have rows in quarantine: how many rows, and which expectations they failed."""
    partitions: list[dict[str, Any]] = [
        {"partition": str(day), "rows": rows, "reasons": dict(_count_reasons(name, day))}
        for day, rows in sorted(_list_partitions(name, first, last).items())
    ]
    if as_json:
        write_json(partitions)
        return
    for partition in partitions:
        write_line(f"{partition['partition']}  {partition['rows']} rows: {_join_reasons(partition['reasons'])}")
    if not partitions:
        write_line(f"No row of {name} is in quarantine{_format_range(first, last)}.")


@app.command("show")
def show(
    name: DatasetOption = "flights",
    first: FirstOption = "",
    last: LastOption = "",
    limit: Annotated[int, typer.Option(min=1, help="Most rows to show of each partition.")] = 20,
) -> None:
    """Write the rows in quarantine with all columns, one JSON object per line."""
    from pipelines.lake import Lake, connect

    lake, table = Lake.open(), load_dataset(name).quarantine
    for day in sorted(_list_partitions(name, first, last)):
        with connect() as connection, lake.create_view(connection, "aside", table, day, day):
            rows = connection.sql(f"FROM aside LIMIT {limit}").to_arrow_table().to_pylist()
        for row in rows:
            sys.stdout.write(json.dumps(row, default=str, ensure_ascii=False) + "\n")


@app.command("release")
def release(name: DatasetOption = "flights", first: FirstOption = "", last: LastOption = "") -> None:
    """Publish the rows in quarantine that pass the present suite; the others stay there. Idempotent.

    Validates again every staged partition that has rows in quarantine. A partition that is refused does not stop the
    others.
    """
    before, refused = _list_partitions(name, first, last), []
    for day in track_progress(sorted(before), len(before), "releasing days"):
        try:
            left = _validate(name, day)
        except InvalidError as error:
            refused.append(f"{day}: {error.message[:200]}")
            log.error("%s", error)
            continue
        write_line(f"{day}  {before[day] - left} of {before[day]} rows published, {left} stay in quarantine")
    if refused:
        named = " / ".join(refused[:MAX_NAMED])
        raise DataError(f"{len(refused)} of {len(before)} partitions were refused: {named}", "They did not change.")
    if not before:
        write_line(f"No row of {name} is in quarantine{_format_range(first, last)}.")


def _validate(name: str, day: dt.date) -> int:
    """Validate a partition with the parameters of params.yaml; return the number of rows in quarantine afterwards."""
    from pipelines.steps import validate

    values = params.load_section(settings().project, "validate") | {"dataset": name, "partition": day}
    return validate.run(validate.ValidateSpec.parse(values, "quarantine release")).quarantined


def _list_partitions(name: str, first: str, last: str) -> dict[dt.date, int]:
    """Return the days that have rows in quarantine, and the number of rows."""
    from pipelines.lake import Lake

    begin, end = parse_days(first, last)
    counts = Lake.open().count_rows_by_day(load_dataset(name).quarantine)
    return {day: rows for day, rows in counts.items() if (begin or day) <= day <= (end or day)}


def _count_reasons(name: str, day: dt.date) -> Sequence[tuple[str, int]]:
    """Count the failed expectations of a day's quarantined rows, the most frequent first."""
    from pipelines.lake import Lake, connect

    lake, table = Lake.open(), load_dataset(name).quarantine
    with connect() as connection, lake.create_view(connection, "aside", table, day, day):
        rows = connection.execute("SELECT quarantine FROM aside").fetchall()
    counts = Counter(f"{reason['expectation']} of {reason['column']}" for (reasons,) in rows for reason in reasons)
    return counts.most_common()


def _join_reasons(reasons: dict[str, Any]) -> str:
    return "; ".join(f"{number} {reason}" for reason, number in reasons.items())


def _format_range(first: str, last: str) -> str:
    return (f" from {first}" if first else "") + (f" to {last}" if last else "")
