"""Build a curl command with an example request, which contains a published row."""

from __future__ import annotations

import json
import shlex
from typing import Any

from pipelines.dataset import Dataset
from pipelines.errors import DataError, SpecError
from pipelines.lake import Lake, connect
from pipelines.system.duckdb_session import quote_identifier


def build_example_command(lake: Lake, dataset: Dataset, address: str) -> str:
    """Return a curl command that scores one row of the newest published partition.

    Args:
        lake: lake with the published rows.
        dataset: dataset of the model.
        address: URL of the server's /invocations.

    Raises:
        SpecError: the dataset has no label. A retry cannot help.
        DataError: no row of the dataset is published. A retry can help.
    """
    if not dataset.label:
        raise SpecError(f"the dataset {dataset.name} has no label: there is nothing to predict.")
    body = json.dumps(_read_row(lake, dataset), default=lambda value: value.isoformat())
    arguments = ["curl", "-s", address, "-H", "Content-Type: application/json", "-d", body]
    return " ".join(map(shlex.quote, arguments))


def _read_row(lake: Lake, dataset: Dataset) -> dict[str, Any]:
    """Read the first row of the newest partition, without columns that are known only after the prediction."""
    partitions = lake.count_rows_by_partition(dataset.table, dataset.partition)
    if not partitions:
        raise DataError(f"no row of {dataset.table} is published.", "Publish a day: `ingest`, then `validate`.")
    newest_partition = max(partitions)
    hidden_columns = {dataset.label, *dataset.known_later}
    names = [name for name in lake.read_schema(dataset.table).names if name not in hidden_columns]
    columns, key = (", ".join(map(quote_identifier, group)) for group in (names, dataset.key))
    with (
        connect() as connection,
        lake.create_view(connection, "rows", dataset.table, newest_partition, newest_partition),
    ):
        query = connection.sql(f"SELECT {columns} FROM rows ORDER BY {key} LIMIT 1")  # noqa: S608
        return dict(zip(names, query.fetchall()[0], strict=True))
