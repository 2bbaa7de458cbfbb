"""Represent the withdrawal of a partition by a person as a failed validation."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from pipelines.dataset import Dataset
from pipelines.partitions import HOUR_COLUMN, Hour, Partition, get_date
from pipelines.validation.results_table import ResultsTable
from pipelines.validation.suites import ExpectationResult, Judgement, Suite
from pipelines.validation.suites.expectation import Expectation

if TYPE_CHECKING:
    from pipelines.lake import Lake

WITHDRAWAL = "expect_partition_not_to_be_withdrawn"
"""Type of the expectation that fails when a person withdraws a partition. No suite lists it."""


def build_judgement(actor: str, why: str) -> Judgement:
    """Build the judgement of a partition that a person withdraws: one critical expectation, which failed."""
    expectation = Expectation(type=WITHDRAWAL, kwargs={}, meta={"why": why})
    result = ExpectationResult(expectation, success=False, result={"observed_value": f"withdrawn by {actor}: {why}"})
    digest = hashlib.sha256(WITHDRAWAL.encode()).hexdigest()
    return Judgement(Suite("withdrawal", [expectation], digest), [result])


def is_withdrawn(lake: Lake, dataset: Dataset, partition: Partition) -> bool:
    """Return whether the last validation of a partition is its withdrawal."""
    day, hour = get_date(partition), partition.hour if isinstance(partition, Hour) else None
    rows = ResultsTable(lake).read_newest(dataset.name, day, day)
    return any(row["expectation"] == WITHDRAWAL for row in rows if row.get(HOUR_COLUMN) == hour)
