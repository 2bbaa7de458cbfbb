"""Offer the rows of lost staging partitions from the source of their dataset, as files of the lake."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pyarrow as pa

from pipelines.dataset import Dataset
from pipelines.errors import LeewayError, SpecError
from pipelines.ingestion import changes
from pipelines.lake import Lake
from pipelines.lake.check import Finding
from pipelines.lake.spool import write_local_files
from pipelines.system.error_translation import translate_error
from pipelines.system.log import log


class SourceDonor:
    """The sources of datasets. A source that is read incrementally is read from its beginning, once.

    Args:
        datasets: the datasets whose staging partitions may be restored.
    """

    name = "the source"

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        self._datasets = {dataset.staging: dataset for dataset in datasets}
        self._stack, self._changed_rows = ExitStack(), dict[str, changes.ChangedRows]()

    def __enter__(self) -> Self:
        """Return the donor; what it read is removed when the block ends."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove what was read."""
        self._stack.close()

    def offer_files(self, finding: Finding, folder: Path) -> Sequence[Path]:
        """Write the source's rows of the day as `ingest` or `sync` would; nothing where they cannot be read."""
        dataset = self._datasets.get(finding.table)
        if dataset is None or not finding.digest:
            return []
        day = dt.date.fromisoformat(finding.partition)
        try:
            with ExitStack() as stack:
                return write_local_files(
                    folder, day, self._open_rows(dataset, day, stack), Lake.open().read_schema(dataset.staging)
                )
        except Exception as error:
            log.warning("%s %s: the source has no rows: %s", dataset.name, day, _describe(error))
            return []

    def _open_rows(self, dataset: Dataset, day: dt.date, stack: ExitStack) -> pa.RecordBatchReader:
        try:
            return dataset.open_source().read(day)
        except SpecError:
            changed_rows = self._changed_rows.get(dataset.name) or self._read_all_changes(dataset)
            return stack.enter_context(changes.merge_changes(Lake.open(), dataset, changed_rows, day, False))

    def _read_all_changes(self, dataset: Dataset) -> changes.ChangedRows:
        source, schema = dataset.open_changing_source(), Lake.open().read_schema(dataset.staging)
        rows = self._stack.enter_context(changes.read_changes(source, None, dataset.name, schema))
        self._changed_rows[dataset.name] = rows
        return rows


def _describe(error: Exception) -> str:
    translation = translate_error(error)
    return translation.message if isinstance(translation, LeewayError) else str(error)
