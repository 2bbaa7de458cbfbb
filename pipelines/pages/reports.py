"""Publish the reports about models in the folder of the data docs, with pages that list them.

The folder LEEWAY_HOME/docs/KIND/MODEL/NAME has a report and its summary. From the summaries, KIND/index.html lists the
models, and KIND/MODEL/index.html the reports of a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipelines.pages.page import write_page
from pipelines.settings import settings
from pipelines.system.files import read_json_object, write_json
from pipelines.system.locks import hold_lock

KINDS = {"models": "Evaluations", "drift": "Drift", "shadow": "Shadow tests"}
"""Maps the folder of each kind of report to its title."""
INDEX, SUMMARY = "index.html", "summary.json"


@dataclass(frozen=True)
class Report:
    """One published report."""

    kind: str
    """Key of `KINDS`."""
    model: str
    """Registered model."""
    name: str
    """What the report is about: the number of a version, or a day."""
    page: str
    """File name of the page in the report's folder."""
    outcome: str
    """The decision, in a word."""
    reason: str
    """Why, in a sentence."""
    details: str = ""
    """Further text that identifies the report, such as the version's as_of."""

    @property
    def folder(self) -> Path:
        """Folder of the page and the summary."""
        return settings().home / "docs" / self.kind / self.model / self.name


def publish_report(report: Report) -> None:
    """Write a report's summary, and list the report on the index pages. Idempotent; safe while other processes publish.

    The caller has already written the report's page. If the process is killed before the report is listed, a repetition
    of the step lists it.
    """
    write_json(report.folder / SUMMARY, asdict(report))
    with hold_lock(settings().home / "docs.lock"):
        _write_index_of_model(report.folder.parent)
        _write_index_of_kind(report.kind)


def create_missing_indexes() -> None:
    """Write the index page of each kind of report that lacks one, so that links work. The caller holds `docs.lock`."""
    for kind in KINDS:
        if not (settings().home / "docs" / kind / INDEX).exists():
            _write_index_of_kind(kind)


def write_indexes() -> None:
    """Write all pages that list reports; a kind without reports gets an empty page. The caller holds `docs.lock`."""
    for kind in KINDS:
        for folder in _list_folders(settings().home / "docs" / kind):
            _write_index_of_model(folder)
        _write_index_of_kind(kind)


def _write_index_of_model(folder: Path) -> None:
    kind, reports = folder.parent.name, list(_iterate_reports(folder))
    write_page(folder / INDEX, "reports_model.html", pictures=[], title=KINDS[kind], model=folder.name, reports=reports)


def _write_index_of_kind(kind: str) -> None:
    folder = settings().home / "docs" / kind
    newest_reports = {path.name: next(_iterate_reports(path), None) for path in _list_folders(folder)}
    models = {model: report for model, report in newest_reports.items() if report}
    folder.mkdir(parents=True, exist_ok=True)
    write_page(folder / INDEX, "reports_kind.html", pictures=[], title=KINDS[kind], models=models)


def _iterate_reports(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the summaries of a model's reports, the newest version or day first. Skip damaged summaries."""
    names = sorted((path.parent.name for path in folder.glob(f"*/{SUMMARY}")), key=lambda name: (len(name), name))
    for name in reversed(names):
        if summary := _read_summary(folder / name / SUMMARY):
            yield summary


def _read_summary(path: Path) -> dict[str, Any]:
    """Return a report's summary; empty if the file is damaged. Repeating the step that wrote the file repairs it."""
    summary = read_json_object(path)
    is_complete = summary.keys() >= Report.__dataclass_fields__.keys()
    return {**summary, "name": path.parent.name} if is_complete else {}


def _list_folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.is_dir())
