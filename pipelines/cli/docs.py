"""`python -m pipelines docs`: build the data docs."""

from __future__ import annotations

import typer

from pipelines.cli.terminal import write_line
from pipelines.settings import settings

app = typer.Typer(no_args_is_help=True, help="Build the data docs: HTML pages of the results of validations.")


@app.callback()
def _keep_subcommand() -> None:
    """Keep `build` a sub-command: typer would drop the name of a single command."""


@app.command("build")
def build_pages() -> None:
    """Write all pages again from LEEWAY_HOME/validation; print the number of partitions and the address of the docs."""
    from pipelines.validation import datadocs

    partition_count = datadocs.build_site()
    write_line(f"{partition_count} partitions: {settings().docs_index}")
