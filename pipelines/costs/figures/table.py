"""Build the table of the key figures for the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from pipelines.costs.figures.key_figure import KeyFigure
from pipelines.escaping import escape


def build_key_figure_table(figures: Iterable[KeyFigure], title: str) -> Table:
    """Build the table: value, target, whether it is met, number of jobs, and how the value is computed."""
    table = Table(title=f"Key figures, {escape(title)}")
    for name in ("figure", "value", "target", "", "jobs", "how it is computed, or why it is not known"):
        table.add_column(name, justify="right" if name in ("value", "target", "jobs") else "left")
    for figure in figures:
        cells = (figure.title, figure.format_value(), figure.format_target(), figure.format_outcome())
        style = "red" if figure.is_met is False else None
        table.add_row(*cells, str(figure.jobs), escape(figure.reason or figure.method), style=style)
    return table
