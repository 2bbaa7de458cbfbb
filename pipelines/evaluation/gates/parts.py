"""Check parts of the holdout: slices against the champion, weeks against the whole holdout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from pipelines.evaluation.gates.checks import report_value
from pipelines.evaluation.gates.holdout import Array, Holdout
from pipelines.evaluation.gates.policy import Policy
from pipelines.evaluation.gates.verdict import FAILED, PASSED, Check
from pipelines.evaluation.statistics import delong
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.hypotheses import adjust_p_values

COLUMNS = ("column", "part", "rows", "value", "low", "high", "p_value", "judged")
"""Columns of a table of parts, which has one row for each part. `part` is the value of `column` that its rows have."""


def check_slices(holdout: Holdout, policy: Policy) -> tuple[list[Check], pd.DataFrame]:
    """Check that no slice's AUC is too far below the champion's: one check for each column of the policy.

    Without a champion, the slices are reported with their own AUC.

    Returns:
        The checks, and the table of all slices; columns `COLUMNS`.

    Raises:
        DataError: the holdout lacks a column. A retry cannot help.
    """
    section, champion_score = policy.slices, holdout.champion_score
    if section is None:
        return [], pd.DataFrame(columns=COLUMNS)
    masks = {name: dict(_split_by_value(holdout.get_column(name))) for name in section.columns}

    def estimate(mask: Array) -> Estimate:
        label, score = holdout.label[mask], holdout.candidate_score[mask]
        if champion_score is None:
            return delong.estimate_auc(label, score, alpha=policy.alpha)
        return delong.estimate_auc_difference(label, score, champion_score[mask], alpha=policy.alpha)

    bound = -section.max_drop
    table = _make_table(holdout, masks, estimate, section.min_rows, bound)
    if champion_score is None:
        return [report_value(f"slices of {name}", "there is no champion to compare with") for name in masks], table
    prefix = "AUC against the champion's in the slices of"
    checks = [_check_worst(f"{prefix} {name}", table[table.column == name], bound, policy.alpha) for name in masks]
    return checks, table


def check_weeks(holdout: Holdout, policy: Policy) -> tuple[list[Check], pd.DataFrame]:
    """Check that no week's AUC is too far below that of the whole holdout.

    Returns:
        At most one check, and the table of all weeks; columns `COLUMNS`.

    Raises:
        DataError: the holdout lacks the column `date`. A retry cannot help.
    """
    if policy.stability is None:
        return [], pd.DataFrame(columns=COLUMNS)
    auc = delong.estimate_auc(holdout.label, holdout.candidate_score, alpha=policy.alpha).value
    bound = auc - policy.stability.max_drop
    masks = {"week": dict(_split_by_value(_find_weeks(holdout.get_column("date"))))}

    def estimate(mask: Array) -> Estimate:
        return delong.estimate_auc(holdout.label[mask], holdout.candidate_score[mask], alpha=policy.alpha)

    table = _make_table(holdout, masks, estimate, policy.stability.min_rows, bound)
    return [_check_worst("AUC of the holdout's weeks", table, bound, policy.alpha)], table


def _split_by_value(column: pd.Series[Any]) -> Iterator[tuple[str, Array]]:
    """Yield each value of a column as text, and the mask of its rows. A missing value has the text `missing`."""
    text = column.astype(object).where(column.notna(), "missing").astype(str).to_numpy()
    for value in np.unique(text):
        yield str(value), text == value


def _find_weeks(days: pd.Series[Any]) -> pd.Series[Any]:
    """Return the first day of each row's week; weeks of seven days are counted from the first day of the holdout."""
    dates = pd.to_datetime(days)
    first = dates.min()
    return (first + pd.to_timedelta((dates - first).dt.days // 7 * 7, unit="D")).dt.strftime("%Y-%m-%d")


def _make_table(
    holdout: Holdout,
    masks: dict[str, dict[str, Array]],
    estimate: Callable[[Array], Estimate],
    min_rows: int,
    bound: float,
) -> pd.DataFrame:
    """Make a table with one row for each part. A part with both labels and enough rows is judged: it has a p-value.

    The p-value is that of the hypothesis that the metric is not below the bound, adjusted by Holm's method.

    Args:
        holdout: holdout to which the parts belong.
        masks: for each column, the values that it has, each with the mask of its rows.
        estimate: estimates the metric on the rows of a mask.
        min_rows: smallest number of rows of a part that is judged.
        bound: smallest allowed value of the metric.
    """
    records: list[dict[str, Any]] = []
    for column, values in masks.items():
        for value, mask in values.items():
            rows = int(mask.sum())
            metric = estimate(mask) if len(np.unique(holdout.label[mask])) == 2 else None
            record = {"column": column, "part": value, "rows": rows, "judged": metric is not None and rows >= min_rows}
            if metric:
                record |= {"value": metric.value, "low": metric.low, "high": metric.high}
            if metric and record["judged"]:
                record["p_value"] = _compute_p_value(metric, bound)
            records.append(record)
    table = pd.DataFrame(records, columns=COLUMNS)
    is_judged = table["judged"].astype(bool)
    table.loc[is_judged, "p_value"] = adjust_p_values(table.loc[is_judged, "p_value"].tolist())
    return table


def _compute_p_value(estimate: Estimate, bound: float) -> float:
    """Compute the one-sided p-value of the hypothesis that the value is not below the bound (normal approximation)."""
    if not estimate.se:
        return float(estimate.value >= bound)
    return float(stats.norm.cdf((estimate.value - bound) / estimate.se))


def _check_worst(name: str, table: pd.DataFrame, bound: float, alpha: float) -> Check:
    """Make a check that fails if the part with the smallest adjusted p-value is significantly below the bound."""
    judged_parts = table[table["judged"].astype(bool)]
    if judged_parts.empty:
        return report_value(name, f"none of the {len(table)} parts has enough rows to be judged")
    worst_part = judged_parts.sort_values(["p_value", "value"]).iloc[0]
    passed = bool(worst_part.p_value >= alpha)
    return Check(
        name=name,
        value=float(worst_part.value),
        bound=bound,
        low=float(worst_part.low),
        high=float(worst_part.high),
        outcome=PASSED if passed else FAILED,
        reason=(
            f"the worst of {len(judged_parts)} parts is {worst_part.part} ({worst_part.rows} rows): "
            f"{worst_part.value:.4f} [{worst_part.low:.4f}, {worst_part.high:.4f}] is "
            f"{'not significantly' if passed else 'significantly'} below {bound:.4f} "
            f"(p = {worst_part.p_value:.3g}, Holm); {len(table) - len(judged_parts)} parts had too few rows"
        ),
    )
