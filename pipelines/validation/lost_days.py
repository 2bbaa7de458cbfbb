"""Offer the rows of lost published and quarantined partitions, by judging their staged rows again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

from pipelines.dataset import Dataset
from pipelines.lake import Lake
from pipelines.lake.check import Finding
from pipelines.lake.spool import write_local_files
from pipelines.settings import settings
from pipelines.system.error_translation import translate_error
from pipelines.system.log import log
from pipelines.validation import quarantine, suites


class ValidationDonor:
    """The staged rows of datasets, split by the present suites. Nothing is published and no evidence is written.

    Args:
        datasets: the datasets whose published and quarantined partitions may be restored.
    """

    name = "the staged rows"

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        self._datasets = {table: dataset for dataset in datasets for table in (dataset.published, dataset.quarantine)}

    def offer_files(self, finding: Finding, folder: Path) -> Sequence[Path]:
        """Write the good or the bad rows of the day as `validate` would; nothing where they cannot be judged."""
        dataset = self._datasets.get(finding.table)
        if dataset is None or not finding.digest:
            return []
        day = dt.date.fromisoformat(finding.partition)
        try:
            return self._write_rows(dataset, finding.table, day, folder)
        except Exception as error:
            log.warning("%s %s cannot be judged again: %s", dataset.name, day, translate_error(error))
            return []

    def _write_rows(self, dataset: Dataset, table: str, day: dt.date, folder: Path) -> Sequence[Path]:
        suite = suites.load_suite(settings().project / "expectations", dataset.name)
        with suites.open_rows(Lake.open(), dataset.staging, day, dataset.published) as rows:
            judgement = suites.judge(suite, rows)
            split = quarantine.split_rows(rows, judgement.rejecting_results)
            if table == dataset.quarantine and not split.count:
                return []
            batches = split.read_bad_rows() if table == dataset.quarantine else split.read_good_rows()
            return write_local_files(folder, day, batches, Lake.open().read_schema(table))
