"""Read the drift decisions about all models, and find the largest effects of each week."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipelines.lake.cached import CachedLake, FileQuery, Record
from pipelines.monitoring import results_table
from pipelines.settings import settings
from pipelines.status.documents.model import DriftWeek
from pipelines.status.documents.models import DriftDecision
from pipelines.status.performance import get_week_start
from pipelines.status.texts import shorten

WEEKS = 53
"""Number of weeks of data in the history."""
QUERY = FileQuery(
    """
SELECT filename, model_name AS model, model_version AS version, date AS day, any_value(outcome) AS outcome,
    any_value(reasons) AS reasons, list(DISTINCT name ORDER BY name) FILTER (drifted) AS drifted_columns,
    list({'name': name, 'effect': effect / bound})
        FILTER (bound > 0 AND isfinite(effect) AND isfinite(bound)) AS effects
FROM files GROUP BY ALL
""",
    ("date", "model_name", "model_version", "name", "effect", "bound", "drifted", "outcome", "reasons"),
)
"""Selects a row for each decision about a version: the decision itself, the columns that drifted, and the effects of
all measures as multiples of their bounds. The day is the last day of the window."""


@dataclass(frozen=True)
class DriftHistory:
    """The drift decisions about one model."""

    decisions: Sequence[Record] = ()
    """Rows of `QUERY`, oldest day first."""

    def list_weeks(self, model: str, last: dt.date | None) -> list[DriftWeek]:
        """List the weeks that have a decision, of the `WEEKS` weeks up to the newest day; oldest week first.

        Args:
            model: registered model.
            last: newest day of the data. If it is None or before the last decision, the day of that decision is used.
        """
        if not self.decisions:
            return []
        newest_day = max(last or dt.date.min, self.decisions[-1]["day"])
        weeks: dict[dt.date, list[Record]] = {}
        for row in self.decisions:
            if row["day"] > newest_day - dt.timedelta(weeks=WEEKS):
                weeks.setdefault(get_week_start(row["day"]), []).append(row)
        return [
            DriftWeek(
                week=week,
                decisions=[make_decision(model, row) for row in rows],
                effects=_find_largest_effects(rows),
                drifted_columns=sorted({name for row in rows for name in row["drifted_columns"] or ()}),
            )
            for week, rows in weeks.items()
        ]

    def find_last_decision(self, model: str, version: str) -> DriftDecision | None:
        """Return the last decision about a version; None if there is none."""
        rows = [row for row in self.decisions if row["version"] == version]
        return make_decision(model, rows[-1]) if rows else None


def read_drift_histories(lake: CachedLake, first: dt.date) -> dict[str, DriftHistory]:
    """Read the drift decisions about all models from a day on.

    Returns:
        Model to its history; models without a decision are left out.
    """
    return lake.get_or_read(results_table.TABLE, ("histories", first), lambda: _read(lake, first))


def make_decision(model: str, row: Record) -> DriftDecision:
    """Convert a row of `QUERY` to a decision."""
    day = str(row["day"])
    page = settings().home / "docs" / "drift" / model / day / "drift.html"
    return DriftDecision(
        day=row["day"],
        outcome=row["outcome"],
        reasons=shorten((row["reasons"] or "").replace("\n", "; ")),
        version=row["version"],
        report_url=settings().build_drift_url(model, day) if page.is_file() else "",
    )


def _read(lake: CachedLake, first: dt.date) -> dict[str, DriftHistory]:
    decisions: dict[str, list[Record]] = {}
    for record in lake.read_file_records(results_table.TABLE, QUERY, first):
        decisions.setdefault(record["model"], []).append(record)
    # Versions are whole numbers, as texts: a shorter text is a smaller number.
    return {
        model: DriftHistory(sorted(rows, key=lambda row: (row["day"], len(row["version"]), row["version"])))
        for model, rows in decisions.items()
    }


def _find_largest_effects(rows: Iterable[Record]) -> dict[str, float]:
    """Map each column to the largest effect of its measures, as a multiple of the bound; sorted by column."""
    effects: dict[str, float] = {}
    for row in rows:
        for item in row["effects"] or ():
            effects[item["name"]] = max(round(item["effect"], 4), effects.get(item["name"], 0.0))
    return dict(sorted(effects.items()))
