"""`python -m pipelines docs`: build the data docs."""

from __future__ import annotations

import typer

from pipelines.cli.terminal import write_line
from pipelines.settings import settings

app = typer.Typer(no_args_is_help=True, help="Build the data docs: HTML pages of what validations found.")


@app.callback()
def _group() -> None:
    """Build the data docs: HTML pages of what validations found."""


@app.command("build")
def build() -> None:
    """Write all pages again from the evidence under LEEWAY_HOME/validation, and print their address."""
    from pipelines.validation import datadocs

    number = datadocs.build_site()
    write_line(f"{number} partitions: {settings().docs_index}")
