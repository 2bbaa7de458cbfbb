"""Check the lake for lost and damaged files, and restore them.

The catalog, the metadata, the manifests, the data files and their row counts are compared with each other. A repair
restores lost files from other files of the lake, a backup, the sources or the staged rows. It restores a file only if
the content is the same as before the loss. Idempotent. The report is in LEEWAY_HOME/lake_check.json.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pipelines.contract import Result, Spec
from pipelines.errors import DataError
from pipelines.settings import create_home, settings
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.dataset import Dataset
    from pipelines.lake.check import Finding, LakeReport, Scope
    from pipelines.lake.repair import RowSource

MAX_NAMED = 3
"""Largest number of lost files that the error names."""


class CheckLakeSpec(Spec):
    """The part of the lake to check, and whether to repair it."""

    prerequisites: ClassVar[Mapping[str, str]] = {"backup": "repair"}

    repair: bool = False
    """Whether to restore lost files."""
    backup: Path | None = None
    """File of `make backup` to restore from, besides the sources. Needs `repair`."""
    content: bool = True
    """Whether to read the content of all files; otherwise only their presence and size are checked."""
    older: bool = True
    """Whether to check the files that only older snapshots need, too. Without these, a model version that was trained
    on such a snapshot cannot be reproduced."""


class CheckLakeResult(Result):
    """The result for a lake without lost files."""

    tables: int
    """Tables that were checked."""
    snapshots: int
    """Snapshots of these tables."""
    files: int
    """Data files, each counted once."""
    rows: int
    """Rows of the current snapshots."""
    size_bytes: int
    """Size of the data files."""
    restored: int
    """Number of lost files that were restored."""
    report: Path
    """File of the complete report."""


def run(spec: CheckLakeSpec) -> CheckLakeResult:
    """Check the lake, repair it if that is requested, and write the report.

    Raises:
        DataError: something is lost; the report lists every loss. A retry cannot help.
        SpecError: the backup cannot be read, or is one of another LEEWAY_HOME. A retry cannot help.
        ConflictError: another repair runs, or the catalog stayed locked. A retry can help.
        ServiceError: the storage or the catalog does not answer. A retry can help.
    """
    report, restored_findings = check_and_repair(spec)
    if report.findings:
        raise make_error(report.findings, spec)
    return CheckLakeResult(**_count(report), restored=len(restored_findings), report=get_report_path())


def check_and_repair(spec: CheckLakeSpec) -> tuple[LakeReport, list[Finding]]:
    """Check and repair the lake as `run` does, but raise no error if files are lost.

    Returns:
        The report about the files that are still lost, with advice; and the findings that were repaired.
    """
    from pipelines.lake.check import Scope, check_lake
    from pipelines.system.files import write_json

    create_home()
    scope = Scope(reads_content=spec.content, includes_older=spec.older)
    report, restored_findings = _repair(spec, scope) if spec.repair else (check_lake(scope=scope), [])
    report = replace(report, findings=_add_advice(report.findings))
    write_json(get_report_path(), to_json_values(report, restored_findings))
    for finding in report.findings:
        log.error("%s. %s", finding.describe(), finding.advice)
    summary = "nothing is lost" if not report.findings else f"{len(report.findings)} lost"
    log.info("%d tables, %d files, %d rows: %s", report.tables, report.files, report.rows, summary)
    return report, restored_findings


def to_json_values(report: LakeReport, restored_findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the complete report as a dictionary that can be written as JSON."""
    return _count(report) | {
        "restored": list(map(asdict, restored_findings)),
        "lost": list(map(asdict, report.findings)),
    }


def make_error(findings: Sequence[Finding], spec: CheckLakeSpec) -> DataError:
    """Make the error that names the first lost files."""
    descriptions = "; ".join(finding.describe() for finding in findings[:MAX_NAMED])
    parts_text = "1 part" if len(findings) == 1 else f"{len(findings)} parts"
    message = f"{parts_text} of the lake cannot be read: {descriptions}. {get_report_path()} lists all."
    return DataError(message, findings[0].advice if spec.repair else "Run `python -m pipelines lake check --repair`.")


def get_report_path() -> Path:
    """Return the path of the last report."""
    return settings().home / "lake_check.json"


def _repair(spec: CheckLakeSpec, scope: Scope) -> tuple[LakeReport, list[Finding]]:
    """Repair the lake; return the report about it afterwards, and the findings that were repaired."""
    from pipelines.lake.repair import open_backup, repair_lake

    with ExitStack() as stack:
        backup = stack.enter_context(open_backup(spec.backup)) if spec.backup else None
        row_sources = stack.enter_context(_open_row_sources())
        return repair_lake(row_sources, backup, scope=scope)


@contextmanager
def _open_row_sources() -> Iterator[Sequence[RowSource]]:
    """Open the sources of the rows of staged, published and quarantined partitions."""
    from pipelines.ingestion.lost_days import IngestionRowSource
    from pipelines.validation.lost_days import ValidationRowSource

    datasets = _load_datasets()
    with IngestionRowSource(datasets) as source:
        yield [source, ValidationRowSource(datasets)]


def _add_advice(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    from pipelines.lake.check.advice import advise

    datasets = _load_datasets() if findings else []
    return tuple(replace(finding, advice=advise(finding, datasets)) for finding in findings)


def _count(report: LakeReport) -> dict[str, Any]:
    """Return the counts of the report by name."""
    return {name: getattr(report, name) for name in ("tables", "snapshots", "files", "rows", "size_bytes")}


def _load_datasets() -> list[Dataset]:
    from pipelines.dataset import list_datasets, load_dataset

    return [load_dataset(name) for name in list_datasets()]
