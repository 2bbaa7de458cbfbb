"""Joins the labels of a published partition to its predictions.

Of every version of the model that scored the day; rows whose label is not known yet are left out, and counted. Late or
corrected labels come with another publication of the partition, and replace what was there. Idempotent.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from pipelines.contract import Result, Spec
from pipelines.dataset import Dataset, dataset
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.lake import Lake

_COUNTED = """
SELECT count(*), count(known.{label}) FROM scored LEFT JOIN known USING ({key}) WHERE scored.model_name = ?
"""
_JOINED = """
SELECT {key}, known.{label} AS label, scored.score, scored.model_name, scored.model_version
FROM scored JOIN known USING ({key}) WHERE scored.model_name = ? AND known.{label} IS NOT NULL
ORDER BY model_version, {key}
"""


class OutcomesSpec(Spec):
    """One scored partition whose labels may be known."""

    dataset: str = "flights"
    """Dataset whose published table holds the labels."""
    model_name: str
    """Registered model whose predictions they are joined to."""
    partition: dt.date
    """Day of both (YYYY-MM-DD)."""


class OutcomesResult(Result):
    """Predictions with their labels."""

    table: str
    """Table of the outcomes."""
    partition: dt.date
    """Day of both."""
    model_name: str
    """Registered model."""
    outcomes: int = 0
    """Predictions whose label is known, of all versions that scored the day."""
    unlabelled: int = 0
    """Predictions whose label is not: not yet, or never."""
    changed: bool = False
    """False where the same outcomes were there already."""
    reason: str = ""
    """Why there are none, in a line."""


def run(spec: OutcomesSpec) -> OutcomesResult:
    """The partition's outcomes are the labels that are published now, with the predictions that are there now.

    Raises:
        DataError: the partition is not published. A retry helps once it is.
        ConflictError: the catalog stayed busy. A retry can help.
    """
    from pipelines.lake import Lake
    from pipelines.scoring.predictions import current, demand_published

    chosen, lake = dataset(spec.dataset), Lake.open()
    demand_published(lake, chosen, spec.partition)
    tables = [chosen.published, chosen.predictions]
    if lake.count_rows_of_days(chosen.predictions, [spec.partition]):
        result = current(lake, tables, spec.partition, lambda: _joined(lake, chosen, spec))
    else:
        result = _none(chosen, spec, 0)
    told = result.reason or f"{result.outcomes} predictions with their label, {result.unlabelled} without"
    log.info("%s %s: %s", chosen.name, spec.partition, told)
    return result


def _joined(lake: Lake, chosen: Dataset, spec: OutcomesSpec) -> OutcomesResult:
    from pipelines.lake import connect
    from pipelines.scoring.predictions import MODEL, VERSION
    from pipelines.system.duckdb_session import quote_identifier

    day, part = spec.partition, {MODEL: spec.model_name}
    names = {"key": ", ".join(map(quote_identifier, chosen.key)), "label": quote_identifier(chosen.label)}
    with (
        connect() as connection,
        lake.create_view(connection, "scored", chosen.predictions, day, day),
        lake.create_view(connection, "known", chosen.published, day, day),
    ):
        ((scored, known),) = connection.sql(_COUNTED.format(**names), params=[spec.model_name]).fetchall()
        if not known:
            cleared = lake.clear_partition(chosen.outcomes, day, part)
            return _none(chosen, spec, scored).model_copy(update={"changed": cleared})
        # Closed before the views are dropped, which DuckDB 2.0 does not do under an open result.
        with connection.sql(_JOINED.format(**names), params=[spec.model_name]).to_arrow_reader() as rows:
            commit = lake.write_partition(chosen.outcomes, day, rows, (*chosen.key, VERSION), part=part)
    return OutcomesResult(
        table=chosen.outcomes,
        partition=day,
        model_name=spec.model_name,
        outcomes=known,
        unlabelled=scored - known,
        changed=commit.changed,
    )


def _none(chosen: Dataset, spec: OutcomesSpec, scored: int) -> OutcomesResult:
    day, name = spec.partition, spec.model_name
    reason = f"none of the {scored} predictions has a label yet." if scored else f"{name} has no predictions of {day}."
    return OutcomesResult(table=chosen.outcomes, partition=day, model_name=name, unlabelled=scored, reason=reason)
