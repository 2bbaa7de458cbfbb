"""Compare what requests saw with what the lake says of the same rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from pipelines.container.inference import list_scores
from pipelines.dataset import Dataset
from pipelines.lake import Lake, connect
from pipelines.partitions import Partition
from pipelines.scoring.scores import Scorer, read_rows, score_features
from pipelines.system.duckdb_session import quote_identifier

SCORE = "leeway.score"
"""Column with a row's score as a JSON text, for every task: equal texts are equal bits."""


class Skew(NamedTuple):
    """How rows of requests differ from those of the lake."""

    rows: int
    """Rows of requests that the lake has."""
    unmatched: int
    """Rows of requests that the lake does not have, or whose key is incomplete."""
    differing: Mapping[str, int]
    """Feature, or `SCORE`, to the number of rows in which its value is another."""


def find_skew(
    lake: Lake, dataset: Dataset, partition: Partition, rows: Sequence[Mapping[str, Any]], scorer: Scorer
) -> Skew:
    """Compare recorded rows with the features and scores that the lake's rows of a partition have. Missing is a value.

    Args:
        lake: lake with the published rows.
        dataset: dataset of the rows.
        partition: partition of all rows.
        rows: recorded rows, as `read_recorded_rows` yields them.
        scorer: scores rows of features by the version that scored the recorded rows.
    """
    expected = _read_expected(lake, dataset, partition, scorer)
    recorded = _build_table(dataset, rows, expected.schema)
    columns = [*dataset.features, SCORE]
    differences = ", ".join(
        f"count(*) FILTER (recorded.{quote_identifier(name)} IS DISTINCT FROM expected.{quote_identifier(name)})"
        for name in columns
    )
    condition = " AND ".join(f"recorded.{name} = expected.{name}" for name in map(_quote_key, dataset.key))
    with connect() as connection:
        connection.register("recorded", recorded).register("expected", expected)
        query = f"SELECT count(*), {differences} FROM recorded JOIN expected ON {condition}"  # noqa: S608
        counts = connection.sql(query).fetchall()[0]
    return Skew(counts[0], len(rows) - counts[0], dict(zip(columns, counts[1:], strict=True)))


def _read_expected(lake: Lake, dataset: Dataset, partition: Partition, scorer: Scorer) -> pa.Table:
    """Return key, features and score of each row of the partition, as the lake has it."""
    names = list(dataset.features)
    with read_rows(lake, dataset, partition) as (schema, batches):
        tables = []
        for batch in batches:
            scores = _format_scores(list_scores(score_features(dataset, batch, scorer)))
            columns = {_name_key(name): batch[name] for name in dataset.key} | {name: batch[name] for name in names}
            tables.append(pa.table({**columns, SCORE: pa.array(scores, pa.string())}))
        fields = [pa.field(_name_key(name), schema.field(name).type) for name in dataset.key]
        fields += [pa.field(name, schema.field(name).type) for name in names]
    return pa.concat_tables(tables) if tables else pa.schema([*fields, pa.field(SCORE, pa.string())]).empty_table()


def _build_table(dataset: Dataset, rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    columns: dict[str, list[Any]] = {_name_key(name): [row["key"].get(name) for row in rows] for name in dataset.key}
    columns |= {name: [row["features"].get(name) for row in rows] for name in dataset.features}
    columns[SCORE] = _format_scores(row["score"] for row in rows)
    # A day or a time is a text in a recorded row.
    arrays = [
        pa.array(columns[field.name], pa.string()).cast(field.type)
        if pa.types.is_temporal(field.type)
        else pa.array(columns[field.name], field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _format_scores(scores: Iterable[Any]) -> list[str]:
    return [json.dumps(score, sort_keys=True) for score in scores]


def _name_key(name: str) -> str:
    return f"leeway.key.{name}"


def _quote_key(name: str) -> str:
    return quote_identifier(_name_key(name))
