"""Read the decisions about drift of all models, and the largest effects of each week."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipelines.lake.remembering import FileQuery, Record, RememberingLake
from pipelines.monitoring import results_table
from pipelines.settings import settings
from pipelines.status.documents.model import DriftWeek
from pipelines.status.documents.models import DriftDecision
from pipelines.status.performance import get_week
from pipelines.status.texts import shorten

WEEKS = 53
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
"""Selects the decision of each day and version, with the effects of all measures as multiples of their bounds."""


@dataclass(frozen=True)
class DriftHistory:
    """What was found about the drift of a model."""

    decisions: Sequence[Record] = ()
    """Results of `QUERY`, oldest day first."""

    def list_weeks(self, model: str, last: dt.date | None) -> list[DriftWeek]:
        """List the weeks in which drift was decided, oldest first.

        Args:
            model: registered model.
            last: newest day of the data; None: the last decision. The weeks are the last `WEEKS` up to it.
        """
        if not self.decisions:
            return []
        newest = max(last or dt.date.min, self.decisions[-1]["day"])
        weeks: dict[dt.date, list[Record]] = {}
        for row in self.decisions:
            if row["day"] > newest - dt.timedelta(weeks=WEEKS):
                weeks.setdefault(get_week(row["day"]), []).append(row)
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


def read_drift_histories(lake: RememberingLake, first: dt.date) -> dict[str, DriftHistory]:
    """Read the drift of all models from a day on.

    Returns:
        Model to its history; models without a decision are left out.
    """
    return lake.remember(results_table.TABLE, ("histories", first), lambda: _read(lake, first))


def make_decision(model: str, row: Record) -> DriftDecision:
    """Make the decision of a result of `QUERY`."""
    day = str(row["day"])
    page = settings().home / "docs" / "drift" / model / day / "drift.html"
    return DriftDecision(
        day=row["day"],
        outcome=row["outcome"],
        reasons=shorten((row["reasons"] or "").replace("\n", "; ")),
        version=row["version"],
        report_url=settings().build_drift_url(model, day) if page.is_file() else "",
    )


def _read(lake: RememberingLake, first: dt.date) -> dict[str, DriftHistory]:
    decisions: dict[str, list[Record]] = {}
    for record in lake.read_file_records(results_table.TABLE, QUERY, first):
        decisions.setdefault(record["model"], []).append(record)
    # Versions are numbers; a shorter text is a smaller one.
    return {
        model: DriftHistory(sorted(rows, key=lambda row: (row["day"], len(row["version"]), row["version"])))
        for model, rows in decisions.items()
    }


def _find_largest_effects(rows: Iterable[Record]) -> dict[str, float]:
    """Return each column with its largest effect, as a multiple of the bound; sorted by column."""
    effects: dict[str, float] = {}
    for row in rows:
        for item in row["effects"] or ():
            effects[item["name"]] = max(round(item["effect"], 4), effects.get(item["name"], 0.0))
    return dict(sorted(effects.items()))
