"""`python -m pipelines lineage`: what a version is made of, and which versions saw a day."""

from __future__ import annotations

import datetime as dt
import sys
from typing import Annotated

import typer

from pipelines.errors import SpecError

app = typer.Typer(help="Tells what a version is made of, or with --partition which versions saw a day.")


# Typer's groups stop at the first argument, where a sub-command might begin; this one has none.
@app.callback(invoke_without_command=True, context_settings={"allow_interspersed_args": True})
def lineage(
    which: Annotated[
        str, typer.Argument(metavar="MODEL@VERSION", help="A version, or an alias: flights@champion.")
    ] = "",
    partition: Annotated[str, typer.Option(metavar="YYYY-MM-DD", help="A day: which versions saw it?")] = "",
    table: Annotated[str, typer.Option(help="Its table.")] = "flights",
) -> None:
    """What a version is made of as a tree; backwards, the versions whose window has the day."""
    if bool(which) == bool(partition):
        raise SpecError("MODEL@VERSION or --partition is wanted, and not both.", "As in: lineage flights@champion.")
    from pipelines.registry import lineage_tree

    if partition:
        _tell(lineage_tree.find_versions_with_partition(table, _day(partition)))
        return
    model, at, version = which.partition("@")
    if not (model and at and version):
        raise SpecError(f"{which!r}: MODEL@VERSION or MODEL@ALIAS is wanted.", "As in: flights@champion, flights@3.")
    lineage_tree.print_tree(model, version)


def _day(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise SpecError(f"--partition {text!r}: a day is wanted, YYYY-MM-DD.") from None


def _tell(lines: list[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
