"""Read the rows of requests from the files of `serve --record` or of the step `collect`, as tables of the same form.

A table has the key, the features and the score of each row. Columns of the key have a prefix, since a feature may have
the same name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.features.building import build_feature_schema
from pipelines.lake import Lake
from pipelines.score_columns import SCORE, SCORES
from pipelines.scored_rows import list_stored_scores

SCORE_TEXT = "leeway.score"
"""Column with a row's score as a JSON text, for every task. Two texts are equal if the scores are bit-identical."""
HINT = "Run `collect` again: it writes the file."


def build_request_schema(lake: Lake, dataset: Dataset) -> pa.Schema:
    """Return the schema of the tables: key, features and score."""
    schema = build_feature_schema(dataset, lake.read_schema(dataset.table))
    keys = [pa.field(name_key_column(name), schema.field(name).type) for name in dataset.key]
    features = [pa.field(name, schema.field(name).type) for name in dataset.features]
    return pa.schema([*keys, *features, pa.field(SCORE_TEXT, pa.string())])


def build_recorded_table(lake: Lake, dataset: Dataset, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return the table of rows that `read_recorded_rows` yields."""
    schema = build_request_schema(lake, dataset)
    columns: dict[str, list[Any]] = {
        name_key_column(name): [row["key"].get(name) for row in rows] for name in dataset.key
    }
    columns |= {name: [row["features"].get(name) for row in rows] for name in dataset.features}
    columns[SCORE_TEXT] = format_scores(row["score"] for row in rows)
    # A recorded row has a date or a time as text.
    arrays = [
        pa.array(columns[field.name], pa.string()).cast(field.type)
        if pa.types.is_temporal(field.type)
        else pa.array(columns[field.name], field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def read_collected_table(lake: Lake, dataset: Dataset, path: Path) -> pa.Table:
    """Return the table of the rows in a file of the step `collect`.

    Raises:
        DataError: the file cannot be read, or lacks a column. A retry cannot help.
    """
    schema = build_request_schema(lake, dataset)
    columns = [*dataset.key, *dataset.features, *list_stored_scores(dataset)]
    try:
        with pq.ParquetFile(path) as file:
            rows = file.read(list(dict.fromkeys(columns)))
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} cannot be read: {' '.join(str(error).split())[:200]}.", HINT) from None
    if missing_names := [name for name in columns if name not in rows.column_names]:
        raise DataError(f"{path} lacks the columns {', '.join(missing_names)}.", HINT)
    arrays = {name_key_column(name): rows[name] for name in dataset.key} | {
        name: rows[name] for name in dataset.features
    }
    return pa.table({**arrays, SCORE_TEXT: pa.array(format_stored_scores(rows), pa.string())}).cast(schema)


def format_scores(scores: Iterable[Any]) -> list[str]:
    """Return each score, a number or an object by class or quantile, as a JSON text."""
    return [json.dumps(score, sort_keys=True) for score in scores]


def format_stored_scores(rows: pa.Table) -> list[str]:
    """Return each score as a JSON text: the map of all classes or quantiles if there is one, else the number."""
    numbers = rows[SCORE].to_pylist()
    maps = rows[SCORES].to_pylist() if SCORES in rows.column_names else [None] * len(numbers)
    return format_scores(dict(values) if values else number for number, values in zip(numbers, maps, strict=True))


def name_key_column(name: str) -> str:
    """Return the name that a column of the key has in a table."""
    return f"leeway.key.{name}"
