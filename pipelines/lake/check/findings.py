"""Define the report of a check of the lake: one finding for each file, table or catalog that is lost or changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pipelines.escaping import escape

Kind = Literal["catalog", "table", "metadata", "manifest list", "manifest", "rows"]
Problem = Literal["missing", "cut", "changed", "damaged", "unreadable", "unlisted", "outdated"]
"""`missing`: there is no such file. `cut`: a data file has another size. `changed`: a data file has the same size, but
other content. `damaged`: the file cannot be parsed, or it is a manifest or a manifest list whose size or counts are
wrong. `unreadable`: there is no permission to read the file, or the disk cannot read it. `unlisted`: the catalog does
not list the table. `outdated`: the catalog names an old version of the table."""


@dataclass(frozen=True)
class Finding:
    """A problem of one file, table or catalog."""

    kind: Kind
    problem: Problem
    location: str
    """Location of the file; for a table, location of its newest metadata file."""
    detail: str
    """Description of the problem, in one line."""
    table: str = ""
    partition: str = ""
    """Partition of the rows, such as 2013-01-01 or 2013-01-01/flights/3; empty if the finding is not about rows."""
    rows: int = 0
    """Rows of the file, as its manifest says."""
    is_current: bool = True
    """Whether the current snapshot of the table needs the file; if not, only older snapshots need it."""
    snapshot_id: int = 0
    """Snapshot that wrote the file; 0 if it is not known."""
    digest: str = ""
    """SHA-256 over the files of `group`; empty if it is not known."""
    group: tuple[str, ...] = ()
    """Locations of the files that `digest` is computed over, in the order of their rows: this file, and those that were
    written together with it. Empty if the finding is not about rows."""
    restored_from: str = ""
    """Source from which a repair restored the file; empty if it is still lost."""
    advice: str = ""
    """What a person can do about the problem."""

    def describe(self) -> str:
        """Describe the finding on one line."""
        subject = " ".join(filter(None, (self.table, self.partition))) or "the lake"
        kind = "" if self.kind in ("catalog", "table") else f"{self.kind} "
        return escape(f"{subject}: {kind}{self.location.rpartition('/')[2]} {self.detail}")


@dataclass(frozen=True)
class LakeReport:
    """The result of one check of the lake."""

    findings: Sequence[Finding] = field(default_factory=tuple)
    """First those about the catalog and about tables that it does not list; then the others, table by table."""
    tables: int = 0
    snapshots: int = 0
    files: int = 0
    """Data files, each counted once."""
    rows: int = 0
    """Rows of the current snapshots, according to their manifests."""
    size_bytes: int = 0
    """Size of the data files, according to their manifests."""
