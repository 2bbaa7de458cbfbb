"""Test that lost metadata are written again where it is certain what they had, and else are named."""

import datetime as dt
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.errors import DataError
from pipelines.lake import Lake
from pipelines.lake.check import check_lake
from pipelines.lake.history import find_partition_versions
from pipelines.lake.month_table import MonthTable
from pipelines.lake.repair import repair_lake
from tests.tools.small_tables import D1, D2, D3, SCHEMA, create_rows, get_path

TABLES = ("days", "by_model", "months", "appended", "cleared")


def write_tables(lake: Lake) -> None:
    """Write a table for each way of writing."""
    for value, day in enumerate((D1, D2, D3, D2)):
        lake.write_partition("days", day, create_rows(day, value))
        for model in "ab":
            rows = create_rows(day, 10 + value).append_column("model", pa.array([model] * 50))
            lake.write_partition("by_model", day, rows, part_values={"model": model})
    for day in (D1, D2):
        lake.write_partition("cleared", day, create_rows(day, 40))
    lake.clear_partition("cleared", D2)
    months = MonthTable("months", SCHEMA, lake.catalog, keeps_old_snapshots=False)
    for number in range(20):  # old snapshots expire
        rows = pa.concat_tables([create_rows(D1, 50 + other) for other in range(number + 1)])
        months.update(lambda version, rows=rows: version.replace_month(D1, rows))  # type: ignore[misc]
        lake.append_rows("appended", D1, create_rows(D1, 100 + number))


@pytest.fixture
def home(written_home: Path) -> Path:
    return written_home


def load(table: str) -> Any:
    return Lake.open().catalog.load_table(f"leeway.{table}")


def describe(table: str) -> tuple[Any, ...]:
    """Describe what a reader sees: rows, snapshots, and the versions of the days."""
    loaded = load(table)
    rows = sorted(map(str, loaded.scan().to_arrow().to_pylist()))
    snapshots = [snapshot.snapshot_id for snapshot in loaded.snapshots()]
    return rows, snapshots, find_partition_versions(loaded, [D1, D2, D3])


def find_file(table: str, kind: str) -> Path:
    loaded = load(table)
    snapshot = loaded.current_snapshot()
    manifests = [manifest for manifest in snapshot.manifests(loaded.io) if manifest.added_files_count]
    locations = {"metadata": loaded.metadata_location, "manifest list": snapshot.manifest_list}
    return get_path(locations.get(kind) or manifests[0].manifest_path)


@pytest.mark.parametrize("kind", ["metadata", "manifest list", "manifest"])
@pytest.mark.parametrize("table", ["days", *(pytest.param(name, marks=pytest.mark.soak) for name in TABLES[1:])])
def test_a_lost_file_is_written_again(home: Path, table: str, kind: str) -> None:
    before, path = describe(table), find_file(table, kind)
    path.unlink()
    report, restored = repair_lake()
    assert (list(report.findings), [finding.kind for finding in restored]) == ([], [kind])
    assert describe(table) == before


def test_writers_go_on_after_a_repair(home: Path) -> None:
    for kind in ("metadata", "manifest list", "manifest"):
        find_file("days", kind).write_bytes(b"")
        report, _ = repair_lake()
        assert not report.findings
        lake = Lake.open()
        assert not lake.write_partition("days", D1, create_rows(D1)).changed
        assert lake.write_partition("days", D2, create_rows(D2, len(kind))).changed
        assert lake.count_rows_by_day("days") == {D1: 50, D2: 50, D3: 50}


def test_several_lost_files_are_written_again(home: Path) -> None:
    """Each is of another table."""
    before = {table: describe(table) for table in TABLES}
    for path in (find_file("days", "manifest list"), find_file("by_model", "manifest")):
        path.unlink()
    for table in TABLES[2:]:
        find_file(table, "metadata").write_bytes(b"{")
    report, restored = repair_lake()
    assert not report.findings
    assert len(restored) == len(TABLES)
    assert {table: describe(table) for table in TABLES} == before


def test_two_lost_versions_are_written_again(home: Path) -> None:
    before, current = describe("days"), find_file("days", "metadata")
    for path in sorted(current.parent.glob("*.metadata.json"))[-2:]:
        path.unlink()
    report, _ = repair_lake()
    assert not report.findings
    assert describe("days") == before


def leave_lost_race(version: Path, content: Path, uuid: str) -> None:
    """Leave what a commit does that lost the race for the number of `version`: pyiceberg keeps its metadata file."""
    shutil.copy(content, version.with_name(f"{version.name.partition('-')[0]}-{uuid}.metadata.json"))


FIRST, LAST = "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"


@pytest.mark.parametrize("uuid", [pytest.param(FIRST, marks=pytest.mark.soak), LAST])
def test_a_version_that_lost_a_race_is_not_listed(home: Path, uuid: str) -> None:
    """It expired snapshots while another process appended rows, so all of its files are there."""
    content = find_file("appended", "metadata")
    Lake.open().append_rows("appended", D2, create_rows(D2))
    before = describe("appended")
    leave_lost_race(find_file("appended", "metadata"), content, uuid)
    (home / "lake/catalog.db").unlink()
    report, _ = repair_lake()
    assert not report.findings
    assert describe("appended") == before


@pytest.mark.parametrize("uuid", [pytest.param(FIRST, marks=pytest.mark.soak), LAST])
def test_metadata_are_not_derived_from_a_version_that_lost_a_race(home: Path, uuid: str) -> None:
    before, current = describe("days"), find_file("days", "metadata")
    *_, older, previous, _ = sorted(current.parent.glob("*.metadata.json"))
    leave_lost_race(previous, older, uuid)
    current.unlink()
    report, _ = repair_lake()
    assert not report.findings
    assert describe("days") == before


