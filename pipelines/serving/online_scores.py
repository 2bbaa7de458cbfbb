"""Collect the scores of a partition from captured requests, as rows of the same form as the step `score` writes."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.container.serving.raw_rows import RawRows
from pipelines.container.serving.tables import BadRequest, Table
from pipelines.dataset import Dataset
from pipelines.errors import SpecError
from pipelines.features.building import build_feature_schema
from pipelines.features.label_column import build_label_query
from pipelines.lake import Commit, Lake, connect
from pipelines.partitions import Hour, Partition, check_partition, get_date, get_last_day
from pipelines.scored_rows import list_score_fields, list_stored_scores
from pipelines.scoring.scores import append_scores_to_batch
from pipelines.serving.captured_raw_rows import CapturedRawRows
from pipelines.serving.captured_requests import CapturedRequest
from pipelines.settings import settings
from pipelines.system.duckdb_session import quote_identifier, quote_text
from pipelines.window import DAY, Days

EVENT_FIELDS = (
    pa.field("event_id", pa.string()),
    pa.field("inference_id", pa.string()),
    pa.field("requested_at", pa.timestamp("us", tz="UTC")),
    pa.field("latency_ms", pa.float64()),
)
"""Columns about the request that a score belongs to: its ids, its time, and the milliseconds that its scores took."""
SCORE_JSON = "leeway.answer"
"""Column of the file of answers: the score of a row as JSON."""
BATCH_ROWS = 10_000
"""Number of rows that are written or read at once."""

# A captured request has a time in whole seconds. Of two requests in one second, the one captured later is newer.
_NEWEST_SQL = """
SELECT newest.* EXCLUDE (file_row_number), labels.label AS {label} FROM (
    SELECT * FROM read_parquet({path}, file_row_number = true)
    QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY requested_at DESC, file_row_number DESC) = 1
) AS newest LEFT JOIN ({labels}) AS labels USING ({key}) ORDER BY {key}
"""


@dataclass
class RequestCounts:
    """Numbers of captured requests and rows that are used, and of those that are not used, by reason."""

    requests: int = 0
    """Requests that could be read."""
    rows: int = 0
    """Rows of the partition in these requests."""
    unreadable: int = 0
    """Captured lines without rows by column name, or without a score for each row."""
    invalid: int = 0
    """Rows that lack a column of the key or what their features need, or have a value of another type."""
    rows_of_other_partitions: int = 0
    """Rows of other partitions."""


class OnlineRows:
    """Collects the rows of one partition from captured requests.

    Args:
        lake: lake whose published rows give the types of the key, and the labels.
        dataset: dataset of the model.
        partition: partition of the rows.
        raw_rows: computes the features of raw rows.

    Raises:
        DataError: no row of the dataset is published. A retry can help after a partition is published.
    """

    def __init__(self, lake: Lake, dataset: Dataset, partition: Partition, raw_rows: CapturedRawRows) -> None:
        self._lake, self._dataset, self._partition, self._raw_rows = lake, dataset, partition, raw_rows
        self._schema = build_feature_schema(dataset, lake.read_schema(dataset.table))
        self._input_fields = [field for field in self._schema if field.name != dataset.label]
        self._input_names = [field.name for field in self._input_fields]
        # This `RawRows` checks no raw rows. It checks captured rows that already have features: the types of their key
        # and of their features.
        self._feature_row_checker = RawRows(pa.schema(self._input_fields), dataset.key, (), self._input_names)
        self._partition_values: Mapping[str, Any] = {"date": get_date(partition)}
        if isinstance(partition, Hour):
            self._partition_values = {"date": partition.day, "hour": partition.hour}

    def write_answers(self, requests: Iterable[CapturedRequest | None], path: Path) -> RequestCounts:
        """Write key, features and score of each row to a Parquet file. A key may be in several rows.

        Args:
            requests: captured requests; None for a captured line that could not be read.
            path: file to write.
        """
        counts = RequestCounts()
        schema = pa.schema([*self._input_fields, *EVENT_FIELDS, pa.field(SCORE_JSON, pa.string())])
        rows: list[dict[str, Any]] = []
        with pq.ParquetWriter(path, schema) as writer:
            for request in requests:
                rows += self._list_rows(request, counts)
                if len(rows) >= BATCH_ROWS:
                    writer.write_table(pa.Table.from_pylist(rows, schema))
                    rows = []
            writer.write_table(pa.Table.from_pylist(rows, schema))
        return counts

    def write_scored_rows(self, answers: Path, target: Path) -> None:
        """Write the newest row of each key, with its scores, and with its label if it is known, sorted by key.

        Args:
            answers: file that `write_answers` wrote.
            target: file to write. It has the columns of the step `score`'s file of scored rows, and `EVENT_FIELDS`.

        Raises:
            DataError: an answer does not have the classes or quantiles that the task needs. A retry cannot help.
        """
        fields = [*self._schema, *list_score_fields(self._dataset), *EVENT_FIELDS]
        schema = pa.schema(fields, self._schema.metadata)
        with pq.ParquetWriter(target, schema, compression="zstd") as writer:
            for batch in self._read_newest_rows(answers):
                scored_batch = append_scores_to_batch(
                    self._dataset, batch.select(self._schema.names), _parse_answers(batch[SCORE_JSON].to_pylist())
                )
                for field in EVENT_FIELDS:
                    scored_batch = scored_batch.append_column(field, batch[field.name])
                writer.write_batch(scored_batch.cast(schema))

    def _list_rows(self, request: CapturedRequest | None, counts: RequestCounts) -> Iterator[dict[str, Any]]:
        """Yield the valid rows of a request that belong to the partition, and count all rows."""
        if request is None:
            counts.unreadable += 1
            return
        counts.requests += 1
        event = {field.name: getattr(request, field.name) for field in EVENT_FIELDS}
        for values, score in zip(self._list_values(request), request.scores, strict=True):
            if values is None:
                counts.invalid += 1
            elif all(values[name] == value for name, value in self._partition_values.items()):
                counts.rows += 1
                yield {**values, **event, SCORE_JSON: json.dumps(score)}
            else:
                counts.rows_of_other_partitions += 1

    def _list_values(self, request: CapturedRequest) -> Iterable[dict[str, Any] | None]:
        """Return key and features of each row; None for an invalid row."""
        first_row_names = request.rows.rows[0].keys()
        has_features = set(self._dataset.features) <= first_row_names <= set(self._input_names)
        if request.rows.kind == "raw" or not has_features:
            return self._raw_rows.list_values(request)
        return (self._convert(Table([row], request.rows.is_text)) for row in request.rows.rows)

    def _convert(self, row: Table) -> dict[str, Any] | None:
        try:
            return {name: column[0] for name, column in self._feature_row_checker.convert(row).items()}
        except BadRequest:
            return None

    def _read_newest_rows(self, answers: Path) -> Iterator[pa.RecordBatch]:
        dataset = self._dataset
        with (
            connect() as connection,
            self._lake.create_view(connection, "published", dataset.table, self._partition, self._partition),
        ):
            sql = _NEWEST_SQL.format(
                key=", ".join(map(quote_identifier, dataset.key)),
                label=quote_identifier(dataset.label),
                path=quote_text(str(answers)),
                labels=build_label_query(dataset, connection, "published"),
            )
            with connection.sql(sql).to_arrow_reader(BATCH_ROWS) as batches:
                yield from batches


def _parse_answers(answers: Sequence[str]) -> Any:
    """Return scores as a model does: shape (rows,), or a frame with a column for each class or quantile."""
    scores = [json.loads(answer) for answer in answers]
    return pd.DataFrame(scores) if scores and isinstance(scores[0], dict) else scores


def find_request_days(dataset: Dataset, partition: Partition, first: dt.date | None, last: dt.date | None) -> Days:
    """Return the days whose requests are read: by default the days of the partition, and the day before it.

    The day before is read, too, because a row may be scored a day ahead.

    Raises:
        SpecError: the dataset has no label, the partition does not have the unit of the dataset's partitions, or the
            first day is after the last. A retry cannot help.
    """
    if not dataset.label:
        raise SpecError(f"the dataset {dataset.name} has no label: there is nothing to predict.")
    check_partition(dataset, partition)
    days = Days(first or get_date(partition) - DAY, last or get_last_day(partition))
    if not len(days):
        raise SpecError(f"first_day {days.first} is after last_day {days.last}.", "Swap the two days.")
    return days


def store_online_scores(
    lake: Lake, dataset: Dataset, partition: Partition, file: Path, part_values: Mapping[str, str]
) -> tuple[Commit, Path]:
    """Replace the partition's online scores of a version, endpoint and variant by those in the file. Idempotent.

    The file is moved to LEEWAY_HOME/online/DATASET/MODEL/VERSION/ENDPOINT/VARIANT.

    Args:
        lake: lake to write to.
        dataset: dataset of the rows.
        partition: partition of the rows.
        file: file that `OnlineRows.write_scored_rows` wrote.
        part_values: model_name, model_version, endpoint and variant of all rows. Only rows with the same values are
            replaced.

    Returns:
        The commit, and the new path of the file.
    """
    with pq.ParquetFile(file) as parquet:
        names = [*dataset.key, *list_stored_scores(dataset), *(field.name for field in EVENT_FIELDS)]
        fields = [
            *(parquet.schema_arrow.field(name) for name in names),
            *(pa.field(name, pa.string()) for name in part_values),
        ]
        schema = pa.schema(fields)
        batches = (_append_part(batch, part_values, schema) for batch in parquet.iter_batches(columns=names))
        rows = pa.RecordBatchReader.from_batches(schema, batches)
        commit = lake.write_partition(dataset.requests, partition, rows, dataset.key, part_values=part_values)
    path = settings().home.joinpath("online", dataset.name, *part_values.values()) / f"{partition}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    os.replace(file, path)
    return commit, path


def _append_part(batch: pa.RecordBatch, part_values: Mapping[str, str], schema: pa.Schema) -> pa.RecordBatch:
    for name, value in part_values.items():
        batch = batch.append_column(name, pa.repeat(pa.scalar(value, pa.string()), batch.num_rows))
    return batch.select(schema.names).cast(schema)
