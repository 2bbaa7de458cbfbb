"""Test the pages that list the reports about models."""

import json
import shutil
from pathlib import Path

import pytest

from pipelines.dataset import RESERVED_NAMES, Dataset
from pipelines.errors import SpecError
from pipelines.pages.reports import KINDS, Report, publish_report, write_indexes
from pipelines.validation import datadocs

SCRIPT = "<script>alert(1)</script>"


def publish(name: str, kind: str = "models", model: str = "flights", **fields: str) -> Report:
    """Publish a report whose page is empty."""
    values = {"page": "report.html", "outcome": "passed", "reason": f"reason of {name}", **fields}
    report = Report(kind, model, name, **values)
    report.folder.mkdir(parents=True)
    (report.folder / report.page).touch()
    publish_report(report)
    return report


def test_pages_list_the_models_and_their_reports_the_newest_first(home: Path) -> None:
    for name in ("9", "10", "2"):
        publish(name, details=f"trained as of {name}")
    publish("1", model="delays", outcome="failed", reason=SCRIPT)
    page = (home / "docs/models/flights/index.html").read_text()
    positions = [page.index(f'href="{name}/report.html"') for name in ("10", "9", "2")]
    assert positions == sorted(positions) and "trained as of 9" in page
    page = (home / "docs/models/index.html").read_text()
    assert 'href="flights/10/report.html"' in page and 'href="delays/index.html"' in page
    assert "reason of 10" in page and "reason of 9" not in page, "only the newest report of each model"
    assert SCRIPT not in page and "&lt;script&gt;" in page


def test_days_without_drift_are_named_so(home: Path) -> None:
    publish("2013-03-09", "drift", outcome="none")
    publish("2013-03-10", "drift", outcome="drift")
    page = (home / "docs/drift/flights/index.html").read_text()
    assert page.index("2013-03-10") < page.index("2013-03-09")
    assert '<span class="tag none">no drift</span>' in page


def test_removed_and_damaged_reports_are_not_listed(home: Path) -> None:
    first, second, third = (publish(name) for name in ("1", "2", "3"))
    (first.folder / "summary.json").write_text("{}")
    (second.folder / "summary.json").write_text("[")
    shutil.rmtree(third.folder)
    publish("4")
    page = (home / "docs/models/flights/index.html").read_text()
    assert [name for name in "1234" if f'href="{name}/report.html"' in page] == ["4"]
    assert json.loads((home / "docs/models/flights/4/summary.json").read_text())["outcome"] == "passed"


def test_the_first_page_links_to_every_kind_also_without_reports(home: Path) -> None:
    (home / "validation").mkdir(parents=True)
    assert datadocs.build_site() == 0
    page = (home / "docs/index.html").read_text()
    for kind, title in KINDS.items():
        assert f'<a href="{kind}/index.html">{title}</a>' in page
        assert "There is no report yet." in (home / "docs" / kind / "index.html").read_text()


def test_lost_indexes_are_written_again(home: Path) -> None:
    publish("1")
    pages = [home / "docs/models/index.html", home / "docs/models/flights/index.html"]
    before = [page.read_bytes() for page in pages]
    for page in pages:
        page.unlink()
    write_indexes()
    assert [page.read_bytes() for page in pages] == before


@pytest.mark.parametrize("name", [*KINDS, "loop"])
def test_no_dataset_has_the_name_of_such_a_folder(name: str) -> None:
    assert name in RESERVED_NAMES
    with pytest.raises(SpecError, match="Choose another name"):
        Dataset(name, key=("id",))
    Dataset(f"{name}s", key=("id",))
