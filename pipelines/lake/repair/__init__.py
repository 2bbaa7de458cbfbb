"""Restore lost files of the lake, only with content that is known to equal the lost content."""

from pipelines.lake.repair.backup import open_backup
from pipelines.lake.repair.dataset_row_source import DatasetRowSource
from pipelines.lake.repair.lake_repair import repair_lake
from pipelines.lake.repair.row_sources import RowSource

__all__ = ["DatasetRowSource", "RowSource", "open_backup", "repair_lake"]
