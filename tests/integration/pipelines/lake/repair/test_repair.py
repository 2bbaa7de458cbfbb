"""Test that a repair restores what something else has, names the rest, and makes nothing worse."""

import datetime as dt
import hashlib
import json
import shutil
import signal
import sqlite3
import sys
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.errors import ConflictError, DataError, SpecError
from pipelines.lake import Lake
from pipelines.lake.check import check_lake
from pipelines.lake.month_table import MonthTable
from pipelines.lake.repair import open_backup, repair_lake
from pipelines.settings import settings
from pipelines.steps import backfill
from pipelines.steps import check_lake as step
from pipelines.system.error_translation import translate_error
from pipelines.system.locks import hold_lock
from tests.tools.small_tables import D1, D2, D3, SCHEMA, create_rows, get_path


def write_tables(lake: Lake) -> None:
    """Publish two days of weather, and write tables that have no source."""
    backfill.run(backfill.BackfillSpec(dataset="weather", first=D1, last=D2))
    for value in (0, 1, 0):
        lake.write_partition("t", D1, create_rows(D1, value))
    months = MonthTable("months", SCHEMA, lake.catalog)
    for number in range(3):
        months.update(lambda version, n=number: version.replace_month(D1, create_rows(D1, 100 + n)))  # type: ignore[misc]


@pytest.fixture
def home(written_home: Path) -> Path:
    return written_home


def list_row_files(home: Path, table: str) -> list[Path]:
    return sorted((home / f"lake/leeway/{table}/data").rglob("*.parquet"))


def hash_lake(home: Path) -> dict[str, str]:
    """Return the digest of each file of the lake's tables, without temporary files."""
    files = [path for path in (home / "lake/leeway").rglob("[!.]*") if path.is_file()]
    return {str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(files)}


def back_up(home: Path, archive: Path) -> Path:
    """Write a backup as `make backup` does."""
    from stack.backups.backup import back_up
    from stack.layout import Layout

    back_up(Layout(home=home, project=home), archive)
    return archive


def test_published_and_staged_days_are_restored_from_the_source(home: Path) -> None:
    """The files have the same bytes at the same places, so that all snapshots are as they were."""
    before = hash_lake(home)
    for table in ("weather", "weather_raw"):
        first, second = list_row_files(home, table)
        first.unlink()
        second.write_bytes(bytes(second.stat().st_size))
    with pytest.raises(DataError, match=r"4 parts of the lake .* lake check --repair"):
        step.run(step.CheckLakeSpec())
    result = step.run(step.CheckLakeSpec(repair=True))
    assert result.restored == 4
    assert hash_lake(home) == before
    report = json.loads(result.report.read_text())
    assert {finding["restored_from"] for finding in report["restored"]} <= {
        "the source",
        "the staged rows",
        "another file of the lake",
    }
    assert step.run(step.CheckLakeSpec(repair=True)).restored == 0


