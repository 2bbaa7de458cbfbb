"""Restore what a check of the lake finds lost: only by content that is known to be what was there."""

from pipelines.lake.repair.backup import open_backup
from pipelines.lake.repair.dataset_donor import DatasetDonor
from pipelines.lake.repair.donors import Donor
from pipelines.lake.repair.repairing import repair_lake

__all__ = ["DatasetDonor", "Donor", "open_backup", "repair_lake"]
