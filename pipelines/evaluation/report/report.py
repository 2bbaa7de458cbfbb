"""Write the report of a judged candidate: an HTML page, and its pictures as PNG."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.evaluation.gates.estimates import find_groups
from pipelines.evaluation.gates.holdout import Holdout
from pipelines.evaluation.gates.judge import Judgement
from pipelines.evaluation.gates.policy import Policy
from pipelines.evaluation.report.curves import compute_confusion, compute_curves
from pipelines.evaluation.report.figures import PictureData, draw_figures
from pipelines.evaluation.report.own_metrics import estimate_own_metrics
from pipelines.evaluation.report.quantiles import estimate_shares_below
from pipelines.pages.page import write_page
from pipelines.system.files import replace_folder

PAGE = "report.html"
"""File name of the page."""
SIGNS = {"passed": "✓", "failed": "✕", "undecided": "?", "reported": "·"}
"""Maps each outcome of a check to the sign that the page shows beside it."""


def write_report(
    folder: Path,
    verdict: Mapping[str, Any],
    holdout: Holdout,
    judgement: Judgement,
    policy: Policy,
    importance: Mapping[str, float],
    links: Mapping[str, str],
) -> Path:
    """Write the page and its pictures to `folder`, replacing what was there; return the path of the page.

    Args:
        folder: folder to write.
        verdict: fields of `GateResult`, as the file of the verdict has them.
        holdout: rows on which the candidate was judged.
        judgement: tables of slices and weeks.
        policy: gives the threshold of the confusion matrix, the groups, the slices and the options of the intervals.
        importance: maps each feature to its share of the gain.
        links: maps the title of each link on the page to its address.
    """
    data = PictureData(
        holdout,
        candidate=None,
        champion=None,
        slices=judgement.slices,
        weeks=judgement.weeks,
        importance=importance,
    )
    if holdout.task == "binary":
        data = _add_curves(data, policy)
    elif holdout.candidate_quantiles:
        data = replace(data, shares_below=estimate_shares_below(holdout, policy))
    data = replace(data, own_metrics=estimate_own_metrics(holdout, policy))
    with replace_folder(folder) as output:
        records = _list_records(_split_by_column(judgement.slices) | {"Weeks": judgement.weeks})
        values = {"verdict": verdict, "facts": verdict["facts"], "signs": SIGNS, "tables": records, "links": links}
        write_page(output / PAGE, "verdict.html", draw_figures(output, data), **values)
    return folder / PAGE


def _add_curves(data: PictureData, policy: Policy) -> PictureData:
    """Add the curves and the confusion matrix of binary models."""
    holdout = data.holdout
    label, score, champion_score = holdout.label, holdout.candidate_score, holdout.champion_score
    groups, threshold = find_groups(holdout, policy), policy.threshold or _choose_threshold(holdout)
    return replace(
        data,
        candidate=compute_curves(label, score, groups),
        champion=None if champion_score is None else compute_curves(label, champion_score, groups),
        threshold=threshold,
        confusion=compute_confusion(label, score, threshold),
    )


def _choose_threshold(holdout: Holdout) -> float:
    """Return the threshold at which about as many rows are predicted positive as have label 1."""
    return float(np.quantile(holdout.candidate_score, 1 - holdout.label.mean()))


def _split_by_column(slices: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Split the table of slices by the column that defines them; map a title to each table."""
    if slices.empty:
        return {}
    return {f"Slices by {name!s}": table for name, table in slices.groupby("column")}


def _list_records(tables: Mapping[str, pd.DataFrame]) -> dict[str, list[dict[Hashable, Any]]]:
    """Convert each table to a list of records, without the empty tables; a missing value becomes None."""
    nonempty_tables = {title: table for title, table in tables.items() if len(table)}
    return {
        title: table.astype(object).where(table.notna(), None).to_dict("records")
        for title, table in nonempty_tables.items()
    }
