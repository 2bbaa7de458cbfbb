"""Find what people have to be notified of: thresholds of budgets, forecasts above a budget, and anomalies."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from pipelines.costs.charges import format_usd
from pipelines.costs.daily.anomalies import JudgedDay
from pipelines.costs.report import UNALLOCATED
from pipelines.costs.showback.budget_states import BudgetState
from pipelines.costs.showback.notice import Notice
from pipelines.costs.showback.summary import describe_anomaly


def list_budget_notices(states: Iterable[BudgetState], thresholds_percent: Sequence[int]) -> list[Notice]:
    """List a notice for the highest threshold that each project has reached, and for each forecast above a budget.

    A project that has exceeded its budget has no notice of a forecast.
    """
    notices = []
    for state in states:
        fields: dict[str, Any] = {"project": state.project, "subject": state.month, "budget_usd": state.budget_usd}
        project = state.project or UNALLOCATED
        budget = f"its {format_usd(state.budget_usd)} for {state.month}"
        used_percent = state.used_percent if state.spent_usd else -1.0  # -1: no threshold is reached
        reached_thresholds = [percent for percent in thresholds_percent if used_percent >= percent]
        if reached_thresholds:
            text = f"{project} has spent {format_usd(state.spent_usd)}, {math.floor(state.used_percent)} % of {budget}"
            notices.append(Notice(kind="threshold", threshold_percent=max(reached_thresholds), text=text, **fields))
        if state.forecast_usd is not None and state.forecast_usd > state.budget_usd >= state.spent_usd:
            text = f"{project} will have spent about {format_usd(state.forecast_usd)} of {budget} at the present rate"
            notices.append(Notice(kind="forecast", text=text, **fields))
    return notices


def list_anomaly_notices(judged_days: Mapping[str, Sequence[JudgedDay]]) -> list[Notice]:
    """List a notice for each day that is an anomaly, unless the day before it is one, too.

    Args:
        judged_days: each project with its last days, oldest first. The first day has no notice, since the day
            before it is not known.
    """
    return [
        Notice(kind="anomaly", project=project, subject=day.day, text=describe_anomaly(project, day))
        for project, days in judged_days.items()
        for previous_day, day in pairwise(days)
        if day.is_anomaly and not previous_day.is_anomaly
    ]
