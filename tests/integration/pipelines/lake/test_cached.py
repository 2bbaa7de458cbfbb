"""Test that a lake with a cache gives the same answers as a lake, and reads again only what has changed."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyiceberg.catalog
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import And, EqualTo, In
from pyiceberg.manifest import ManifestFile
from pyiceberg.utils.config import Config

from pipelines.errors import DataError
from pipelines.lake import Lake
from pipelines.lake.cached import CachedLake, file_records
from pipelines.lake.cached.file_records import FileQuery
from pipelines.lake.cached.locations import read_table_locations
from pipelines.lake.catalog import load_table
from pipelines.lake.month_table import MonthTable
from pipelines.partitions import Hour
from tests.tools.postgres import run_postgres

DAYS = [dt.date(2013, 1, day) for day in (1, 2, 3)]
QUERY = FileQuery(
    "SELECT filename, date, sum(value) AS value, any_value(later) AS later FROM files GROUP BY ALL",
    ("date", "value", "later"),
)
SCHEMA = pa.schema([("date", pa.date32()), ("model", pa.string()), ("place", pa.int64())])


def write_day(day: dt.date, value: int, table: str = "t") -> None:
    """Write a day of two rows, replacing what was there."""
    rows = pa.table({"date": pa.array([day] * 2, pa.date32()), "value": pa.array([value] * 2, pa.int64())})
    Lake.open().write_partition(table, day, rows)


def write_month(models: list[str]) -> None:
    """Write the month of a table by month, with a row for each model."""
    rows = [{"date": DAYS[0], "model": model, "place": place} for place, model in enumerate(models)]
    MonthTable("months", SCHEMA).update(
        lambda version: version.replace_month(DAYS[0], pa.Table.from_pylist(rows, schema=SCHEMA))
    )


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list to which the path of each manifest is added when it is read."""
    paths: list[str] = []
    fetch = ManifestFile.fetch_manifest_entry

    def record(manifest: ManifestFile, *arguments: Any, **options: Any) -> Any:
        paths.append(manifest.manifest_path)
        return fetch(manifest, *arguments, **options)

    monkeypatch.setattr(ManifestFile, "fetch_manifest_entry", record)
    return paths


def test_answers_are_those_of_the_lake(home: Path) -> None:
    for number, day in enumerate(DAYS):
        write_day(day, number)
    write_day(DAYS[1], 9)
    Lake.open().clear_partition("t", DAYS[2])
    lake, cached_lake = Lake.open(), CachedLake.open()
    for _ in range(2):
        assert cached_lake.count_rows_by_partition("t", "day") == lake.count_rows_by_partition("t", "day")
        assert cached_lake.count_rows_of_partitions("t", DAYS) == lake.count_rows_of_partitions("t", DAYS)
        assert cached_lake.find_partition_versions("t", DAYS) == lake.find_partition_versions("t", DAYS)
        assert cached_lake.read_rows("t", EqualTo("value", 9)) == lake.read_rows("t", EqualTo("value", 9))
        assert cached_lake.read_schema("t") == lake.read_schema("t")
    assert cached_lake.count_rows_by_partition("nothing", "day") == {}
    assert cached_lake.count_rows_of_partitions("nothing", DAYS) == {}
    assert cached_lake.read_rows("nothing", EqualTo("value", 9)) is None
    assert cached_lake.read_file_records("nothing", QUERY, DAYS[0]) == []


def test_hours_and_parts_are_counted(home: Path) -> None:
    hours = [Hour(DAYS[0], 4), Hour(DAYS[0], 5)]
    for hour in hours:
        rows = pa.table(
            {"date": pa.array([DAYS[0]], pa.date32()), "hour": pa.array([hour.hour], pa.int32()), "m": ["a"]}
        )
        Lake.open().write_partition("h", hour, rows, part_values={"m": "a"})
    lake, cached_lake = Lake.open(), CachedLake.open()
    assert cached_lake.count_rows_by_partition("h", "hour") == lake.count_rows_by_partition("h", "hour")
    for part_values in ({}, {"m": "a"}, {"m": "b"}):
        assert cached_lake.count_rows_of_partitions("h", hours, part_values) == lake.count_rows_of_partitions(
            "h", hours, part_values
        )


def test_conditions_select_from_the_rows_of_a_month_table_in_memory(home: Path) -> None:
    conditions = [None, EqualTo("model", "b"), In("model", ["a", "c"]), And(EqualTo("model", "b"), EqualTo("place", 1))]
    lake = CachedLake.open()
    assert lake.get_month_table("months", SCHEMA).read(EqualTo("model", "b")).num_rows == 0, "there is no table"
    write_month(["a", "b", "c"])
    lake.refresh()
    for where in conditions:
        expected = MonthTable("months", SCHEMA).read(where).to_pylist()
        assert lake.get_month_table("months", SCHEMA).read(where).to_pylist() == expected
    assert lake.get_month_table("months", SCHEMA).read(columns=("model",)).column_names == ["model"]


