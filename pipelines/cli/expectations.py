"""`python -m pipelines expectations`: drafts of suites, and what a changed suite would have made of the past."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines import params
from pipelines.dataset import load_dataset
from pipelines.errors import SpecError
from pipelines.settings import settings
from pipelines.system.log import log
from pipelines.system.progress import track_progress

if TYPE_CHECKING:
    from pipelines.validation.suite_replay import Replayed

app = typer.Typer(no_args_is_help=True, help="Drafts suites, and tries changed ones on past partitions.")
WIDTH = 150
"""Of a table where there is no terminal to be narrow."""
SEVERITIES, NAMED = ("critical", "warning", "info"), 3

FirstOption = Annotated[str, typer.Option("--from", metavar="YYYY-MM-DD", help="First day.")]
LastOption = Annotated[str, typer.Option("--to", metavar="YYYY-MM-DD", help="Last day, included.")]


@app.command("suggest")
def suggest(
    table: Annotated[str, typer.Option(help="Table of the lake: flights, flights_raw, ...")],
    first: FirstOption,
    last: LastOption,
    out: Annotated[str, typer.Option(metavar="FILE", help="File for the suite; stdout where it is not given.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace the file where it is there.")] = False,
) -> None:
    """A draft suite of what the table's days have in common; every expectation says why, in figures."""
    from pipelines.validation.suggesting import draft, profiled

    path = Path(out)
    if out and path.exists() and not force:
        raise SpecError(f"{out} is there already.", "Give another file, or --force.")
    days = _days(first, last)
    seen = profiled(table, *days, key=_key(table))
    suite = draft(seen, path.stem if out else table)
    log.info("%d expectations, of %d rows in %d partitions", len(suite["expectations"]), seen.rows, len(seen.days))
    text = json.dumps(suite, indent=2, ensure_ascii=False) + "\n"
    if not out:
        sys.stdout.write(text)
        return
    from pipelines.system.files import replace_file

    with replace_file(path) as making:
        making.write_text(text, encoding="utf-8")
    log.info("%s has them: read it before you trust it", out)


@app.command("replay")
def replay(
    suite: Annotated[str, typer.Option(metavar="FILE|NAME", help="A suite's JSON file, or its name in expectations/.")],
    table: Annotated[str, typer.Option(help="Table whose days are judged: staged (flights_raw) or published.")],
    first: FirstOption,
    last: LastOption,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on stdout, for programs.")] = False,
) -> None:
    """Which past days a changed suite would block, and whose rows it would set aside. Nothing is published."""
    from pipelines.validation import suite_replay as replaying

    chosen, name = replaying.suite_at(suite), _dataset(table)
    days = replaying.days_of(table, *_days(first, last))
    allowed = float(params.load_section(settings().project, "validate").get("max_quarantined_fraction", 0.1))
    told = list(track_progress(replaying.replay(chosen, table, name, days, allowed), len(days), "replaying days"))
    totals = replaying.totals(told)
    if as_json:
        answer = {"totals": totals, "partitions": [one.record() for one in told]}
        sys.stdout.write(json.dumps(answer, indent=2) + "\n")
    else:
        _show(told, totals)


def _show(told: Sequence[Replayed], totals: dict[str, Any]) -> None:
    """The days that would fare otherwise, and the sum of all."""
    from rich.table import Table

    console = _console()
    table = Table("partition", "rows", "before", "now", "bad rows", "because")
    for one in told:
        if one.differs:
            before = one.before.verdict if one.before else "not validated"
            why = _because(one.failing)
            table.add_row(str(one.day), f"{one.outcome.rows:,}", before, one.verdict, f"{one.outcome.bad:,}", why)
    if totals["differ"]:
        console.print(table)
    now, before = totals["now"], totals["before"]
    each = ", ".join(f"{now[verdict]} {verdict} (before: {before[verdict]})" for verdict in now)
    console.print(
        f"{totals['partitions']} partitions: {each}; {totals['quarantined']:,} rows set aside.", soft_wrap=True
    )
    console.print(f"{totals['differ']} would fare otherwise than they did.")


def _because(failing: Sequence[dict[str, Any]]) -> str:
    """The gravest three, and how many more there are."""
    gravest = sorted(failing, key=lambda fault: SEVERITIES.index(fault["severity"]))
    named = "; ".join(f"{fault['severity']} {_short(fault)}" for fault in gravest[:NAMED])
    return named if len(failing) <= NAMED else f"{named}; {len(failing) - NAMED} more"


def _short(fault: dict[str, Any]) -> str:
    return f"{fault['expectation'].removeprefix('expect_')} {fault['column']}".strip()


def _days(first: str, last: str) -> tuple[dt.date, dt.date]:
    begin, end = _day("--from", first), _day("--to", last)
    if begin > end:
        raise SpecError(f"--from {first} is after --to {last}.")
    return begin, end


def _day(option: str, text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise SpecError(f"{option} {text!r}: a day is wanted, YYYY-MM-DD.") from None


def _dataset(table: str) -> str:
    """The name of the dataset that a table, staged or published, would be of."""
    return table.removesuffix("_raw")


def _key(table: str) -> Sequence[str]:
    """The key of the table's dataset; none where the table is of no dataset that we know."""
    try:
        return load_dataset(_dataset(table)).key
    except SpecError:
        log.warning("%s is the table of no dataset: the draft says nothing of a key", table)
        return ()


def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
