"""`python -m pipelines docs`: the data docs, for people."""

from __future__ import annotations

import sys

import typer

from pipelines.settings import settings

app = typer.Typer(no_args_is_help=True, help="The data docs: pages of what validations found.")


@app.callback()
def _group() -> None:
    """The data docs: pages of what validations found."""


@app.command("build")
def build() -> None:
    """Makes all pages again of the evidence under LEEWAY_HOME/validation, and says where they are."""
    from pipelines.validation import datadocs

    number = datadocs.build_site()
    sys.stdout.write(f"{number} partitions: {settings().docs_index}\n")
