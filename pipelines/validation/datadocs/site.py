"""The site's files: a page and a summary a partition, and the indexes that are made of the summaries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from pipelines.settings import settings
from pipelines.system.files import replace_file, write_json
from pipelines.system.locks import hold_lock
from pipelines.validation.datadocs import pages
from pipelines.validation.datadocs.evidence import Run, read

MAX_EARLIER = 20
"""Earlier pages of a partition that are kept."""


def add(evidence: Path) -> Path:
    """The site tells of this evidence, LEEWAY_HOME/validation/DATASET/PARTITION.json. Safe beside other writers.

    What the partition's page said of another run before is kept, and linked from the new one. Idempotent.

    Returns:
        The partition's page.

    Raises:
        DataError: the evidence is not there, or not JSON.
    """
    run = read(evidence)
    with _locked():
        page = _put(run)
        _index([run.dataset])
    return page


def build() -> int:
    """The whole site is made again of all the evidence that there is. Returns the number of partitions.

    Raises:
        DataError: evidence that is not JSON.
    """
    found = sorted((settings().home / "validation").glob("*/*.json"))
    with _locked():
        for evidence in found:
            _put(read(evidence))
        _index(sorted({one.parent.name for one in found}))
    return len(found)


def folder() -> Path:
    """Where the site is."""
    return settings().home / "docs"


def _locked() -> AbstractContextManager[int]:
    """One writer at a time: an index holds what every page before it said."""
    return hold_lock(folder().with_suffix(".lock"))


def _put(run: Run) -> Path:
    """The partition has its page and its summary; a page of another run before goes to the folder of its name."""
    place = folder() / run.dataset
    page, summary, earlier = place / f"{run.partition}.html", place / f"{run.partition}.json", place / run.partition
    before = _summary(summary)
    if before and page.exists() and before["at"] != run.summary()["at"]:
        kept = earlier / f"{_stamp(before['at'])}-{before['verdict']}.html"
        with replace_file(kept) as making:
            text = page.read_text(encoding="utf-8")
            making.write_text(pages.outdated(text, page.name), encoding="utf-8")
    old = sorted(earlier.glob("*.html"), reverse=True)
    for one in old[MAX_EARLIER:]:
        one.unlink(missing_ok=True)
    _write(page, pages.partition(run, [f"{run.partition}/{one.name}" for one in old[:MAX_EARLIER]]))
    write_json(summary, run.summary())
    return page


def _index(changed: Sequence[str]) -> None:
    """The pages of the changed datasets, and the page of all, say what the summaries say."""
    datasets = {one.name: _summaries(one) for one in sorted(folder().glob("*")) if one.is_dir()}
    for name in changed:
        _write(folder() / name / "index.html", pages.dataset(name, datasets[name]))
    _write(folder() / "index.html", pages.front(datasets))


def _summaries(place: Path) -> list[dict[str, Any]]:
    """Of every partition, newest partition first."""
    found = (_summary(one) for one in sorted(place.glob("*.json"), reverse=True))
    return [one for one in found if one]


def _summary(path: Path) -> dict[str, Any]:
    """Empty where there is none that can be read: the next `docs build` makes it again."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and {"partition", "at", "verdict", "failing"} <= found.keys() else {}


def _stamp(moment: str) -> str:
    return "".join(one for one in moment if one.isalnum())


def _write(path: Path, text: str) -> None:
    with replace_file(path) as making:
        making.write_text(text, encoding="utf-8")
