"""Read the table of the trials of a tuning, and format it for a terminal."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from pipelines.errors import DataError
from pipelines.escaping import escape

COLUMNS = frozenset({"number", "state", "objective", "rounds", "seconds", "reason"})
"""Columns of the table that are shown, beside those of the hyperparameters."""


def read_rows(folder: Path) -> list[dict[str, str]]:
    """Return the trials, the lowest objective first; those without one (pruned, stopped or failed) are at the end.

    Raises:
        DataError: the folder has no table of trials that can be read. A retry cannot help.
    """
    from pipelines.tuning.warm_start import TRIALS_FILE

    try:
        with (folder / TRIALS_FILE).open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        if any(not row.keys() >= COLUMNS or None in row or None in row.values() for row in rows):
            raise ValueError("a row has too few or too many values")
        return sorted(rows, key=lambda row: (not row["objective"], float(row["objective"] or 0), int(row["number"])))
    except (OSError, ValueError, csv.Error):
        raise DataError(f"{folder / TRIALS_FILE} cannot be read.", "The step `tune` writes it.") from None


def build_table(rows: list[dict[str, str]], metric: str) -> Any:
    """Build the table of the trials for a terminal.

    Args:
        rows: the trials, as `read_rows` returns them.
        metric: heading of the column with the objective.
    """
    from rich.table import Table

    from pipelines.tuning.warm_start import PARAMETER_PREFIX

    names = [name for name in (rows[0] if rows else {}) if name.startswith(PARAMETER_PREFIX)]
    table = Table(box=None, pad_edge=False)
    parameters = [name.removeprefix(PARAMETER_PREFIX) for name in names]
    for title in ("trial", "state", metric, "rounds", "seconds", *parameters):
        table.add_column(escape(title), justify="left" if title == "state" else "right")
    table.add_column("why")
    for row in rows:
        cells = [row["number"], row["state"], _shorten(row["objective"], 5), row["rounds"], _shorten(row["seconds"], 1)]
        cells += [_shorten(row[name], 4, is_significant=True) for name in names]
        table.add_row(*(escape(cell) for cell in (*cells, row["reason"])))
    return table


def _shorten(text: str, digits: int, *, is_significant: bool = False) -> str:
    """Round a number in a text, to decimals or significant digits. Return any other text unchanged."""
    try:
        value = float(text)
    except ValueError:
        return text
    return f"{value:.{digits}g}" if is_significant else f"{value:.{digits}f}"