def test_a_day_whose_source_changed_is_named_and_not_replaced(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lake had other rows. Whether the new ones are right is for a person to decide, with `ingest`."""
    from pipelines.datasets.weather import source as weather

    for table in ("weather", "weather_raw"):
        list_row_files(home, table)[0].unlink()
    real_source = weather.open_source()

    class ChangedSource:
        def read(self, day: dt.date) -> pa.RecordBatchReader:
            return real_source.read(day).read_all().slice(1).to_reader()

    monkeypatch.setattr(weather, "open_source", lambda folder=None: ChangedSource())
    before = hash_lake(home)
    report, restored = step.check_and_repair(step.CheckLakeSpec(repair=True))
    assert (len(report.findings), restored) == (2, [])
    assert hash_lake(home) == before
    (advice,) = [finding.advice for finding in report.findings if finding.table == "weather_raw"]
    assert "python -m pipelines ingest --dataset weather --partition 2013-01-01" in advice


def test_a_file_is_restored_from_an_older_snapshot_with_the_same_rows(home: Path) -> None:
    lake = Lake.open()
    (task,) = lake.catalog.load_table("leeway.t").scan().plan_files()
    path = get_path(task.file.file_path)
    content = path.read_bytes()
    path.unlink()
    report, (restored,) = repair_lake()
    assert (list(report.findings), restored.restored_from) == ([], "another file of the lake")
    assert path.read_bytes() == content


def test_what_nothing_has_is_named(home: Path) -> None:
    before = hash_lake(home)
    lost = list_row_files(home, "months")
    for path in lost:
        path.unlink()
    with pytest.raises(DataError, match=r"3 parts .*months 2013-01-01: rows .* does not exist.*make restore"):
        step.run(step.CheckLakeSpec(repair=True))
    after = hash_lake(home)
    assert {name: after.get(name) for name in before if name.endswith(".avro")} == {
        name: digest for name, digest in before.items() if name.endswith(".avro")
    }
    months = MonthTable("months", SCHEMA)
    with pytest.raises(FileNotFoundError, match="months") as error:  # a writer does not begin the month anew
        months.update(lambda version: version.replace_month(D1, version.read_month(D1)))
    assert "lake check --repair" in translate_error(error.value).hint


KINDS = {
    "rows": lambda table: next(iter(table.scan().plan_files())).file.file_path,
    "manifest": lambda table: table.current_snapshot().manifests(table.io)[0].manifest_path,
    "manifest list": lambda table: table.current_snapshot().manifest_list,
    "metadata": lambda table: table.metadata_location,
}


@pytest.mark.parametrize("table", ["months", pytest.param("t", marks=pytest.mark.soak)])
def test_everything_is_restored_from_a_backup(home: Path, tmp_path: Path, table: str) -> None:
    archive, before = back_up(home, tmp_path / "backup.tar"), hash_lake(home)
    loaded = Lake.open().catalog.load_table(f"leeway.{table}")
    paths = [get_path(find(loaded)) for find in KINDS.values()]
    for path in paths[::2]:
        path.unlink()
    for path in paths[1::2]:
        path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError):
        step.run(step.CheckLakeSpec())
    assert step.run(step.CheckLakeSpec(repair=True, backup=archive)).restored >= 3
    assert hash_lake(home) == before


def test_a_removed_folder_of_a_table_is_restored_from_a_backup(home: Path, tmp_path: Path) -> None:
    """The table was written again after the backup. It comes back as of the backup, and the days since are named."""
    archive, before = back_up(home, tmp_path / "backup.tar"), hash_lake(home)
    shutil.rmtree(home / "lake/leeway/months")
    report, restored = step.check_and_repair(step.CheckLakeSpec(repair=True, backup=archive))
    assert not report.findings
    assert {finding.restored_from for finding in restored} == {"the backup"}
    assert Lake.open().read_partition("months", D1)["value"][0].as_py() == 102
    assert hash_lake(home).items() <= before.items()


def test_a_file_of_the_backup_that_was_changed_is_not_used(home: Path, tmp_path: Path) -> None:
    archive = back_up(home, tmp_path / "backup.tar")
    path = list_row_files(home, "months")[-1]
    content, archived = path.read_bytes(), archive.read_bytes()
    assert archived.count(content) == 1
    archive.write_bytes(archived.replace(content, bytes(len(content))))
    path.unlink()
    report, restored = step.check_and_repair(step.CheckLakeSpec(repair=True, backup=archive))
    assert (len(report.findings), restored) == (1, [])
    assert not path.exists()


def test_a_backup_that_cannot_be_used_is_refused(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = back_up(home, tmp_path / "backup.tar")
    (tmp_path / "cut.tar").write_bytes(archive.read_bytes()[:-20_000])
    with tarfile.open(tmp_path / "other.tar", "w") as other:
        other.add(archive, "backup.tar")
    (tmp_path / "text.tar").write_text("no tar")
    for name in ("cut", "other", "text", "absent"):
        with pytest.raises(SpecError, match=f"{name}.tar"), open_backup(tmp_path / f"{name}.tar"):
            pass
    monkeypatch.setenv("LEEWAY_HOME", str(tmp_path / "elsewhere"))
    settings.cache_clear()
    with pytest.raises(SpecError, match=r"is a backup of .*, not of"), open_backup(archive):
        pass


@pytest.mark.parametrize("content", [None, b"", b"x" * 20_000])
def test_a_lost_catalog_is_built_anew(home: Path, content: bytes | None) -> None:
    path, counts = home / "lake/catalog.db", Lake.open().count_rows_by_day("weather")
    locations = read_locations(path)
    path.unlink() if content is None else path.write_bytes(content)
    Path(f"{path}-journal").write_bytes(b"of the old database")
    with pytest.raises(DataError):
        Lake.open()
    assert step.run(step.CheckLakeSpec(repair=True)).restored == 1
    assert Lake.open().count_rows_by_day("weather") == counts
    assert read_locations(path) == locations
    kept = [file for file in path.parent.glob("catalog.db.damaged-*")]
    assert [file.read_bytes() for file in kept] == ([content] if content else [])
    assert not Path(f"{path}-journal").exists()


def read_locations(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT table_name, metadata_location FROM iceberg_tables").fetchall())


def test_a_damaged_catalog_still_says_which_of_two_versions_was_committed(home: Path) -> None:
    """A writer that was killed has left a version that the catalog never named."""
    path = home / "lake/catalog.db"
    locations = read_locations(path)
    current = get_path(locations["t"])
    number = int(current.name.partition("-")[0])
    shutil.copy(current, current.with_name(f"{number + 1:05d}-never-committed.metadata.json"))
    content = bytearray(path.read_bytes())
    content[:100] = bytes(100)
    path.write_bytes(content)
    step.run(step.CheckLakeSpec(repair=True))
    assert read_locations(path) == locations


def test_a_table_is_listed_again(home: Path) -> None:
    path = home / "lake/catalog.db"
    locations = read_locations(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM iceberg_tables WHERE table_name = 'months'")
    assert step.run(step.CheckLakeSpec(repair=True)).restored == 1
    assert read_locations(path) == locations


def test_repair_points_an_outdated_catalog_to_the_newest_versions(home: Path) -> None:
    path = home / "lake/catalog.db"
    shutil.copy(path, home / "copy.db")
    for value in (5, 6):
        Lake.open().write_partition("t", D2, create_rows(D2, value))
    locations = read_locations(path)
    shutil.copy(home / "copy.db", path)
    assert step.run(step.CheckLakeSpec(repair=True)).restored == 1
    assert read_locations(path) == locations
    assert Lake.open().read_partition("t", D2)["value"][0].as_py() == 6


def test_only_one_repair_runs_at_a_time(home: Path) -> None:
    with hold_lock(home / "lake-repair.lock"), pytest.raises(ConflictError, match="another repair of the lake runs"):
        repair_lake()


def test_a_repair_that_is_killed_at_any_file_is_repeated(home: Path, commands: Any) -> None:
    """Each run restores one file. It is killed when the next one is complete, and not yet at its place."""
    before, catalog = hash_lake(home), home / "lake/catalog.db"
    locations = read_locations(catalog)
    lost = [*list_row_files(home, "weather"), *list_row_files(home, "weather_raw")]
    for path in lost:
        path.unlink()
    catalog.write_bytes(b"")
    for restored in range(len(lost) + 1):
        process = commands.run(sys.executable, "-c", KILLED_REPAIR.format(puts=1 if restored else 0))
        assert process.code == -signal.SIGKILL, process.err
        present = hash_lake(home)
        assert present.items() <= before.items(), "a file is as it was, or absent"
        assert len(present) == len(before) - len(lost) + max(restored - 1, 0)
        assert read_locations(catalog) == locations if restored else not catalog.read_bytes()
    assert len(list((home / "lake/leeway").rglob(".*.parquet.*"))) == len(lost), "what a kill leaves"
    assert commands.run_step("lake", "check", "--repair").code == 0
    assert hash_lake(home) == before
    get_path(locations["weather"]).unlink()  # what the kills left does not prevent this repair
    report, (restored_file,) = repair_lake()
    assert (list(report.findings), restored_file.kind) == ([], "metadata")


KILLED_REPAIR = """
import os, signal
from pipelines.steps import check_lake
lake, replace, puts = str(check_lake.settings().home / "lake"), os.replace, []
def count_and_replace(source, target):
    if str(target).startswith(lake) and os.path.exists(source):
        if len(puts) == {puts}:
            os.kill(os.getpid(), signal.SIGKILL)
        puts.append(target)
    replace(source, target)
os.replace = count_and_replace
check_lake.run(check_lake.CheckLakeSpec(repair=True))
"""


def test_a_repair_beside_a_writer_loses_nothing(home: Path, commands: Any) -> None:
    """The writer commits other days and versions all the time, also to the table that is repaired."""
    writer = commands.start(sys.executable, "-c", WRITER)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "writing\n"
    for path in list_row_files(home, "weather"):
        path.unlink()
    assert step.run(step.CheckLakeSpec(repair=True)).restored == 2
    _, err = writer.communicate(timeout=120)
    assert writer.returncode == 0, err
    assert not check_lake().findings
    assert Lake.open().count_rows_by_day("t") == {D1: 50} | {D3 + dt.timedelta(n): 50 for n in range(20)}


WRITER = """
import datetime as dt
import pyarrow as pa
from pipelines.lake import Lake
print("writing", flush=True)
for number in range(20):
    day = dt.date(2013, 1, 3) + dt.timedelta(number)
    Lake.open().write_partition("t", day, pa.table({"date": [day] * 50, "value": list(range(50))}))
"""


@pytest.mark.soak
def test_files_in_s3_are_restored(open_s3_lake: Callable[..., Lake], bucket: Any, home: Path) -> None:
    lake = open_s3_lake()
    for value in (0, 1, 0):
        lake.write_partition("t", D1, create_rows(D1, value))
    (task,) = lake.catalog.load_table("leeway.t").scan().plan_files()
    lost = bucket.Object(task.file.file_path.removeprefix(f"s3://{bucket.name}/"))
    content = lost.get()["Body"].read()
    lost.delete()
    report, (restored,) = repair_lake(catalog=lake.catalog)
    assert (list(report.findings), restored.restored_from) == ([], "another file of the lake")
    assert lost.get()["Body"].read() == content
    empty = open_s3_lake("empty.db")
    assert [finding.problem for finding in check_lake(empty.catalog).findings] == ["unlisted"]
    report, (restored,) = repair_lake(catalog=empty.catalog)
    assert not report.findings
    assert empty.read_partition("t", D1).num_rows == 50


def test_the_command_writes_a_table_or_json_and_exits_with_2(home: Path, commands: Any) -> None:
    result = commands.run_step("lake", "check")
    assert (result.code, result.out.splitlines()[-1][:9]) == (0, "5 tables,")
    list_row_files(home, "weather")[0].unlink()
    list_row_files(home, "months")[-1].unlink()
    result = commands.run_step("lake", "check", "--repair", "--json")
    assert result.code == 2, result.err
    report = json.loads(result.out)
    assert [finding["table"] for finding in report["restored"]] == ["weather"]
    assert [finding["table"] for finding in report["lost"]] == ["months"]
    assert "error: 1 part of the lake cannot be read: months 2013-01-01" in result.err
    result = commands.run_step("lake", "check", "--no-older")
    assert "0 lost" in result.out or "1 lost" in result.out
    assert commands.run_step("lake", "check", "--backup", "x.tar").code == 2