def test_only_what_changed_is_read_again(home: Path, reads: list[str]) -> None:
    for number, day in enumerate(DAYS):
        write_day(day, number)
        write_day(day, number, "other")
    lake = CachedLake.open()
    lake.refresh()
    reads.clear()
    for table in ("t", "other", "t"):
        lake.count_rows_by_partition(table, "day")
    assert lake.count_rows_by_day("t") == lake.count_rows_by_partition("t", "day")
    assert len(reads) == 6
    lake.refresh()
    lake.count_rows_by_partition("t", "day")
    assert len(reads) == 6, "nothing has changed"
    write_day(DAYS[0] - dt.timedelta(1), 7)
    reads.clear()
    assert len(lake.count_rows_by_partition("t", "day")) == 3, "what was read counts until the next refresh"
    lake.refresh()
    assert len(lake.count_rows_by_partition("t", "day")) == 4
    assert len(reads) == 1, "the other manifests are known"


def test_records_of_files(home: Path, reads: list[str]) -> None:
    for number, day in enumerate(DAYS):
        write_day(day, number)
    lake = CachedLake.open()
    lake.refresh()

    def read(first: dt.date) -> dict[dt.date, int]:
        return {record["date"]: record["value"] for record in lake.read_file_records("t", QUERY, first)}

    reads.clear()
    assert read(DAYS[1]) == {DAYS[1]: 2, DAYS[2]: 4}
    assert len(reads) == 2, "the manifest of the first day was not read"
    assert lake.read_file_records("t", QUERY, DAYS[1])[0]["later"] is None, "the table lacks this column"
    (old_file,) = (home / "lake").rglob("t/data/date=2013-01-03/*.parquet")
    old_file.write_bytes(b"damaged")
    write_day(DAYS[1], 9)
    lake.refresh()
    assert read(DAYS[1]) == {DAYS[1]: 18, DAYS[2]: 4}, "a known file is not read again"
    with pytest.raises(DataError, match="date=2013-01-03"):
        CachedLake.open().read_file_records("t", QUERY, DAYS[1])
    assert read(DAYS[0]) == {DAYS[0]: 0, DAYS[1]: 18, DAYS[2]: 4}


def test_rows_that_another_engine_deleted_do_not_count(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyiceberg cannot write delete files, so that this only runs the way that reads them."""
    write_day(DAYS[0], 1)
    write_day(DAYS[1], 2)
    monkeypatch.setattr(file_records, "has_deletes", lambda _: True)
    records = CachedLake.open().read_file_records("t", QUERY, DAYS[1])
    assert [(record["date"], record["value"]) for record in records] == [(DAYS[1], 4)]


def test_errors_are_remembered_until_the_next_refresh(home: Path) -> None:
    lake, calls = CachedLake.open(), []

    def fail() -> None:
        calls.append(1)
        raise DataError("it is damaged.")

    for _ in range(2):
        with pytest.raises(DataError, match="it is damaged"):
            lake.get_or_read("t", "key", fail)
    assert len(calls) == 1
    lake.refresh()
    with pytest.raises(DataError):
        lake.get_or_read("t", "key", fail)
    assert len(calls) == 2


def test_locations_change_with_each_commit(home: Path) -> None:
    catalog = Lake.open().catalog
    assert read_table_locations(catalog) == {}
    write_day(DAYS[0], 1)
    first = read_table_locations(catalog)
    write_day(DAYS[0], 1)
    assert read_table_locations(catalog) == first, "equal rows are no commit"
    write_day(DAYS[0], 2)
    second = read_table_locations(catalog)
    assert second.keys() == first.keys() == {"t"} and second != first
    assert second["t"] == load_table(catalog, "t").metadata_location


def test_each_table_is_requested_from_a_catalog_that_is_not_a_database(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_day(DAYS[0], 1)
    catalog = Lake.open().catalog
    expected = read_table_locations(catalog)
    monkeypatch.setattr("pipelines.lake.cached.locations.SqlCatalog", type("NoCatalog", (), {}))
    assert isinstance(catalog, SqlCatalog)
    assert read_table_locations(catalog) == expected


def test_locations_in_postgresql(
    home: Path, tmp_path: Path, free_port: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_postgres(free_port()) as address:
        for name, value in {"TYPE": "sql", "URI": address, "WAREHOUSE": f"file://{tmp_path}/warehouse"}.items():
            monkeypatch.setenv(f"PYICEBERG_CATALOG__LEEWAY__{name}", value)
        monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())  # pyiceberg reads the variables at import
        write_day(DAYS[0], 1)
        catalog = Lake.open().catalog
        assert read_table_locations(catalog) == {"t": load_table(catalog, "t").metadata_location}
        assert CachedLake(catalog).count_rows_by_partition("t", "day") == {DAYS[0]: 2}
