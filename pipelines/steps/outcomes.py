"""Join the labels of a published partition with its predictions, or with the scores that endpoints returned.

The predictions of every version that scored the partition are joined. Rows without a label are counted and left out. If
the partition was published again with late or corrected labels, another run replaces its outcomes. Idempotent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.contract import Result, Spec
from pipelines.dataset import Dataset, load_dataset
from pipelines.partitions import PartitionKey
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.lake import Lake

ENDPOINT_COLUMNS = ("endpoint", "variant")
"""Columns of DATASET_requests with the names of the endpoint and the variant that answered."""
_COUNT_SQL = """
SELECT count(*), count(labels.label) FROM predictions LEFT JOIN ({labels}) AS labels USING ({key})
WHERE predictions.model_name = ?
"""
_JOIN_SQL = """
SELECT {key}, labels.label, {scores}, {origin}
FROM predictions JOIN ({labels}) AS labels USING ({key})
WHERE predictions.model_name = ? AND labels.label IS NOT NULL
ORDER BY {order}, {key}
"""


class OutcomesSpec(Spec):
    """One scored partition whose labels may be known."""

    dataset: str
    """Dataset whose published table holds the labels."""
    model: str
    """Registered model whose predictions are joined."""
    partition: PartitionKey
    """Partition of the labels and the predictions: a day (YYYY-MM-DD), an hour (YYYY-MM-DDTHH) or a month (YYYY-MM)."""
    online: bool = False
    """Whether to join the scores that endpoints returned, from the table DATASET_requests, instead of those of `score`.
    The outcomes are then in the table DATASET_request_outcomes."""


class OutcomesResult(Result):
    """Predictions with their labels."""

    table: str
    """Table of the outcomes."""
    partition: PartitionKey
    """Partition of the labels and the predictions."""
    model_name: str
    """Registered model."""
    outcomes: int = 0
    """Predictions with a label, of all versions that scored the partition."""
    unlabelled: int = 0
    """Predictions without a label: it is not known yet, or it never becomes known."""
    changed: bool = False
    """False if the same outcomes were stored before."""
    reason: str = ""
    """Why there are no outcomes, in one line."""


def run(spec: OutcomesSpec) -> OutcomesResult:
    """Replace the model's outcomes of the partition with its current predictions, joined with the published labels.

    Raises:
        DataError: the partition is not published; a retry helps once it is. Or its labels cannot be computed; a retry
            cannot help.
        ConflictError: the catalog stayed locked. A retry can help.
    """
    from pipelines.lake import Lake
    from pipelines.scoring.predictions import repeat_until_current, require_published

    dataset, lake = load_dataset(spec.dataset), Lake.open()
    require_published(lake, dataset, spec.partition)
    scores_table, _ = _name_tables(dataset, spec)
    if lake.count_rows_of_partitions(scores_table, [spec.partition]):
        tables = [dataset.table, scores_table]
        result = repeat_until_current(lake, tables, spec.partition, lambda: _join_labels(lake, dataset, spec))
    else:
        result = _build_empty_result(dataset, spec, prediction_count=0)
    summary = result.reason or f"{result.outcomes} predictions with a label, {result.unlabelled} without"
    log.info("%s %s: %s", dataset.name, spec.partition, summary)
    return result


def _join_labels(lake: Lake, dataset: Dataset, spec: OutcomesSpec) -> OutcomesResult:
    """Store the model's scores with their labels; if no label is known, remove its outcomes of the partition."""
    from pipelines.features.label_column import build_label_query
    from pipelines.lake import connect
    from pipelines.scored_rows import list_stored_scores
    from pipelines.scoring.predictions import MODEL, VERSION
    from pipelines.system.duckdb_session import quote_identifier

    partition, part_values = spec.partition, {MODEL: spec.model}
    scores_table, outcomes_table = _name_tables(dataset, spec)
    origin = (VERSION, *(ENDPOINT_COLUMNS if spec.online else ()))
    sql_parts = {"key": ", ".join(map(quote_identifier, dataset.key))}
    sql_parts["scores"] = ", ".join(f"predictions.{name}" for name in list_stored_scores(dataset))
    sql_parts["origin"] = ", ".join(f"predictions.{name}" for name in (MODEL, *origin))
    sql_parts["order"] = ", ".join(origin)
    with (
        connect() as connection,
        lake.create_view(connection, "predictions", scores_table, partition, partition),
        lake.create_view(connection, "published", dataset.table, partition, partition),
    ):
        sql_parts["labels"] = build_label_query(dataset, connection, "published")
        ((prediction_count, outcome_count),) = connection.sql(
            _COUNT_SQL.format(**sql_parts), params=[spec.model]
        ).fetchall()
        if not outcome_count:
            was_cleared = lake.clear_partition(outcomes_table, partition, part_values)
            return _build_empty_result(dataset, spec, prediction_count).model_copy(update={"changed": was_cleared})
        # DuckDB 2.0 cannot drop the views while a result is open.
        with connection.sql(_JOIN_SQL.format(**sql_parts), params=[spec.model]).to_arrow_reader() as rows:
            commit = lake.write_partition(
                outcomes_table, partition, rows, (*dataset.key, *origin), part_values=part_values
            )
    return OutcomesResult(
        table=outcomes_table,
        partition=partition,
        model_name=spec.model,
        outcomes=outcome_count,
        unlabelled=prediction_count - outcome_count,
        changed=commit.changed,
    )


def _build_empty_result(dataset: Dataset, spec: OutcomesSpec, prediction_count: int) -> OutcomesResult:
    partition, name = spec.partition, spec.model
    if prediction_count:
        reason = f"none of the {prediction_count} predictions has a label yet."
    else:
        reason = f"{name} has no {'requests' if spec.online else 'predictions'} of {partition}."
    return OutcomesResult(
        table=_name_tables(dataset, spec)[1],
        partition=partition,
        model_name=name,
        unlabelled=prediction_count,
        reason=reason,
    )


def _name_tables(dataset: Dataset, spec: OutcomesSpec) -> tuple[str, str]:
    """Return the names of the table of scores, and of the table of outcomes."""
    from pipelines.scoring.predictions import name_request_outcomes

    online_tables = (dataset.requests, name_request_outcomes(dataset))
    return online_tables if spec.online else (dataset.predictions, dataset.outcomes)
