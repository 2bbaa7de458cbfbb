"""Decide of what people are notified: thresholds of budgets, forecasts beyond a budget, anomalies. Once each.

A notice is written to the lake's table `cost_notices`, with the DAG run that reports it, before anybody is notified.
So no other run reports it again. A retry of the same run gets the same notices again. So a task that was killed after
the write loses none, and each notice is repeated only if the task was killed after the message was sent, or is cleared.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from pipelines.costs.charges import format_usd
from pipelines.costs.daily.anomalies import JudgedDay
from pipelines.costs.showback.budget_states import BudgetState
from pipelines.costs.showback.summary import describe_anomaly
from pipelines.lake import DATE_COLUMN, Lake
from pipelines.lake.month_table import MonthTable, TableVersion, get_month

TABLE = "cost_notices"
_TEXT = pa.string()
SCHEMA = pa.schema(
    [
        (DATE_COLUMN, pa.date32()),  # first day of the month of `at`
        ("at", pa.timestamp("us", tz="UTC")),
        *((name, _TEXT) for name in ("kind", "project", "subject")),
        ("budget_usd", pa.float64()),  # null of an anomaly
        ("threshold_percent", pa.int32()),  # 0 of a forecast and of an anomaly
        ("text", _TEXT),
        ("run", _TEXT),
    ]
)


class Notice(BaseModel):
    """Something about the costs of a project of which people are notified once."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    kind: Literal["threshold", "forecast", "anomaly"]
    """What happened."""
    project: str
    """Project that pays."""
    subject: str
    """Month, YYYY-MM, or day of the anomaly, YYYY-MM-DD."""
    budget_usd: float | None = None
    """Budget, USD; null of an anomaly. If it is changed, its thresholds begin anew."""
    threshold_percent: int = 0
    """Threshold that was reached, percent; 0 of a forecast and of an anomaly."""
    text: str
    """The notice in a sentence."""

    def is_covered_by(self, row: Mapping[str, Any]) -> bool:
        """Return whether a stored notice says the same: of the same budget, the same or a higher threshold."""
        names = ("kind", "project", "subject", "budget_usd")
        is_same = all(getattr(self, name) == row[name] for name in names)
        return bool(is_same and row["threshold_percent"] >= self.threshold_percent)


def list_budget_notices(states: Iterable[BudgetState], thresholds_percent: Sequence[int]) -> list[Notice]:
    """List a notice for the highest threshold that each project has reached, and for each forecast beyond a budget.

    Of a project that has spent its budget, there is no forecast.
    """
    notices = []
    for state in states:
        fields: dict[str, Any] = {"project": state.project, "subject": state.month, "budget_usd": state.budget_usd}
        budget = f"its {format_usd(state.budget_usd)} for {state.month}"
        reached = [percent for percent in thresholds_percent if state.used_percent >= percent and state.spent_usd]
        if reached:
            text = f"{state.project} has spent {format_usd(state.spent_usd)}, {state.used_percent:.0f} % of {budget}"
            notices.append(Notice(kind="threshold", threshold_percent=max(reached), text=text, **fields))
        if state.forecast_usd is not None and state.forecast_usd > state.budget_usd >= state.spent_usd:
            text = (
                f"{state.project} will have spent about {format_usd(state.forecast_usd)} of {budget}, if it goes on so"
            )
            notices.append(Notice(kind="forecast", text=text, **fields))
    return notices


def list_anomaly_notices(judged_days: Mapping[str, Sequence[JudgedDay]]) -> list[Notice]:
    """List a notice for each day that is an anomaly and follows one that is none: a jump that lasts gives one notice.

    Args:
        judged_days: project to its last days, oldest first. Of the first day there is no notice, since the day before
            it is not known.
    """
    return [
        Notice(kind="anomaly", project=project, subject=day.day, text=describe_anomaly(project, day))
        for project, days in judged_days.items()
        for previous_day, day in pairwise(days)
        if day.is_anomaly and not previous_day.is_anomaly
    ]


class NoticeTable:
    """The table of the notices that were reported."""

    def __init__(self, months: MonthTable) -> None:
        self._months = months

    @classmethod
    def open(cls, lake: Lake | None = None) -> NoticeTable:
        """Open the table in the configured lake, or in another `lake`.

        Raises:
            ConflictError: the lake's catalog stayed locked. A retry can help.
        """
        return cls((lake or Lake.open()).get_month_table(TABLE, SCHEMA))

    def claim(self, notices: Sequence[Notice], run: str, now: dt.datetime) -> list[Notice]:
        """Write the notices that nobody has reported yet, and return those that this run has to report.

        Idempotent for a run: a retry gets the notices that its earlier try has written, too.

        Args:
            notices: what could be reported.
            run: DAG run that reports them, DAG/RUN. If it is empty, a person only looks: nothing is written, and the
                next run reports the notices.
            now: the current moment.

        Raises:
            ConflictError: other writers kept changing the table. A retry can help.
        """
        reported_rows = self._months.read().to_pylist()

        def add(version: TableVersion) -> list[Notice]:
            month = get_month(now)
            month_table = version.read_month(month)
            earlier_rows = [row for row in reported_rows if row[DATE_COLUMN] != month]
            stored_rows = [*earlier_rows, *month_table.to_pylist()]
            new_notices = [item for item in notices if not any(map(item.is_covered_by, stored_rows))]
            if new_notices and run:
                rows = [{**item.model_dump(), DATE_COLUMN: month, "at": now, "run": run} for item in new_notices]
                new_table = pa.Table.from_pylist(rows, schema=SCHEMA)
                version.replace_month(month, pa.concat_tables([month_table, new_table]))
            own_notices = [_to_notice(row) for row in stored_rows if run and row["run"] == run]
            return [*own_notices, *new_notices]

        return self._months.update(add)


def _to_notice(row: Mapping[str, Any]) -> Notice:
    return Notice(**{name: row[name] for name in Notice.model_fields})
