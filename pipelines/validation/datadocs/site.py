"""Write the files of the data docs: a page and a summary for each partition, and indexes made from the summaries."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from pipelines.pages import reports
from pipelines.settings import settings
from pipelines.system.files import read_json_object, replace_file, write_json
from pipelines.system.locks import hold_lock
from pipelines.validation.datadocs import pages
from pipelines.validation.datadocs.evidence import ValidationRun, read_run

MAX_EARLIER_RUNS = 20
"""Largest number of earlier pages that are kept for each partition."""


def add_run(evidence: Path, *, updates_indexes: bool = True) -> Path:
    """Write the page of one validation run, and update the indexes. Idempotent; safe while other processes write.

    The page of an earlier run of the partition is kept, and the new page links to it.

    Args:
        evidence: file LEEWAY_HOME/validation/DATASET/PARTITION.json.
        updates_indexes: whether to update the indexes. If false, the caller must call `update_indexes` at the end.

    Returns:
        Path of the partition's page.

    Raises:
        DataError: the evidence does not exist or is not JSON. A retry cannot help.
    """
    run = read_run(evidence)
    with _lock_site():
        page = _write_run(run)
        if updates_indexes:
            _write_indexes([run.dataset])
    return page


def update_indexes(dataset: str) -> None:
    """Write the page that lists a dataset's partitions, and the index of all datasets. Idempotent."""
    with _lock_site():
        _write_indexes([dataset])


def build_site() -> int:
    """Write all pages of validations again, from all evidence under LEEWAY_HOME/validation, and all indexes.

    The indexes include those of the reports about models; the reports themselves are not changed.

    Returns:
        The number of partitions.

    Raises:
        DataError: a file of evidence is not JSON. A retry cannot help.
    """
    evidence_paths = sorted((settings().home / "validation").glob("*/*.json"))
    with _lock_site():
        for path in evidence_paths:
            _write_run(read_run(path))
        _write_indexes(sorted({path.parent.name for path in evidence_paths}))
        reports.write_indexes()
    return len(evidence_paths)


def _get_folder() -> Path:
    return settings().home / "docs"


def _lock_site() -> AbstractContextManager[int]:
    """Hold the lock of all pages while the block runs, so that no summary changes while an index is made from all."""
    return hold_lock(_get_folder().with_suffix(".lock"))


def _write_run(run: ValidationRun) -> Path:
    """Write the page and the summary of a run. The page of the previous run moves to the folder of its partition."""
    folder = _get_folder() / run.dataset
    page, summary_path = folder / f"{run.partition}.html", folder / f"{run.partition}.json"
    earlier_folder = folder / run.partition
    previous_summary = _read_summary(summary_path)
    if previous_summary and page.exists() and previous_summary["at"] != run.summarize()["at"]:
        outdated_page = pages.mark_outdated(page.read_text(encoding="utf-8", errors="replace"), page.name)
        _write(
            earlier_folder / f"{_format_stamp(previous_summary['at'])}-{previous_summary['verdict']}.html",
            outdated_page,
        )
    earlier_pages = sorted(earlier_folder.glob("*.html"), reverse=True)
    for path in earlier_pages[MAX_EARLIER_RUNS:]:
        path.unlink(missing_ok=True)
    addresses = [f"{run.partition}/{path.name}" for path in earlier_pages[:MAX_EARLIER_RUNS]]
    _write(page, pages.render_partition(run, addresses))
    write_json(summary_path, run.summarize())
    return page


def _write_indexes(changed_datasets: Sequence[str]) -> None:
    """Write the pages of these datasets and the index of all datasets from the summaries.

    A dataset without a folder has no page. The index also links to the indexes of the reports about models, which are
    created if they are missing.
    """
    datasets = {folder.name: _read_summaries(folder) for folder in sorted(_get_folder().glob("*")) if folder.is_dir()}
    for name in datasets.keys() & set(changed_datasets):
        _write(_get_folder() / name / "index.html", pages.render_dataset(name, datasets[name]))
    reports.create_missing_indexes()
    _write(_get_folder() / "index.html", pages.render_index(datasets))


def _read_summaries(folder: Path) -> list[dict[str, Any]]:
    """Read the summary of every partition, newest partition first."""
    summaries = (_read_summary(path) for path in sorted(folder.glob("*.json"), reverse=True))
    return [summary for summary in summaries if summary]


def _read_summary(path: Path) -> dict[str, Any]:
    """Read a summary; empty if it cannot be read. `build_site` writes it again."""
    summary = read_json_object(path)
    texts = ("partition", "at", "verdict")
    is_summary = all(isinstance(summary.get(name), str) for name in texts)
    is_summary = is_summary and isinstance(summary.get("failures"), list)
    return summary if is_summary else {}


def _format_stamp(time: str) -> str:
    """Return the time without its punctuation, for a file name."""
    return "".join(character for character in time if character.isalnum())


def _write(path: Path, text: str) -> None:
    with replace_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
