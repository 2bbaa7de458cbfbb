"""Define the base class of row sources that write the rows of a dataset's lost partitions again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipelines.dataset import Dataset
from pipelines.errors import StorageError
from pipelines.lake.check.findings import Finding
from pipelines.lake.partitions import parse_partition_text
from pipelines.partitions import Partition
from pipelines.system.error_translation import translate_error
from pipelines.system.log import log


class DatasetRowSource(ABC):
    """Write the rows of lost partitions of datasets again, from their origin. Subclasses define how.

    Args:
        datasets: maps the name of each table whose partitions may be restored to its dataset.
    """

    name: str
    """Name for log lines and reports."""

    def __init__(self, datasets: Mapping[str, Dataset]) -> None:
        self._datasets = datasets

    def write_files(self, finding: Finding, folder: Path) -> Sequence[Path]:
        """Write the rows of a lost file's partition to files, as the original step wrote them; return the files.

        Return no files if that is impossible, or if the digest of the lost file is not known.

        Raises:
            StorageError: the disk is full or fails. A retry can help.
        """
        dataset = self._datasets.get(finding.table)
        if dataset is None or not finding.digest:
            return []
        try:
            partition = parse_partition_text(finding.partition, dataset.partition)[0]
            return self._write_rows(dataset, finding.table, partition, folder)
        except Exception as error:  # a source of a dataset may raise any error
            translation = translate_error(error)
            if isinstance(translation, StorageError):
                raise translation from None
            log.warning("%s: not restored from %s: %s", finding.describe(), self.name, translation.message)
            return []

    @abstractmethod
    def _write_rows(self, dataset: Dataset, table: str, partition: Partition, folder: Path) -> Sequence[Path]:
        """Write the rows of a partition of a table to files in the folder; none if it has no rows."""
