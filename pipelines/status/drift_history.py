"""Read the decisions about drift of all models, and the largest effects of each week, in one query each."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pipelines.lake import connect
from pipelines.lake.catalog import find_table
from pipelines.lake.remembering import RememberingLake
from pipelines.monitoring import results_table
from pipelines.settings import settings
from pipelines.status.documents.model import DriftWeek
from pipelines.status.documents.models import DriftDecision
from pipelines.status.performance import get_week
from pipelines.status.texts import shorten

WEEKS = 53
LAST_DAY = dt.date(9999, 12, 31)
DECISIONS = """
SELECT model_name AS model, model_version AS version, date AS day, any_value(outcome) AS outcome,
    any_value(reasons) AS reasons, list(DISTINCT name ORDER BY name) FILTER (drifted) AS drifted_columns
FROM findings GROUP BY ALL ORDER BY day, version
"""
EFFECTS = """
SELECT model_name AS model, date_trunc('week', date)::DATE AS week, name AS name, max(effect / bound) AS effect
FROM findings WHERE bound > 0 AND isfinite(effect) AND isfinite(bound) GROUP BY ALL
"""
"""DuckDB's weeks begin on Mondays."""


@dataclass(frozen=True)
class DriftHistory:
    """What was found about the drift of a model."""

    decisions: tuple[dict[str, Any], ...] = ()
    """Rows of `DECISIONS`, oldest day first."""
    effects: tuple[dict[str, Any], ...] = ()
    """Rows of `EFFECTS`."""

    def list_weeks(self, model: str, last: dt.date | None) -> list[DriftWeek]:
        """List the weeks in which drift was decided, oldest first.

        Args:
            model: registered model.
            last: newest day of the data; None: the last decision. The weeks are the last `WEEKS` up to it.
        """
        if not self.decisions:
            return []
        newest = max(last or dt.date.min, self.decisions[-1]["day"])
        weeks: dict[dt.date, list[dict[str, Any]]] = {}
        for row in self.decisions:
            if row["day"] > newest - dt.timedelta(weeks=WEEKS):
                weeks.setdefault(get_week(row["day"]), []).append(row)
        effects: dict[dt.date, dict[str, float]] = {}
        for row in self.effects:
            effects.setdefault(row["week"], {})[row["name"]] = round(row["effect"], 4)
        return [
            DriftWeek(
                week=week,
                decisions=[make_decision(model, row) for row in rows],
                effects=dict(sorted(effects.get(week, {}).items())),
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

    The files are read by DuckDB, which needs a fraction of pyiceberg's time for many small files.

    Returns:
        Model to its history; models without a decision are left out.
    """
    return lake.remember(results_table.TABLE, ("histories", first), lambda: _read(lake, first))


def make_decision(model: str, row: dict[str, Any]) -> DriftDecision:
    """Make the decision of a row of `DECISIONS`."""
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
    if find_table(lake.catalog, results_table.TABLE) is None:
        return {}
    with (
        connect() as connection,
        lake.create_view(connection, "findings", results_table.TABLE, first, LAST_DAY),
    ):
        decisions, effects = (connection.sql(query).arrow().read_all().to_pylist() for query in (DECISIONS, EFFECTS))
    by_model = {row["model"] for row in decisions}
    return {model: DriftHistory(_select(decisions, model), _select(effects, model)) for model in by_model}


def _select(rows: Iterable[dict[str, Any]], model: str) -> tuple[dict[str, Any], ...]:
    return tuple(row for row in rows if row["model"] == model)
