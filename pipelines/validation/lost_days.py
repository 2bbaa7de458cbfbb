"""Restore published and quarantined partitions whose files are lost, by judging their staged rows again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipelines.dataset import Dataset
from pipelines.lake import Lake
from pipelines.lake.new_files import write_local_files
from pipelines.lake.repair import DatasetRowSource
from pipelines.partitions import Partition
from pipelines.settings import settings
from pipelines.validation import quarantine, suites


class ValidationRowSource(DatasetRowSource):
    """Computes the rows of lost partitions: splits their staged rows by the current suites. Writes no evidence.

    Args:
        datasets: the datasets whose published and quarantined partitions may be restored.
    """

    name = "the staged rows"

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        # A dataset with `rows_from` has no tables of its own.
        stored_datasets = [dataset for dataset in datasets if not dataset.rows_from]
        super().__init__(
            {table: dataset for dataset in stored_datasets for table in (dataset.table, dataset.quarantine)}
        )

    def _write_rows(self, dataset: Dataset, table: str, partition: Partition, folder: Path) -> Sequence[Path]:
        suite = suites.load_suite(settings().project / "expectations", dataset.name)
        with suites.open_rows(Lake.open(), dataset.staging, partition, dataset.table) as rows:
            judgement = suites.judge(suite, rows)
            split = quarantine.split_rows(rows, judgement.rejecting_results)
            if table == dataset.quarantine and not split.bad_count:
                return []
            batches = split.read_bad_rows() if table == dataset.quarantine else split.read_good_rows()
            return write_local_files(folder, partition, batches, Lake.open().read_schema(table))
