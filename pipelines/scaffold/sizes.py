"""Choose windows, gates and drift policies by the size of the data: days, rows a day, classes."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.dataset import Task
from pipelines.errors import DataError
from pipelines.scaffold.plan import Plan

MIN_DAYS = 28
"""Smallest number of days, without the delay of the labels: two weeks to train on, ten days to evaluate on, and four to
spare."""
MIN_GROUPS = 10
"""Number of days that a holdout should have, because the gate groups its rows by day."""
HOLDOUT_ROWS = 2_000
"""Rows that a holdout should have: with fewer, confidence intervals are wide."""
MAX_TRAIN_DAYS = 365
"""Longest training window, days."""
WINDOW_ROWS = 500
"""Rows that a window of drift should have."""
TIME_OF_DAY_ROWS = 50
"""Smallest mean number of rows a day with which a lack of rows in the last hours shows that the day is truncated."""


@dataclass(frozen=True)
class Sizes:
    """The size of the data, and what follows from it."""

    first: dt.date
    """First day of the sample."""
    last: dt.date
    """Last day of the sample with a label."""
    days: int
    """Number of days from the first to the last, both included."""
    days_with_rows: int
    """Number of days with rows, also of days after the last one with a label."""
    rows: int
    """Number of rows with a label."""
    rows_per_day: float
    """Mean number of rows with a label on a day."""
    holdout_days: int
    """Length of the holdout, days."""
    train_days: int
    """Length of the training window, days."""
    validation_days: int
    """Days of the training window that are used for early stopping."""
    max_missing_days: int
    """Largest accepted number of days without rows in a window."""
    as_of: dt.date
    """Moment of the first training."""

    @property
    def min_train_days(self) -> int:
        """Smallest accepted number of training days."""
        return max(7, min(14, self.train_days // 2))


def measure(plan: Plan) -> Sizes:
    """Measure the data, and choose the windows.

    Raises:
        DataError: the sample has too few days from its first day to the last one with a label. A retry cannot help.
    """
    delay = plan.request.label_delay_days
    labelled_days = plan.days.filter(plan.label.values.is_valid())
    rows_by_day = Counter(labelled_days.to_pylist())
    all_days = sorted(set(plan.days.to_pylist()))
    first, last = all_days[0], max(rows_by_day)
    days = (last - first).days + 1
    if days < MIN_DAYS + 2 * delay:
        message = f"{plan.sample.origin} has {days} days with labels, from {first} to {last}: a model needs {MIN_DAYS}"
        raise DataError(f"{message} and twice the delay of the labels.", "Give a source with more days.")
    rows = len(labelled_days)
    rows_per_day = rows / days
    holdout_days = min(max(math.ceil(HOLDOUT_ROWS / rows_per_day), 14), max(MIN_GROUPS, days // 3))
    train_days = min(days - holdout_days - delay, MAX_TRAIN_DAYS)
    gap_days = days - len([day for day in all_days if day <= last])
    return Sizes(
        first=first,
        last=last,
        days=days,
        days_with_rows=len(all_days),
        rows=rows,
        rows_per_day=rows_per_day,
        holdout_days=holdout_days,
        train_days=train_days,
        validation_days=min(max(train_days // 8, 2), 28),
        max_missing_days=math.ceil(1.2 * gap_days) if gap_days else 0,  # 20 % more than the sample has
        as_of=last + dt.timedelta(days=delay + 1),
    )


def choose_hyperparameters(plan: Plan, sizes: Sizes) -> dict[str, Any]:
    """Choose the hyperparameters of the default training: few rows get small trees."""
    is_small = sizes.rows < 20_000
    return {
        "num_round": 400,
        "early_stopping_rounds": 30,
        "max_depth": 4 if is_small else 6,
        "eta": 0.05,
        "min_child_weight": 5 if is_small else 20,
        "seed": 13,
    }


def choose_gate(plan: Plan, sizes: Sizes) -> dict[str, Any]:
    """Choose the policy of the gate."""
    holdout_rows = int(sizes.rows_per_day * sizes.holdout_days)
    min_groups = max(2, min(MIN_GROUPS, int(sizes.holdout_days * sizes.days_with_rows / sizes.days) - 2))
    policy: dict[str, Any] = {
        "group_by": "date",
        "min_groups": min_groups,
        "min_rows": max(100, min(5_000, holdout_rows // 2)),
        "bounds": BOUNDS[plan.label.task],
        "baseline": ["rmse" if plan.label.task == "regression" else "log_loss"],
        "champion": [CHAMPION_COMPARISONS[plan.label.task]],
        # If a column predicts better than the strongest column of the sample, it is probably a leak.
        "max_solo_auc": round(min(0.99, max(0.75, plan.max_single_column_auc + 0.05)), 2),
        "serving": {"max_skew": 1.0e-6, "max_mb": 100},
    }
    has_weeks = sizes.rows_per_day * 7 >= 200 and sizes.holdout_days >= 14
    policy["stability"] = dict(STABILITY[plan.label.task], min_rows=200) if has_weeks else None
    return policy


# The bounds, the comparison with the champion, and the check of the weeks in the gate's policy, by task.
BOUNDS: Mapping[Task, dict[str, dict[str, float]]] = {
    "binary": {"auc": {"at_least": 0.52}},
    "multiclass": {"macro_auc": {"at_least": 0.52}},
    "regression": {"r2": {"at_least": 0.0}},
}
CHAMPION_COMPARISONS: Mapping[Task, dict[str, Any]] = {
    "binary": {"metric": "auc", "margin": 0.02},
    "multiclass": {"metric": "macro_auc", "margin": 0.02},
    "regression": {"metric": "r2", "margin": 0.02},
}
STABILITY: Mapping[Task, dict[str, float]] = {
    "binary": {"max_drop": 0.15},
    "multiclass": {"max_drop": 0.15},
    "regression": {"max_drop": 1.0},
}


MAX_LABEL_DELAY = 7
"""Longest delay of labels, days, with which a loss of performance is measured soon enough."""
MEASURED_DRIFT: Mapping[Task, dict[str, float]] = {
    "binary": {"label_rate": 0.05, "auc": 0.05},
    "multiclass": {"recall": 0.1},
    "regression": {"mae": 0.1},
}
"""Bounds of the drift of measured values, which need labels, by task."""
ESTIMATED_DRIFT: Mapping[Task, dict[str, float]] = {
    "binary": {"estimated_auc": 0.05},
    "multiclass": {"estimated_accuracy": 0.05, "estimated_macro_auc": 0.05},
    "regression": {"estimated_mae": 0.1},
}
"""Bounds of the drift of the performance that is estimated without labels, by task."""


def choose_drift(plan: Plan, sizes: Sizes) -> dict[str, Any]:
    """Choose the windows and the policy of drift: few rows a day need long windows."""
    delay = plan.request.label_delay_days
    window_days = min(max(7 * math.ceil(WINDOW_ROWS / sizes.rows_per_day / 7), 14), 56)
    bounds = {"psi": 0.1, "missing": 0.05, "unseen": 0.05, **MEASURED_DRIFT[plan.label.task]}
    if delay > MAX_LABEL_DELAY:  # labels come too late to show a loss, so it is estimated without them
        bounds |= ESTIMATED_DRIFT[plan.label.task]
    return {
        "window_days": window_days,
        "label_delay_days": delay,
        "retrain_on": "performance" if delay <= MAX_LABEL_DELAY else "any",
        "policy": {
            "false_alarms_per_year": 1,
            "bounds": bounds,
            "at_least": 3,
            "of_last": 5,
            "min_rows": max(50, min(1_000, int(sizes.rows_per_day * window_days / 2))),
        },
    }
