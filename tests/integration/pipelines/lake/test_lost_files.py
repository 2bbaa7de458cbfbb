"""Test that no write reports a day as there whose files are lost, and that no write begins beside a lost catalog."""

import datetime as dt
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyiceberg.catalog
import pytest
from pyiceberg.utils.config import Config

from pipelines.errors import DataError, ServiceError
from pipelines.lake import Lake, catalog
from pipelines.lake.month_table import MonthTable

D1, D2 = dt.date(2013, 1, 1), dt.date(2013, 1, 2)
SCHEMA = pa.schema([("date", pa.date32()), ("value", pa.int64())])


def create_rows(day: dt.date, value: int = 0) -> pa.Table:
    return pa.table({"date": [day] * 50, "value": [value] * 50}, schema=SCHEMA)


def list_row_files(home: Path, table: str = "t") -> list[Path]:
    return sorted((home / f"lake/leeway/{table}/data").rglob("*.parquet"))


@pytest.mark.parametrize(
    "damage", ["gone", *(pytest.param(damage, marks=pytest.mark.soak) for damage in ("cut", "other bytes"))]
)
def test_in_s3_a_write_of_equal_rows_replaces_a_lost_file(
    open_s3_lake: Callable[..., Lake], bucket: Any, damage: str
) -> None:
    lake = open_s3_lake()
    for day in (D1, D2):
        lake.write_partition("t", day, create_rows(day))
    assert not lake.write_partition("t", D1, create_rows(D1)).changed, "this is the negative control"
    objects = bucket.objects.filter(Prefix="lake/leeway/t/data/date=2013-01-01/")
    (lost,) = [item for item in objects if item.key.endswith(".parquet")]  # pyarrow adds an object for the folder
    content = lost.get()["Body"].read()
    damaged = {"gone": b"", "cut": content[:-9], "other bytes": bytes(len(content))}[damage]
    lost.delete() if damage == "gone" else lost.put(Body=damaged)
    if damage != "other bytes":
        assert lake.find_lost_partitions("t", [D1, D2]) == {D1}
    assert lake.write_partition("t", D1, create_rows(D1)).changed
    assert lake.read_partition("t", D1).num_rows == 50
    assert not lake.write_partition("t", D1, create_rows(D1)).changed


def test_in_s3_a_missing_file_is_named_by_a_reader(open_s3_lake: Callable[..., Lake], bucket: Any) -> None:
    lake = open_s3_lake()
    lake.write_partition("t", D1, create_rows(D1))
    (lost,) = bucket.objects.filter(Prefix="lake/leeway/t/data/")
    lost.delete()
    with pytest.raises(DataError, match=r"date=2013-01-01/.* does not exist.*lake check"), lake.open_files("t", D1, D1):
        pass


def test_storage_that_does_not_answer_is_no_lost_file(home: Path, tmp_path: Path, free_port: Any) -> None:
    from pyiceberg.io.pyarrow import PyArrowFileIO

    from pipelines.lake import storage

    io = PyArrowFileIO(
        {"s3.endpoint": f"http://127.0.0.1:{free_port()}", "s3.access-key-id": "x", "s3.secret-access-key": "x"}
        | {"s3.region": "us-east-1", "s3.connect-timeout": "1"}
    )
    with pytest.raises(ServiceError, match="S3 does not answer"):
        storage.find_size(io, "s3://lake/file")


def test_equal_rows_in_other_bytes_are_replaced(home: Path) -> None:
    """The digest is the version of the day, so a file that has another one is damaged, even if it can be read."""
    import pyarrow.parquet as pq

    lake = Lake.open()
    lake.write_partition("t", D1, create_rows(D1))
    (path,) = list_row_files(home)
    pq.write_table(create_rows(D1), path, compression="none")
    assert lake.write_partition("t", D1, create_rows(D1)).changed
    assert not lake.write_partition("t", D1, create_rows(D1)).changed


@pytest.mark.parametrize("damage", ["gone", pytest.param("cut", marks=pytest.mark.soak)])
def test_a_backfill_writes_lost_days_again(home: Path, damage: str) -> None:
    from pipelines.steps import backfill

    spec = backfill.BackfillSpec(dataset="weather", first=D1, last=D2)
    assert backfill.run(spec).published == 2
    assert backfill.run(spec).skipped == 2, "this is the negative control"
    path = list_row_files(home, "weather")[0]
    path.unlink() if damage == "gone" else path.write_bytes(path.read_bytes()[:-100])
    result = backfill.run(spec)
    assert (result.published, result.changed, result.skipped) == (1, 1, 1)
    assert Lake.open().read_partition("weather", D1).num_rows


@pytest.mark.soak
def test_a_backfill_writes_all_days_again_after_all_files_were_lost(home: Path) -> None:
    """The validation of a day compares it with the published days around it, and these are lost, too."""
    from pipelines.steps import backfill

    spec = backfill.BackfillSpec(dataset="flights", first=D1, last=D2 + dt.timedelta(1))
    assert backfill.run(spec).published == 3
    for path in [*list_row_files(home, "flights"), *list_row_files(home, "flights_raw")]:
        path.unlink()
    assert backfill.run(spec).changed == 3
    assert backfill.run(spec).skipped == 3


