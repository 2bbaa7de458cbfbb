"""Write and read the CSV tables behind the figures of an evaluation."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Table = dict[str, list[Any]]
"""A table, which maps the name of each column to its values."""


def write_tables(folder: Path, tables: Mapping[str, Table]) -> None:
    """Write each table to `folder` as NAME.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(table)
            writer.writerows(zip(*table.values(), strict=True))


def read_importance(path: Path) -> dict[str, float]:
    """Read importance.csv; map each feature to its share of the total gain, in the order of the file.

    Each name stays text. pandas would read the name `NA` as a missing value, and `2013` as a number.
    """
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        next(rows, None)
        return {feature: float(share) for feature, share in rows}
