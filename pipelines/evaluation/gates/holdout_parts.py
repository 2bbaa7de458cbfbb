"""Check parts of the holdout: compare slices with the champion, and weeks with the whole holdout."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from pipelines.evaluation.gates.checks import report_value
from pipelines.evaluation.gates.estimates import find_groups
from pipelines.evaluation.gates.holdout import Array, Holdout
from pipelines.evaluation.gates.part_metrics import PartMetric, choose_part_metric, estimate_part
from pipelines.evaluation.gates.policy import Policy
from pipelines.evaluation.gates.verdict import FAILED, PASSED, Check
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.hypotheses import adjust_p_values
from pipelines.evaluation.weeks import find_weeks

MIN_WEEK_GROUPS = 3
"""Fewest groups, such as days, with which a week is judged."""
TABLE_COLUMNS = ("column", "part", "rows", "value", "low", "high", "p_value", "judged")
"""Columns of a table of parts, which has one row for each part.

`column` is the name of a column of the holdout, or `week`. `part` is the value that the rows of the part have in this
column; see `_split_by_value` for rows without a value. `value`, `low` and `high` are the metric with its interval; of a
slice, the candidate's metric minus the champion's. `judged` says whether the part has enough rows and groups.
"""


def check_slices(holdout: Holdout, policy: Policy) -> tuple[list[Check], pd.DataFrame]:
    """Check that no slice's metric is too far below the champion's: one check for each column of the policy.

    `choose_part_metric` chooses the metric. Without a champion to compare with, nothing is judged: the table has the
    candidate's own value of each slice, and the columns `judged` and `p_value` of the table have no meaning.

    Returns:
        The checks, and the table of all slices; columns `TABLE_COLUMNS`. Both are empty if the policy has no `slices`.

    Raises:
        DataError: the holdout lacks a column. A retry cannot help.
    """
    section, champion_score = policy.slices, holdout.champion_score
    if section is None:
        return [], pd.DataFrame(columns=TABLE_COLUMNS)
    masks = {name: dict(_split_by_value(holdout.get_column(name))) for name in section.columns}

    groups = find_groups(holdout, policy)
    metric = choose_part_metric(holdout, holdout.candidate_score if champion_score is None else champion_score)

    def estimate(mask: Array) -> Estimate:
        scores = [score[mask] for score in (holdout.candidate_score, champion_score) if score is not None]
        slice_groups = None if groups is None else groups[mask]
        return estimate_part(metric, holdout.label[mask], scores, policy.alpha, slice_groups)

    def is_judged(value: Estimate) -> bool:
        return value.rows >= section.min_rows and _has_enough_groups(value, policy.min_groups)

    bound = -section.max_drop
    table = _make_table(holdout, masks, metric, estimate, is_judged, bound)
    if champion_score is None:
        return [report_value(f"slices of {name}", "there is no champion to compare with") for name in masks], table
    prefix = f"{metric.name} against the champion's in the slices of"
    checks = [_check_worst_part(f"{prefix} {name}", table[table.column == name], bound, policy.alpha) for name in masks]
    return checks, table


def check_weeks(holdout: Holdout, policy: Policy) -> tuple[list[Check], pd.DataFrame]:
    """Check that no week's metric is too far below that of the whole holdout. `choose_part_metric` chooses the metric.

    Returns:
        One check, and the table of all weeks; columns `TABLE_COLUMNS`. Both are empty if the policy has no `stability`.

    Raises:
        DataError: the holdout lacks the column `date`. A retry cannot help.
    """
    if policy.stability is None:
        return [], pd.DataFrame(columns=TABLE_COLUMNS)
    section = policy.stability
    metric = choose_part_metric(holdout, holdout.candidate_score)
    overall_value = metric.build(holdout.label, holdout.candidate_score)(np.ones((1, len(holdout.label))))
    bound = float(overall_value[0]) - section.max_drop
    masks = {"week": dict(_split_by_value(find_weeks(holdout.get_column("date"))))}

    groups = find_groups(holdout, policy)

    def estimate(mask: Array) -> Estimate:
        week_groups = None if groups is None else groups[mask]
        score = holdout.candidate_score[mask]
        # Days that follow each other may be alike. A week has too few days to estimate how much they are alike, so its
        # days are treated as independent.
        return estimate_part(metric, holdout.label[mask], [score], policy.alpha, week_groups, is_autocorrelated=False)

    def is_judged(value: Estimate) -> bool:
        return value.rows >= section.min_rows and _has_enough_groups(value, MIN_WEEK_GROUPS)

    table = _make_table(holdout, masks, metric, estimate, is_judged, bound)
    return [_check_worst_part(f"{metric.name} of the holdout's weeks", table, bound, policy.alpha)], table


def _split_by_value(column: pd.Series[Any]) -> Iterator[tuple[str, Array]]:
    """Yield each value of a column as text, and the mask of its rows.

    Rows without a value are called `missing`; if `missing` is a value of the column, they are called `no value`.
    """
    has_value, text = column.notna().to_numpy(), column.astype(object).astype(str).to_numpy()
    values = np.unique(text[has_value])
    for value in values:
        yield str(value), (text == value) & has_value
    if not has_value.all():
        yield "no value" if "missing" in values else "missing", ~has_value


def _make_table(
    holdout: Holdout,
    masks: dict[str, dict[str, Array]],
    part_metric: PartMetric,
    estimate: Callable[[Array], Estimate],
    is_judged: Callable[[Estimate], bool],
    bound: float,
) -> pd.DataFrame:
    """Make a table with one row for each part. A part has a p-value if it is judged.

    The p-value is that of the hypothesis that the metric is not below the bound, adjusted by Holm's method.

    Args:
        holdout: holdout to which the parts belong.
        masks: for each column, the values that it has, each with the mask of its rows.
        part_metric: metric of the parts; its `has_value` decides whether it can be computed on a part.
        estimate: estimates the metric on the rows of a mask.
        is_judged: decides whether a part with this estimate has enough rows and groups to be judged.
        bound: smallest allowed value of the metric.
    """
    records: list[dict[str, Any]] = []
    for column, values in masks.items():
        for part, mask in values.items():
            rows = int(mask.sum())
            result = estimate(mask) if part_metric.has_value(holdout.label[mask]) else None
            record = {"column": column, "part": part, "rows": rows, "judged": bool(result and is_judged(result))}
            if result:
                record["value"] = result.value
            if result and math.isfinite(result.se):
                record |= {"low": result.low, "high": result.high}
            if result and record["judged"]:
                record["p_value"] = _compute_p_value(result, bound)
            records.append(record)
    table = pd.DataFrame(records, columns=TABLE_COLUMNS)
    has_p_value = table["judged"].astype(bool)
    table.loc[has_p_value, "p_value"] = adjust_p_values(table.loc[has_p_value, "p_value"].tolist())
    return table


def _compute_p_value(estimate: Estimate, bound: float) -> float:
    """Compute the one-sided p-value of the hypothesis that the value is not below the bound (t distribution)."""
    if not estimate.se:  # without any scatter, the hypothesis is certainly true (1.0) or certainly false (0.0)
        return float(estimate.high >= bound)
    return float(stats.t.cdf((estimate.value - bound) / estimate.se, estimate.degrees_of_freedom))


def _has_enough_groups(estimate: Estimate, minimum: int) -> bool:
    return estimate.groups is None or (estimate.groups >= minimum and math.isfinite(estimate.se))


def _check_worst_part(name: str, table: pd.DataFrame, bound: float, alpha: float) -> Check:
    """Make a check that fails if the part with the smallest adjusted p-value is significantly below the bound."""
    judged_parts = table[table["judged"].astype(bool)]
    if judged_parts.empty:
        return report_value(name, f"none of the {len(table)} parts has enough rows and groups to be judged")
    worst_part = judged_parts.sort_values(["p_value", "value"]).iloc[0]
    has_passed = bool(worst_part.p_value >= alpha)
    return Check(
        name=name,
        value=float(worst_part.value),
        bound=bound,
        low=float(worst_part.low),
        high=float(worst_part.high),
        outcome=PASSED if has_passed else FAILED,
        reason=(
            f"the worst of {len(judged_parts)} parts is {worst_part.part} ({worst_part.rows} rows): "
            f"{worst_part.value:.4f} [{worst_part.low:.4f}, {worst_part.high:.4f}] is "
            f"{'not significantly' if has_passed else 'significantly'} below {bound:.4f} "
            f"(p = {worst_part.p_value:.3g}, Holm); {len(table) - len(judged_parts)} parts could not be judged"
        ),
    )