@pytest.mark.soak
def test_a_lost_day_still_counts_against_a_day_that_shrinks(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.datasets.weather import source
    from pipelines.errors import ValidationError
    from pipelines.steps import backfill, ingest, validate

    backfill.run(backfill.BackfillSpec(dataset="weather", first=D1, last=D2))
    for path in list_row_files(home, "weather"):
        path.unlink()
    rows = source.open_source().read(D1).read_all()
    lake = Lake.open()
    lake.write_partition("weather_raw", D1, rows.slice(0, rows.num_rows // 2))
    with pytest.raises(ValidationError, match="the published version has"):
        validate.run(validate.ValidateSpec(dataset="weather", partition=D1))
    ingest.run(ingest.IngestSpec(dataset="weather", partition=D1))
    assert validate.run(validate.ValidateSpec(dataset="weather", partition=D1)).changed


@pytest.fixture
def configure_catalog(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure another catalog and warehouse by variables, as .env.example lists them."""
    variables = {"TYPE": "sql", "URI": f"sqlite:///{tmp_path}/other.db", "WAREHOUSE": (tmp_path / "tables").as_uri()}
    for name, value in variables.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LEEWAY__{name}", value)
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())  # pyiceberg reads the variables once, at import


@pytest.mark.parametrize("loss", ["gone", "empty"])
def test_a_configured_catalog_is_not_begun_beside_its_tables(
    configure_catalog: None, tmp_path: Path, loss: str
) -> None:
    Lake.open().write_partition("t", D1, create_rows(D1))
    (tmp_path / "other.db").unlink() if loss == "gone" else (tmp_path / "other.db").write_bytes(b"")
    for _ in range(2):
        with pytest.raises(DataError, match=r"the catalog is empty, but .*tables/leeway has tables\. Run .*lake check"):
            Lake.open()


def test_a_configured_catalog_is_begun_in_an_empty_warehouse(configure_catalog: None, tmp_path: Path) -> None:
    """This is the negative control."""
    (tmp_path / "tables/leeway").mkdir(parents=True)
    assert Lake.open().count_rows_by_day("t") == {}


def remove_from_catalog(home: Path, table: str) -> None:
    with closing(sqlite3.connect(home / "lake/catalog.db")) as connection, connection:
        connection.execute("DELETE FROM iceberg_tables WHERE table_name = ?", (table,))


def test_no_table_is_created_beside_the_files_of_its_name(home: Path) -> None:
    """A writer would begin an empty table, and its first commit would hide the old rows."""
    lake = Lake.open()
    lake.write_partition("t", D1, create_rows(D1))
    months = MonthTable("m", SCHEMA)
    months.update(lambda version: version.replace_month(D1, create_rows(D1)))
    lake.append_rows("a", D1, create_rows(D1))
    for table in ("t", "m", "a"):
        remove_from_catalog(home, table)
    writes: list[Callable[[], object]] = [
        lambda: lake.write_partition("t", D2, create_rows(D2)),
        lambda: months.update(lambda version: version.replace_month(D1, create_rows(D1))),
        lambda: lake.append_rows("a", D2, create_rows(D2)),
    ]
    for name, write in zip("tma", writes, strict=True):
        with pytest.raises(DataError, match=f"the catalog does not list the table {name}, but .* has its files"):
            write()
    lake.write_partition("other", D1, create_rows(D1))  # this is the negative control


def test_a_killed_creation_of_a_table_is_repeated(home: Path) -> None:
    """A creator that is killed before it changes the catalog leaves the first metadata file. It holds no rows."""
    lake = Lake.open()
    catalog.create_table(lake.catalog, "t", SCHEMA)
    remove_from_catalog(home, "t")
    assert lake.write_partition("t", D1, create_rows(D1)).changed


def test_a_home_with_a_space_is_checked_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Any
) -> None:
    monkeypatch.setenv("LEEWAY_HOME", str(tmp_path / "my home"))
    fresh_settings()
    Lake.open().write_partition("t", D1, create_rows(D1))
    (tmp_path / "my home/lake/catalog.db").write_bytes(b"")
    with pytest.raises(DataError, match=r"is empty, but .* has tables"):
        Lake.open()


@pytest.mark.parametrize("error", [SystemExit(143), ConnectionError("the server closed the connection")])
def test_a_commit_whose_answer_is_lost_keeps_its_files(
    home: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog has committed, and the writer does not know it: it was stopped, or the connection ended."""
    lake = Lake.open()
    lake.write_partition("t", D1, create_rows(D1))
    commit = lake.catalog.commit_table

    def commit_and_fail(*arguments: Any, **options: Any) -> Any:
        commit(*arguments, **options)
        raise error

    monkeypatch.setattr(lake.catalog, "commit_table", commit_and_fail)
    with pytest.raises(type(error)):
        lake.write_partition("t", D2, create_rows(D2))
    assert Lake.open().read_partition("t", D2).num_rows == 50


def test_a_commit_that_failed_leaves_no_files(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This is the negative control."""
    lake = Lake.open()
    lake.write_partition("t", D1, create_rows(D1))

    def fail(*arguments: Any, **options: Any) -> Any:
        raise SystemExit(143)

    monkeypatch.setattr(lake.catalog, "commit_table", fail)
    with pytest.raises(SystemExit):
        lake.write_partition("t", D2, create_rows(D2))
    assert len(list_row_files(home)) == 1


def test_a_lake_that_was_moved_away_is_created_anew(home: Path) -> None:
    """This is what the error advises."""
    Lake.open().write_partition("t", D1, create_rows(D1))
    shutil.move(home / "lake", home / "old")
    assert Lake.open().write_partition("t", D1, create_rows(D1)).changed
