"""Checks of parts of the holdout: slices against the champion, weeks against the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from pipelines.evaluation.gates.checks import reported
from pipelines.evaluation.gates.holdout import Array, Holdout
from pipelines.evaluation.gates.policy import Policy
from pipelines.evaluation.gates.verdict import FAILED, PASSED, Check
from pipelines.evaluation.statistics import delong
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.hypotheses import holm

TOLD = ("column", "slice", "rows", "value", "low", "high", "p_value", "judged")
"""Columns of a table of parts."""


def slices(rows: Holdout, policy: Policy) -> tuple[list[Check], pd.DataFrame]:
    """A check a column, and every slice with its loss of AUC against the champion.

    Where there is no champion the slices are told with their own AUC, and nothing is judged.

    Raises:
        DataError: a column is not there.
    """
    asked, champion = policy.slices, rows.champion
    if asked is None:
        return [], pd.DataFrame(columns=TOLD)
    members = {name: dict(_values(rows.column(name))) for name in asked.columns}

    def estimate(chosen: Array) -> Estimate:
        label, score = rows.label[chosen], rows.candidate[chosen]
        if champion is None:
            return delong.auc(label, score, alpha=policy.alpha)
        return delong.paired(label, score, champion[chosen], alpha=policy.alpha)

    told = _table(rows, members, estimate, asked.min_rows, -asked.max_drop)
    if champion is None:
        return [reported(f"slices of {name}", "there is no champion to compare with") for name in members], told
    bound, what = -asked.max_drop, "AUC against the champion's in the slices of"
    return [_worst(f"{what} {name}", told[told.column == name], bound, policy.alpha) for name in members], told


def weeks(rows: Holdout, policy: Policy) -> tuple[list[Check], pd.DataFrame]:
    """One check, and every week with its AUC."""
    if policy.stability is None:
        return [], pd.DataFrame(columns=TOLD)
    whole = delong.auc(rows.label, rows.candidate, alpha=policy.alpha).value
    bound = whole - policy.stability.max_drop
    members = {"week": dict(_values(_week(rows.column("date"))))}

    def estimate(chosen: Array) -> Estimate:
        return delong.auc(rows.label[chosen], rows.candidate[chosen], alpha=policy.alpha)

    told = _table(rows, members, estimate, policy.stability.min_rows, bound)
    return [_worst("AUC of the holdout's weeks", told, bound, policy.alpha)], told


def _values(column: pd.Series[Any]) -> Iterator[tuple[str, Array]]:
    """Each value of a column, missing ones among them, and where it is."""
    text = column.astype(object).where(column.notna(), "missing").astype(str).to_numpy()
    for value in np.unique(text):
        yield str(value), text == value


def _week(days: pd.Series[Any]) -> pd.Series[Any]:
    """The week of each day, named by its first: seven days each, counted from the holdout's first."""
    when = pd.to_datetime(days)
    first = when.min()
    return (first + pd.to_timedelta((when - first).dt.days // 7 * 7, unit="D")).dt.strftime("%Y-%m-%d")


def _table(
    rows: Holdout,
    members: dict[str, dict[str, Array]],
    estimate: Callable[[Array], Estimate],
    min_rows: int,
    bound: float,
) -> pd.DataFrame:
    """Every part; those with rows enough and both labels carry the p-value of "not below the bound", after Holm."""
    told: list[dict[str, Any]] = []
    for column, values in members.items():
        for value, chosen in values.items():
            count = int(chosen.sum())
            one = estimate(chosen) if len(np.unique(rows.label[chosen])) == 2 else None
            row = {"column": column, "slice": value, "rows": count, "judged": one is not None and count >= min_rows}
            ends = {"value": one.value, "low": one.low, "high": one.high} if one else {}
            told.append(row | ends | ({"p_value": _below(one, bound)} if one and row["judged"] else {}))
    table = pd.DataFrame(told, columns=TOLD)
    judged = table["judged"].astype(bool)
    table.loc[judged, "p_value"] = holm(table.loc[judged, "p_value"].tolist())
    return table


def _below(told: Estimate, bound: float) -> float:
    """P-value of a part that is not below the bound: small where it surely is."""
    if not told.se:
        return float(told.value >= bound)
    return float(stats.norm.cdf((told.value - bound) / told.se))


def _worst(name: str, table: pd.DataFrame, bound: float, alpha: float) -> Check:
    judged = table[table["judged"].astype(bool)]
    small = len(table) - len(judged)
    if judged.empty:
        return reported(name, f"none of {len(table)} has rows enough to be judged")
    worst = judged.sort_values(["p_value", "value"]).iloc[0]
    good = bool(worst.p_value >= alpha)
    return Check(
        check=name,
        value=float(worst.value),
        bound=bound,
        low=float(worst.low),
        high=float(worst.high),
        outcome=PASSED if good else FAILED,
        reason=(
            f"the worst of {len(judged)}, {worst.slice} ({worst.rows} rows), is {worst.value:.4f} "
            f"[{worst.low:.4f}, {worst.high:.4f}], {'not surely' if good else 'surely'} below {bound:.4f} "
            f"(p = {worst.p_value:.3g}, Holm); {small} with too few rows not judged"
        ),
    )
