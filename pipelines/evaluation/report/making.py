"""From a judged candidate to its report."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.evaluation.gates.holdout import Holdout
from pipelines.evaluation.gates.judging import Judged
from pipelines.evaluation.gates.policy import Policy
from pipelines.evaluation.report import figures
from pipelines.evaluation.report.curves import confusion, curves
from pipelines.pages.page import write_page
from pipelines.system.files import replace_folder

PAGE = "report.html"
SIGNS = {"passed": "✓", "failed": "✕", "undecided": "?", "reported": "·"}


def make(
    folder: Path,
    verdict: Mapping[str, Any],
    rows: Holdout,
    judged: Judged,
    policy: Policy,
    importance: Mapping[str, float],
    facts: Mapping[str, str],
) -> Path:
    """`folder` holds the page and its pictures, and nothing else; returns the page.

    Args:
        folder: replaced as a whole.
        verdict: as in its file.
        rows: that were judged.
        judged: their slices and weeks.
        policy: says the threshold, and what is drawn as a whole.
        importance: feature name to its share of the gain.
        facts: what the candidate is, by name.
    """
    groups = rows.column(policy.draw_by).astype(str).to_numpy() if policy.draw_by else None
    threshold = policy.threshold or _as_many(rows)
    seen = figures.Seen(
        rows=rows,
        candidate=curves(rows.label, rows.candidate, groups),
        champion=None if rows.champion is None else curves(rows.label, rows.champion, groups),
        slices=judged.slices,
        weeks=judged.weeks,
        importance=importance,
        threshold=threshold,
        confusion=confusion(rows.label, rows.candidate, threshold),
    )
    with replace_folder(folder) as making:
        tables = {f"Slices by {name}": table for name, table in _by_column(judged.slices)}
        records = _list_records(tables | {"Weeks": judged.weeks})
        values = {"verdict": verdict, "facts": facts, "signs": SIGNS, "tables": records}
        write_page(making / PAGE, "verdict.html", figures.draw(making, seen), **values)
    return folder / PAGE


def _as_many(rows: Holdout) -> float:
    """The threshold at which as many are said to be positive as are."""
    return float(np.quantile(rows.candidate, 1 - rows.label.mean()))


def _by_column(slices: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    return [(str(name), table) for name, table in slices.groupby("column")] if len(slices) else []


def _list_records(tables: Mapping[str, pd.DataFrame]) -> dict[str, list[dict[Hashable, Any]]]:
    """Convert the tables that have rows to records; a missing value becomes None."""
    filled = {title: table for title, table in tables.items() if len(table)}
    return {
        title: table.astype(object).where(table.notna(), None).to_dict("records") for title, table in filled.items()
    }
