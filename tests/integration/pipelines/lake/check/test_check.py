"""Test that a check of the lake finds what is lost, in any table, and finds nothing in a lake that has everything."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.errors import ConflictError, ServiceError
from pipelines.lake import Lake
from pipelines.lake.check import Finding, Scope, check_lake
from pipelines.lake.month_table import MonthTable
from pipelines.steps import check_lake as step
from tests.tools.small_tables import D1, D2, D3, SCHEMA, create_rows, get_path


def write_tables(lake: Lake) -> None:
    """Write a table of days with an older snapshot and a cleared day, of days by model, of months, and of appends."""
    for day in (D1, D2, D3):
        lake.write_partition("t", day, create_rows(day))
    lake.write_partition("t", D2, create_rows(D2, 7))
    lake.clear_partition("t", D3)
    for model in "ab":
        rows = create_rows(D1).append_column("model", pa.array([model] * 50))
        lake.write_partition("by_model", D1, rows, part_values={"model": model})
    for number in range(33):  # more than `MAX_SNAPSHOTS`, so that old ones expire
        lake.append_rows("appended", D1, create_rows(D1, number))
    months = MonthTable("months", SCHEMA, lake.catalog, keeps_old_snapshots=False)
    for number in range(33):
        months.update(lambda version, n=number: version.replace_month(D1, create_rows(D1, n)))  # type: ignore[misc]


@pytest.fixture
def home(written_home: Path) -> Path:
    return written_home


@pytest.fixture
def lake(home: Path) -> Lake:
    return Lake.open()


def find(home: Path, pattern: str, place: int = 0) -> Path:
    return sorted((home / "lake/leeway").glob(pattern))[place]


def find_present_file(lake: Lake, table: str) -> Path:
    (task, *_) = lake.catalog.load_table(f"leeway.{table}").scan().plan_files()
    return get_path(task.file.file_path)


def check() -> dict[str, tuple[str, str, str]]:
    """Check the lake; return name of the file to kind, problem and table of each finding."""
    return {Path(f.location).name: (f.kind, f.problem, f.table) for f in check_lake().findings}


def test_nothing_is_found_in_a_lake_that_has_everything(home: Path) -> None:
    """This is the negative control, with expired snapshots, deleted days and files that nothing refers to."""
    (home / "lake/leeway/t/data/date=2013-01-01/left-by-a-killed-writer.parquet").write_bytes(b"x")
    report = check_lake()
    assert list(report.findings) == []
    assert report.tables == 4
    assert report.rows == 100 + 100 + 33 * 50 + 50


def test_nothing_is_found_where_there_is_no_lake(home: Path) -> None:
    shutil.rmtree(home / "lake")
    assert check_lake().tables == 0
    assert not (home / "lake/catalog.db").exists(), "a check creates nothing"


def test_a_check_creates_the_home_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    monkeypatch.setenv("LEEWAY_HOME", str(tmp_path / "new"))
    fresh_settings()
    assert step.run(step.CheckLakeSpec()).tables == 0
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def flip_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "removed": (Path.unlink, "missing"),
    "cut": (lambda path: os.truncate(path, path.stat().st_size - 1), "cut"),
    "empty": (lambda path: path.write_bytes(b""), "cut"),
    "longer": (lambda path: path.write_bytes(path.read_bytes() + b"x"), "cut"),
    "one bit": (flip_byte, ""),
    "zeros": (lambda path: path.write_bytes(bytes(path.stat().st_size)), ""),
}


@pytest.mark.parametrize(
    ("table", "damage"),
    [*(("t", damage) for damage in DAMAGES)]
    + [(table, damage) for table in ("by_model", "months", "appended") for damage in ("removed", "one bit")],
)
def test_a_lost_file_of_rows_is_found_in_each_kind_of_table(lake: Lake, table: str, damage: str) -> None:
    path = find_present_file(lake, table)
    change, problem = DAMAGES[damage]
    change(path)
    ((name, (kind, found_problem, found_table)),) = check().items()
    assert (name, kind, found_table) == (path.name, "rows", table)
    assert found_problem == problem or (not problem and found_problem in ("changed", "damaged"))


def test_a_file_of_other_rows_and_the_same_size_is_found(lake: Lake) -> None:
    """A file can be read, and has the right number of rows, but other values. Only its digest differs."""
    path = find_present_file(lake, "t")
    size = path.stat().st_size
    for value in range(1000):
        pq.write_table(create_rows(D1, value), path, compression="zstd", row_group_size=50)
        if path.stat().st_size == size:
            break
    else:
        path.write_bytes(path.read_bytes()[:size].ljust(size, b"x"))
    assert path.name in check()


def test_presence_and_size_are_checked_without_the_content(lake: Lake) -> None:
    flip_byte(find_present_file(lake, "t"))
    assert not check_lake(scope=Scope(reads_content=False)).findings
    find_present_file(lake, "by_model").unlink()
    (finding,) = check_lake(scope=Scope(reads_content=False)).findings
    assert (finding.problem, finding.table) == ("missing", "by_model")


def test_a_file_that_only_an_older_snapshot_needs_is_reported_as_such(lake: Lake, home: Path) -> None:
    present = {task.file.file_path for task in lake.catalog.load_table("leeway.t").scan().plan_files()}
    (old,) = [path for path in home.glob("lake/leeway/t/data/date=2013-01-02/*") if f"file://{path}" not in present]
    old.unlink()
    (finding,) = check_lake().findings
    assert (finding.is_current, finding.partition) == (False, "2013-01-02")
    assert not check_lake(scope=Scope(includes_older=False)).findings


@pytest.mark.parametrize("kind", ["metadata", "manifest list", "manifest"])
@pytest.mark.parametrize("damage", ["removed", "cut", "empty", "zeros"])
def test_lost_metadata_are_found(lake: Lake, kind: str, damage: str) -> None:
    table = lake.catalog.load_table("leeway.by_model")
    snapshot = table.current_snapshot()
    location = {
        "metadata": table.metadata_location,
        "manifest list": snapshot.manifest_list,
        "manifest": snapshot.manifests(table.io)[0].manifest_path,
    }[kind]
    path = get_path(location)
    {**DAMAGES, "cut": (lambda path: os.truncate(path, path.stat().st_size // 2), "")}[damage][0](path)
    finding = next(finding for finding in check_lake().findings if finding.kind == kind)
    assert (Path(finding.location).name, finding.table) == (path.name, "by_model")
    assert finding.problem == ("missing" if damage == "removed" else "damaged")
    assert finding.is_current


def find_manifests_of_one_size(lake: Lake) -> tuple[Path, Path]:
    """Return two manifests of `by_model` with the same size, which depends on chance; write until there are two."""
    for model in range(50):
        manifests: dict[int, Path] = {}
        table = lake.catalog.load_table("leeway.by_model")
        for manifest in table.current_snapshot().manifests(table.io):
            path = get_path(manifest.manifest_path)
            if manifest.manifest_length in manifests:
                return manifests[manifest.manifest_length], path
            manifests[manifest.manifest_length] = path
        rows = create_rows(D1).append_column("model", pa.array([str(model)] * 50))
        lake.write_partition("by_model", D1, rows, part_values={"model": str(model)})
    raise AssertionError("no two manifests have the same size")


def test_a_manifest_in_place_of_another_is_found(lake: Lake, home: Path) -> None:
    """Each file can be read, but belongs to another snapshot. Its size or its number of rows shows this."""
    first, second = find_manifests_of_one_size(lake)
    content = first.read_bytes()
    shutil.copy(find(home, "months/metadata/*-m0.avro"), first)
    assert {finding.kind for finding in check_lake().findings} == {"manifest"}
    first.write_bytes(content)
    assert not check_lake().findings
    shutil.copy(second, first)
    assert {finding.kind for finding in check_lake().findings} == {"manifest list"}


@pytest.mark.parametrize("content", [None, b"", b"x" * 5000])
def test_a_lost_catalog_is_found_and_the_tables_are_still_checked(
    lake: Lake, home: Path, content: bytes | None
) -> None:
    path = home / "lake/catalog.db"
    path.unlink() if content is None else path.write_bytes(content)
    lost = find_newest_row_file(home)
    lost.unlink()
    findings = check_lake().findings
    assert [finding.kind for finding in findings] == ["catalog", "rows"]
    assert findings[1].location.endswith(lost.name)
    assert path.exists() == (content is not None)


def find_newest_row_file(home: Path) -> Path:
    return max(home.glob("lake/leeway/months/data/*/*.parquet"), key=lambda path: path.stat().st_mtime_ns)


def test_a_damaged_page_of_the_catalog_is_found(lake: Lake, home: Path) -> None:
    path = home / "lake/catalog.db"
    content = bytearray(path.read_bytes())
    content[4096 : 2 * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    finding = check_lake().findings[0]
    assert (finding.kind, finding.problem) == ("catalog", "damaged")


def test_a_catalog_that_another_process_writes_is_not_damaged(
    lake: Lake, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.lake.check.catalogs.BUSY_S", 0.1)
    with closing(sqlite3.connect(home / "lake/catalog.db")) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ConflictError, match="stayed locked"):
            check_lake()


def change_catalog(home: Path, statement: str, *values: str) -> None:
    with closing(sqlite3.connect(home / "lake/catalog.db")) as connection, connection:
        connection.execute(statement, values)


def test_a_table_that_the_catalog_does_not_list_is_found(lake: Lake, home: Path) -> None:
    change_catalog(home, "DELETE FROM iceberg_tables WHERE table_name = 't'")
    (finding,) = check_lake().findings
    assert (finding.kind, finding.problem, finding.table) == ("table", "unlisted", "t")


def test_an_outdated_catalog_is_found(lake: Lake, home: Path) -> None:
    """It was copied back from a backup, without the tables. What was committed since would be hidden."""
    shutil.copy(home / "lake/catalog.db", home / "copy.db")
    lake.write_partition("t", D3, create_rows(D3))
    shutil.copy(home / "copy.db", home / "lake/catalog.db")
    assert not check_lake().findings, "a writer that was killed before it changed the catalog leaves the same"
    shutil.copy(home / "copy.db", home / "copy2.db")
    Lake.open().clear_partition("t", D1)
    Lake.open().write_partition("t", D1, create_rows(D1, 3))
    shutil.copy(home / "copy2.db", home / "lake/catalog.db")
    (finding,) = check_lake().findings
    assert (finding.kind, finding.problem, finding.table) == ("table", "outdated", "t")


def test_a_lake_in_s3_is_checked(open_s3_lake: Callable[..., Lake], bucket: Any) -> None:
    lake = open_s3_lake()
    for day in (D1, D2, D3):
        lake.write_partition("t", day, create_rows(day))
    assert not check_lake(lake.catalog).findings
    paths = sorted(item.key for item in bucket.objects.all() if item.key.endswith(".parquet"))
    bucket.Object(paths[0]).delete()
    content = bucket.Object(paths[1]).get()["Body"].read()
    bucket.Object(paths[1]).put(Body=content[:-1])
    bucket.Object(paths[2]).put(Body=bytes(len(content)))
    problems = {finding.partition: finding.problem for finding in check_lake(lake.catalog).findings}
    assert problems == {"2013-01-01": "missing", "2013-01-02": "cut", "2013-01-03": "damaged"}


def test_s3_that_does_not_answer_is_no_loss(open_s3_lake: Callable[..., Lake], monkeypatch: pytest.MonkeyPatch) -> None:
    lake = open_s3_lake()
    lake.write_partition("t", D1, create_rows(D1))
    from pyiceberg.io.pyarrow import PyArrowFile

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError("When reading information for key 'k': AWS Error SLOW_DOWN during HeadObject operation")

    monkeypatch.setattr(PyArrowFile, "_file_info", fail)
    with pytest.raises(ServiceError, match="S3 does not answer"):
        check_lake(lake.catalog)


def test_a_file_that_may_not_be_read_is_found(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests run as root, which may read everything: the error is raised as the kernel would."""
    from pipelines.lake import storage

    path = find_present_file(lake, "t")
    iterate = storage.iterate_chunks

    def refuse(io: Any, location: str) -> Any:
        if location.endswith(path.name):
            raise PermissionError(13, "Permission denied", location)
        return iterate(io, location)

    monkeypatch.setattr(storage, "iterate_chunks", refuse)
    (finding,) = check_lake().findings
    assert (finding.problem, finding.detail) == ("unreadable", "cannot be read: no permission")


def test_a_finding_is_one_line() -> None:
    finding = Finding("rows", "missing", "file:///lake/a.parquet", "does not exist", "t", "2013-01-01")
    assert finding.describe() == "t 2013-01-01: rows a.parquet does not exist"
    assert json.dumps(vars(finding))
