"""What a check of the lake finds: one finding for each file, table or catalog that is not as it was written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pipelines.escaping import escape

Kind = Literal["catalog", "table", "metadata", "manifest list", "manifest", "rows"]
Problem = Literal["missing", "cut", "changed", "damaged", "unreadable", "unlisted", "outdated"]
"""`cut`: another size. `changed`: the same size and other bytes. `damaged`: it cannot be parsed, or its numbers are
wrong. `unreadable`: it may not be read. `unlisted`: the catalog does not list it. `outdated`: the catalog names an old
version of it."""


@dataclass(frozen=True)
class Finding:
    """One file, table or catalog that is not as it was written."""

    kind: Kind
    problem: Problem
    location: str
    """Location of the file; for a table, of the newest version of its metadata."""
    detail: str
    """One line: what was found."""
    table: str = ""
    partition: str = ""
    """Day or month of the rows; empty where the finding is not about one."""
    rows: int = 0
    """Rows of the file, by its manifest."""
    is_current: bool = True
    """Whether the table's present rows need it; otherwise only older snapshots do."""
    snapshot_id: int = 0
    """Snapshot that wrote the file; 0 where that is not known."""
    digest: str = ""
    """SHA-256 over the files of `group`; empty where it is not known."""
    group: tuple[str, ...] = ()
    """Locations of the files that were written together with this one, in the order of their rows."""
    restored_from: str = ""
    """What a repair restored it from; empty where it is still lost."""
    advice: str = ""
    """What a person can do about it."""

    def describe(self) -> str:
        """Describe the finding on one line."""
        where = " ".join(filter(None, (self.table, self.partition))) or "the lake"
        kind = "" if self.kind in ("catalog", "table") else f"{self.kind} "
        return escape(f"{where}: {kind}{self.location.rpartition('/')[2]} {self.detail}")


@dataclass(frozen=True)
class LakeReport:
    """The result of one check of the lake."""

    findings: Sequence[Finding] = field(default_factory=tuple)
    """What is lost, the catalog first, then by table."""
    tables: int = 0
    snapshots: int = 0
    files: int = 0
    """Data files, each counted once."""
    rows: int = 0
    """Rows of the present snapshots, by their manifests."""
    size_bytes: int = 0
    """Size of the data files, by their manifests."""