@pytest.mark.parametrize(
    "kinds", [("metadata", "manifest list"), ("metadata", "manifest"), ("manifest list", "manifest")]
)
@pytest.mark.parametrize("damage", ["cut", pytest.param("other bytes", marks=pytest.mark.soak)])
def test_two_damaged_files_of_a_table_do_not_stop_the_repair_of_others(
    home: Path, kinds: tuple[str, str], damage: str
) -> None:
    before = describe("months")
    paths = [find_file("days", kind) for kind in kinds]
    for path in paths:
        content = path.read_bytes()
        path.write_bytes(content[:-60] if damage == "cut" else content[:-60] + bytes(60))
    find_file("months", "manifest list").unlink()
    report, restored = repair_lake()
    assert {finding.table for finding in report.findings} == {"days"}
    assert {finding.table for finding in restored} == {"months"}
    assert describe("months") == before


def test_a_lost_commit_of_which_the_list_is_lost_too_is_named(home: Path) -> None:
    """Its rows are there, but nothing says that they were committed. An old version would hide them."""
    metadata, manifest_list = find_file("days", "metadata"), find_file("days", "manifest list")
    metadata.unlink()
    manifest_list.unlink()
    report, restored = repair_lake()
    assert [finding.kind for finding in report.findings] == ["metadata"]
    assert restored == [] and not metadata.exists()


def test_two_commits_that_follow_the_same_version_are_named(home: Path) -> None:
    """One of them may be of a writer that was killed before it committed."""
    metadata, manifest_list = find_file("appended", "metadata"), find_file("appended", "manifest list")
    metadata.unlink()
    shutil.copy(manifest_list, manifest_list.with_name("snap-1-0-00000000-0000-0000-0000-000000000000.avro"))
    report, restored = repair_lake()
    assert [finding.kind for finding in report.findings] == ["metadata"]
    assert restored == [] and not metadata.exists()


def test_a_commit_that_was_never_made_is_not_attached(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer was killed before it changed the catalog, and then the metadata were lost."""
    lake = Lake.open()
    path = find_file("days", "metadata")

    def die(*arguments: Any, **options: Any) -> Any:
        raise SystemExit(137)

    monkeypatch.setattr(lake.catalog, "commit_table", die)
    monkeypatch.setattr("pipelines.lake.new_files._remove_files", lambda *_: None)
    with pytest.raises(SystemExit):
        lake.write_partition("days", dt.date(2013, 1, 9), create_rows(dt.date(2013, 1, 9)))
    path.unlink()
    report, restored = repair_lake()
    assert [finding.kind for finding in report.findings] == ["metadata"]
    assert restored == [] and not path.exists()


def test_the_only_versions_left_are_too_old(home: Path) -> None:
    """The commits since are not all there, so that an old version would hide some."""
    path = find_file("days", "metadata")
    for version in sorted(path.parent.glob("*.metadata.json"))[2:]:
        version.unlink()
    for manifest_list in path.parent.glob("snap-*.avro"):
        manifest_list.unlink()
    shutil.rmtree(path.parent.parent / "data")
    report, restored = repair_lake()
    assert [finding.kind for finding in report.findings] == ["metadata"]
    assert restored == [] and not path.exists()


def test_a_manifest_is_not_written_for_other_rows(home: Path) -> None:
    """The data file is lost, too, and another one is in its folder."""
    loaded = load("days")
    manifest, (file, *_) = find_file("days", "manifest"), loaded.scan().plan_files()
    manifest.unlink()
    for path in get_path(file.file.file_path).parent.parent.rglob("*.parquet"):
        path.write_bytes(path.read_bytes() + b"x")
    report, restored = repair_lake()
    assert "manifest" in {finding.kind for finding in report.findings}
    assert restored == [] and not manifest.exists()


@pytest.mark.soak
def test_a_lost_catalog_and_lost_metadata_are_both_restored(home: Path) -> None:
    before, path = describe("days"), find_file("days", "metadata")
    path.write_bytes(path.read_bytes()[:100])
    (home / "lake/catalog.db").write_bytes(b"")
    repair_lake()
    assert not check_lake().findings
    assert describe("days") == before


@pytest.mark.parametrize("content", [None, pytest.param(bytes(100), marks=pytest.mark.soak)])
def test_a_lost_catalog_does_not_hide_a_commit_whose_metadata_are_gone(home: Path, content: bytes | None) -> None:
    """Only its manifest list says that there was a commit."""
    catalog, before = home / "lake/catalog.db", {table: describe(table) for table in TABLES}
    for table in TABLES:
        find_file(table, "metadata").unlink()
    catalog.unlink() if content is None else catalog.write_bytes(content + catalog.read_bytes()[len(content) :])
    report, _ = repair_lake()
    assert not report.findings
    assert {table: describe(table) for table in TABLES} == before


def test_a_lost_commit_that_cannot_be_attached_is_named(home: Path) -> None:
    """Its rows are lost, too. The table stays closed: an older version would hide the loss."""
    before, metadata = describe("by_model"), find_file("days", "metadata")
    newest = max(get_path(load("days").location()).glob("data/*/*"), key=lambda path: path.stat().st_mtime_ns)
    for path in (metadata, newest, home / "lake/catalog.db"):
        path.unlink()
    report, restored = repair_lake()
    assert [(finding.table, finding.problem) for finding in report.findings] == [("days", "unlisted")]
    assert [finding.kind for finding in restored] == ["catalog"]
    assert describe("by_model") == before
    with pytest.raises(DataError, match="the catalog does not list the table days"):
        Lake.open().write_partition("days", D1, create_rows(D1))
