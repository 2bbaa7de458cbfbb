"""Define the state of a dataset: file data/DATASET.json."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from pydantic import Field

from pipelines.status.documents.json_object import Document, JsonObject


class EarlierValidation(JsonObject):
    """A validation of a partition that was validated again later."""

    at: dt.datetime
    """When it was validated, UTC."""
    outcome: Literal["passed", "warned", "refused"]
    """passed: nothing worse than an info failed, and all rows were published; warned: warnings failed, so bad rows went
    to quarantine, or the partition was refused because too many rows were bad (the lake does not record which of
    the two); refused: a critical expectation failed, or a person withdrew the partition."""
    failures: list[str]
    """The first expectations that failed, as text, and the number of the others."""


class PartitionState(JsonObject):
    """The last validation of a partition, and its published and quarantined rows."""

    partition: str
    """Partition, such as 2013-01-02."""
    day: dt.date
    """Its date."""
    state: Literal["published", "quarantined", "refused", "stale", "not_validated"]
    """published: all rows are published; quarantined: some rows are in quarantine; refused: it is not published; stale:
    it was refused, but earlier rows of it are still published; not_validated: it is published, but not validated."""
    rows: int
    """Published rows."""
    quarantined_rows: int
    """Rows in quarantine."""
    failures: list[str]
    """Expectations that failed, as text."""
    validated_at: dt.datetime | None
    """When it was last validated, UTC."""
    url: str
    """Its page in the data docs; empty if it was never validated."""
    earlier_validations: list[EarlierValidation] = Field(default_factory=list)
    """Its validations before the last one, oldest first. Of successive validations in which the same expectations
    failed, only the first is listed. If there are more than five, only the oldest are listed."""


class ExpectationFailures(JsonObject):
    """The failures of an expectation."""

    expectation: str
    """Type of the expectation."""
    column: str
    """Its column; empty if it is about the table."""
    severity: str
    """critical, warning or info."""
    partitions: int
    """Number of partitions whose last validation failed this expectation."""
    newest_partition: str
    """Newest of these partitions."""
    example: str
    """Value that was observed in the newest partition, in words."""


class DatasetDetails(Document):
    """File data/DATASET.json: the partitions of a dataset."""

    dataset: str
    """Name of the dataset."""
    rows_from: str = ""
    """Dataset whose published rows it uses; empty: the dataset has its own rows."""
    models: list[str]
    """Models that are trained on it."""
    newest_partition: str
    """Newest published partition; empty if there is none."""
    published_at: dt.datetime | None
    """When the published data last changed, UTC; null if nothing was ever published."""
    unit: Literal["hour", "day", "month"]
    """Unit of the partitions."""
    partitions: list[PartitionState]
    """Partitions of the newest three years of data, at most the newest 3,000, oldest first."""
    failures: list[ExpectationFailures]
    """Expectations that failed, the most frequent first."""
    docs_url: str
    """Page of the dataset in the data docs."""
