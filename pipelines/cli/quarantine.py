"""`python -m pipelines quarantine`: list and show quarantined rows, and publish those that pass now."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from pipelines import params
from pipelines.cli.options import DatasetOption, FirstOption, JsonOption, LastOption, find_dataset, parse_days
from pipelines.cli.terminal import format_json, write_json, write_line
from pipelines.dataset import Dataset
from pipelines.errors import DataError, InvalidError, describe_refusals
from pipelines.partitions import Partition, get_date
from pipelines.settings import settings
from pipelines.system.log import log
from pipelines.system.progress import track_progress

app = typer.Typer(
    no_args_is_help=True, help="Show the rows that the step `validate` quarantined, and publish those that pass now."
)


@app.command("list")
def list_partitions(
    dataset: DatasetOption = "", first: FirstOption = "", last: LastOption = "", as_json: JsonOption = False
) -> None:
    """List the partitions that have rows in quarantine: how many rows, and which expectations they failed."""
    chosen_dataset = _find_dataset(dataset, first, last)
    partitions: list[dict[str, Any]] = [
        {"partition": str(partition), "rows": rows, "reasons": dict(_count_reasons(chosen_dataset, partition))}
        for partition, rows in sorted(_count_rows_by_partition(chosen_dataset, first, last).items())
    ]
    if as_json:
        write_json(partitions)
        return
    for partition in partitions:
        write_line(f"{partition['partition']}  {partition['rows']} rows: {_join_reasons(partition['reasons'])}")
    if not partitions:
        write_line(f"No row of {chosen_dataset.name} is in quarantine{_format_range(first, last)}.")


@app.command("show")
def show_rows(
    dataset: DatasetOption = "",
    first: FirstOption = "",
    last: LastOption = "",
    limit: Annotated[int, typer.Option(min=1, help="Largest number of rows to show of each partition.")] = 20,
) -> None:
    """Write rows in quarantine with all columns, one JSON object per line; of each partition, at most --limit."""
    from pipelines.lake import Lake, connect

    lake, chosen_dataset = Lake.open(), _find_dataset(dataset, first, last)
    for partition in sorted(_count_rows_by_partition(chosen_dataset, first, last)):
        with (
            connect() as connection,
            lake.create_view(connection, "quarantined", chosen_dataset.quarantine, partition, partition),
        ):
            rows = connection.sql(f"FROM quarantined LIMIT {limit}").to_arrow_table().to_pylist()
        for row in rows:
            sys.stdout.write(f"{format_json(row)}\n")


@app.command("release")
def release_rows(dataset: DatasetOption = "", first: FirstOption = "", last: LastOption = "") -> None:
    """Publish the rows in quarantine that pass the current suite; the other rows stay there. Idempotent.

    Every partition that has rows in quarantine is validated again, with all of its staged rows. A partition that cannot
    be published does not stop the others; the command then exits with code 2.
    """
    chosen_dataset = _find_dataset(dataset, first, last)
    rows_by_partition, refusals = _count_rows_by_partition(chosen_dataset, first, last), dict[Partition, InvalidError]()
    for partition in track_progress(sorted(rows_by_partition), len(rows_by_partition), "releasing partitions"):
        try:
            remaining_rows = _validate(chosen_dataset.name, partition)
        except InvalidError as error:
            refusals[partition] = error
            log.error("%s", error)
            continue
        write_line(f"{partition}  {_describe_release(rows_by_partition[partition], remaining_rows)}")
    if refusals:
        count = f"{len(refusals)} of {len(rows_by_partition)} partitions were refused"
        raise DataError(f"{count}: {describe_refusals(refusals)}", "The refused partitions did not change.")
    if not rows_by_partition:
        write_line(f"No row of {chosen_dataset.name} is in quarantine{_format_range(first, last)}.")


def _describe_release(rows: int, remaining_rows: int) -> str:
    """Describe what a validation did to a partition with this number of rows in quarantine.

    All staged rows are validated again, so a suite that became stricter puts more of them in quarantine.
    """
    if remaining_rows > rows:
        return f"{remaining_rows - rows} more rows are in quarantine: now {remaining_rows}"
    return f"{rows - remaining_rows} of {rows} rows published, {remaining_rows} stay in quarantine"


def _find_dataset(name: str, first: str, last: str) -> Dataset:
    """Check the days, then load the dataset: a wrong day is reported first, even if no dataset is given."""
    parse_days(first, last)
    return find_dataset(name)


def _validate(dataset: str, partition: Partition) -> int:
    """Validate a partition with the parameters of params.yaml; return the number of rows in quarantine afterwards."""
    from pipelines.steps import validate

    values = params.load_section(settings().project, "validate") | {"dataset": dataset, "partition": partition}
    return validate.run(validate.ValidateSpec.parse(values, "quarantine release")).quarantined


def _count_rows_by_partition(dataset: Dataset, first: str, last: str) -> dict[Partition, int]:
    """Return the number of rows in quarantine for each partition whose `date` is in the range."""
    from pipelines.lake import Lake

    begin, end = parse_days(first, last)
    counts = Lake.open().count_rows_by_partition(dataset.quarantine, dataset.partition)
    dates = {partition: get_date(partition) for partition in counts}
    return {
        partition: rows
        for partition, rows in counts.items()
        if (begin or dates[partition]) <= dates[partition] <= (end or dates[partition])
    }


def _count_reasons(dataset: Dataset, partition: Partition) -> Sequence[tuple[str, int]]:
    """Count the failed expectations of a partition's quarantined rows, the most frequent first."""
    from pipelines.lake import Lake, connect

    lake = Lake.open()
    with connect() as connection, lake.create_view(connection, "quarantined", dataset.quarantine, partition, partition):
        rows = connection.execute("SELECT quarantine FROM quarantined").fetchall()
    counts = Counter(f"{reason['expectation']} of {reason['column']}" for (reasons,) in rows for reason in reasons)
    return counts.most_common()


def _join_reasons(reasons: dict[str, Any]) -> str:
    return "; ".join(f"{count} {reason}" for reason, count in reasons.items())


def _format_range(first: str, last: str) -> str:
    return (f" from {first}" if first else "") + (f" to {last}" if last else "")
