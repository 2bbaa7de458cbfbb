"""`python -m pipelines lineage`: show what a model version was made of, and which versions used a day."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.cli.options import find_dataset, parse_day
from pipelines.cli.terminal import write_line
from pipelines.errors import SpecError

app = typer.Typer(help="Show what a version was made of; or, with --partition, which versions used a day.")


# Typer's groups stop parsing options at the first argument, where a sub-command could begin; this group has none.
@app.callback(invoke_without_command=True, context_settings={"allow_interspersed_args": True})
def show_lineage(
    model_version: Annotated[
        str, typer.Argument(metavar="MODEL@VERSION", help="A version or an alias, such as flights@champion.")
    ] = "",
    partition: Annotated[str, typer.Option(metavar="YYYY-MM-DD", help="Day: list the versions that used it.")] = "",
    table: Annotated[str, typer.Option(help="Table of the day; needed if the project has several datasets.")] = "",
) -> None:
    """Show what a version was made of, as a tree; or list the versions whose window contains a day."""
    if bool(model_version) == bool(partition):
        raise SpecError("give either MODEL@VERSION or --partition.", "For example: lineage flights@champion.")
    if table and not partition:
        raise SpecError(
            "--table names the table of the day in --partition, but --partition is missing.",
            "Give --partition, or no --table.",
        )
    from pipelines.registry import lineage_tree

    if partition:
        day = parse_day("--partition", partition)
        table = table or find_dataset(name="").table
        for line in lineage_tree.describe_versions_with_partition(table, day):
            write_line(line)
        return
    model, separator, version = model_version.partition("@")
    if not (model and separator and version):
        message = f"{model_version!r} is not of the form MODEL@VERSION or MODEL@ALIAS."
        raise SpecError(message, "For example: flights@champion, flights@3.")
    lineage_tree.print_tree(model, version)
