"""`python -m pipelines expectations`: draft a suite, and validate past partitions with a changed suite."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines import params
from pipelines.cli.options import FirstOption, JsonOption, LastOption, parse_range
from pipelines.cli.terminal import make_console, write_json
from pipelines.dataset import load_dataset
from pipelines.errors import SpecError
from pipelines.escaping import escape
from pipelines.settings import settings
from pipelines.system.log import log
from pipelines.system.progress import track_progress
from pipelines.window import Unit

if TYPE_CHECKING:
    from pipelines.validation.suite_replay import ReplayedPartition

app = typer.Typer(no_args_is_help=True, help="Draft suites, and try changed suites on past partitions.")
SEVERITIES = ("critical", "warning", "info")
"""The severities of expectations, the most severe first."""
MAX_NAMED_FAILURES = 3
"""Largest number of failed expectations that a row of the table names."""


@app.command("suggest")
def suggest_suite(
    table: Annotated[str, typer.Option(help="Table of the lake: flights, flights_raw, ...")],
    first: FirstOption,
    last: LastOption,
    out: Annotated[str, typer.Option(metavar="FILE", help="File for the suite (default: stdout).")] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Draft a suite from what the table's days have in common. Each expectation has its reason, with numbers."""
    from pipelines.validation.suggesting import draft_suite, summarize_table

    if force and not out:
        raise SpecError("--force replaces a file, but --out names none.", "Give --out, or no --force.")
    path = Path(out)
    if out and path.exists() and not force:
        raise SpecError(f"{out} exists already.", "Give another file, or --force.")
    days = parse_range(first, last)
    key, unit = _find_key_and_unit(table)
    summary = summarize_table(table, *days, key=key, unit=unit)
    suite = draft_suite(summary, path.stem if out else table)
    log.info(
        "%d expectations were drafted from %d rows in %d partitions",
        len(suite["expectations"]),
        summary.rows,
        len(summary.rows_by_partition),
    )
    text = json.dumps(suite, indent=2, ensure_ascii=False) + "\n"
    if not out:
        sys.stdout.write(text)
        return
    from pipelines.system.files import replace_file

    with replace_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    log.info("draft written to %s: review it before use", out)


@app.command("replay")
def replay_suite(
    suite: Annotated[str, typer.Option(metavar="FILE|NAME", help="A suite's JSON file, or its name in expectations/.")],
    table: Annotated[
        str, typer.Option(help="Table whose days are validated: staging (flights_raw) or published (flights).")
    ],
    first: FirstOption,
    last: LastOption,
    as_json: JsonOption = False,
) -> None:
    """Show which past days a changed suite would block, and how many rows it would quarantine. Publishes nothing."""
    from pipelines.validation import suite_replay

    first_day, last_day = parse_range(first, last)
    changed_suite, name = suite_replay.load_changed_suite(suite), _get_dataset_name(table)
    partitions = suite_replay.list_partitions(table, name, first_day, last_day)
    max_quarantined_fraction = float(
        params.load_section(settings().project, "validate").get("max_quarantined_fraction", 0.1)
    )
    results = suite_replay.replay(changed_suite, table, name, partitions, max_quarantined_fraction)
    replayed_partitions = list(track_progress(results, len(partitions), "replaying partitions"))
    totals = suite_replay.summarize(replayed_partitions)
    if as_json:
        write_json({"totals": totals, "partitions": [partition.to_json_values() for partition in replayed_partitions]})
    else:
        _print_differences(replayed_partitions, totals)


def _print_differences(partitions: Sequence[ReplayedPartition], totals: dict[str, Any]) -> None:
    """Print the partitions whose verdict or number of quarantined rows would change, and the totals.

    A partition that was never validated is printed, too.
    """
    from rich.table import Table

    console = make_console()
    table = Table("partition", "rows", "before", "now", "bad rows", "reason")
    for result in partitions:
        if result.is_different:
            last_verdict = result.last_run.verdict if result.last_run else "not validated"
            reason = _name_failures(result.failures)
            outcome = result.outcome
            verdicts = last_verdict, result.verdict
            cells = str(result.partition), f"{outcome.rows:,}", *verdicts, f"{outcome.bad_rows:,}", reason
            table.add_row(*map(escape, cells))
    if totals["differ"]:
        console.print(table)
    new_counts, old_counts = totals["now"], totals["before"]
    counts = ", ".join(f"{new_counts[verdict]} {verdict} (before: {old_counts[verdict]})" for verdict in new_counts)
    console.print(
        f"{totals['partitions']} partitions: {counts}; {totals['quarantined']:,} rows quarantined.", soft_wrap=True
    )
    console.print(f"{totals['differ']} partitions would get another verdict or number of quarantined rows.")


def _name_failures(failures: Sequence[dict[str, Any]]) -> str:
    """Name the three most severe failures, and count the others."""
    sorted_failures = sorted(failures, key=lambda failure: SEVERITIES.index(failure["severity"]))
    names = "; ".join(
        f"{failure['severity']} {_format_failure(failure)}" for failure in sorted_failures[:MAX_NAMED_FAILURES]
    )
    return names if len(failures) <= MAX_NAMED_FAILURES else f"{names}; {len(failures) - MAX_NAMED_FAILURES} more"


def _format_failure(failure: dict[str, Any]) -> str:
    return f"{failure['expectation'].removeprefix('expect_')} {failure['column']}".strip()


def _get_dataset_name(table: str) -> str:
    """Return the name of the dataset of a staging or published table. The dataset need not exist."""
    return table.removesuffix("_raw")


def _find_key_and_unit(table: str) -> tuple[Sequence[str], Unit]:
    """Return the key and the unit of the table's dataset; no key and `day` if the dataset cannot be loaded."""
    try:
        dataset = load_dataset(_get_dataset_name(table))
        return dataset.key, dataset.partition
    except SpecError:
        log.warning("the dataset of %s cannot be loaded, so the draft has no expectation about a key", table)
        return (), "day"
