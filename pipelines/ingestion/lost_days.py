"""Restore staging partitions whose data files are lost: read their rows from the source again, and write new files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pyarrow as pa

from pipelines.dataset import Dataset
from pipelines.errors import SpecError
from pipelines.ingestion import changes
from pipelines.lake import Lake
from pipelines.lake.new_files import write_local_files
from pipelines.lake.repair import DatasetRowSource
from pipelines.partitions import Partition


class IngestionRowSource(DatasetRowSource):
    """Creates the rows of lost staging partitions again, from the sources of their datasets, to repair the lake.

    A source that is read by cursor has no partitions, so all rows of the source are read, once for all lost partitions.

    Args:
        datasets: the datasets whose staging partitions may be restored.
    """

    name = "the source"  # where the rows come from, for log lines and reports

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        super().__init__({dataset.staging: dataset for dataset in datasets})
        self._stack, self._changed_rows = ExitStack(), dict[str, changes.ChangedRows]()

    def __enter__(self) -> Self:
        """Return this row source. The temporary files with rows of the sources are removed when the block ends."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the temporary files."""
        self._stack.close()

    def _write_rows(self, dataset: Dataset, table: str, partition: Partition, folder: Path) -> Sequence[Path]:
        with ExitStack() as stack:
            return write_local_files(
                folder, partition, self._open_rows(dataset, partition, stack), Lake.open().read_schema(table)
            )

    def _open_rows(self, dataset: Dataset, partition: Partition, stack: ExitStack) -> pa.RecordBatchReader:
        try:
            source = dataset.open_source()
        except SpecError:  # the source is read by cursor, so it has no partitions
            assert isinstance(partition, dt.date)  # the step `sync` writes partitions by day only
            changed_rows = self._changed_rows.get(dataset.name) or self._read_all_changes(dataset)
            return stack.enter_context(
                changes.merge_changes(Lake.open(), dataset, changed_rows, partition, has_partition=False)
            )
        return source.read(partition)

    def _read_all_changes(self, dataset: Dataset) -> changes.ChangedRows:
        source, schema = dataset.open_changing_source(), Lake.open().read_schema(dataset.staging)
        rows = self._stack.enter_context(
            changes.read_changes(source, since=None, title=dataset.name, table_schema=schema)
        )
        self._changed_rows[dataset.name] = rows
        return rows
