"""Test that a damaged file of the lake is reported by its name, with what to do, and that a new write replaces it."""

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.expressions import AlwaysTrue

from pipelines.errors import DataError, LeewayError
from pipelines.lake import Lake, connect
from pipelines.system.error_translation import translate_error

D1, D2 = dt.date(2013, 1, 1), dt.date(2013, 1, 2)
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda content: content[: len(content) * 2 // 3],
    "empty": lambda _: b"",
    "garbage": lambda _: b"\xff\xfe no file of this kind\n" * 40,
    "other JSON": lambda _: b'{"a": 1}',
    "zeros in the middle": lambda content: content[:60] + bytes(len(content) - 120) + content[-60:],
}


def create_rows(day: dt.date, value: int = 0) -> pa.Table:
    return pa.table({"date": pa.array([day] * 50, pa.date32()), "value": pa.array([value] * 50, pa.int64())})


@pytest.fixture
def lake(home: Path) -> Lake:
    lake = Lake.open()
    for day in (D1, D2):
        lake.write_partition("t", day, create_rows(day))
    return lake


def find_file(home: Path, kind: str) -> Path:
    """Return the file of this kind that the table uses now."""
    folder = home / "lake/leeway/t/metadata"
    metadata = max(folder.glob("*.metadata.json"))
    snapshots = json.loads(metadata.read_text())["snapshots"]
    return {
        "catalog": home / "lake/catalog.db",
        "metadata": metadata,
        "manifest list": Path(snapshots[-1]["manifest-list"].removeprefix("file://")),
        "manifest": max(folder.glob("*-m0.avro"), key=lambda path: path.stat().st_mtime_ns),
        "rows": next((home / "lake/leeway/t/data/date=2013-01-02").glob("*.parquet")),
    }[kind]


def read_by_duckdb(lake: Lake) -> object:
    with connect() as connection, lake.create_view(connection, "rows", "t", D1, D2):
        return connection.sql("SELECT sum(value) FROM rows").fetchall()


READS: dict[str, Callable[[], object]] = {
    "count": lambda: Lake.open().count_rows_by_day("t"),
    "count of days": lambda: Lake.open().count_rows_of_partitions("t", [D1, D2]),
    "pyiceberg": lambda: Lake.open().read_rows("t", AlwaysTrue()),
    "duckdb": lambda: read_by_duckdb(Lake.open()),
    "write": lambda: Lake.open().write_partition("t", D1, create_rows(D1, 3)),
}


def read(name: str) -> LeewayError | None:
    """Read or write the lake; return the error, None where there is none."""
    try:
        READS[name]()
    except Exception as error:
        return translate_error(error)
    return None


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", ["catalog", "metadata", "manifest list", "manifest"])
def test_damaged_metadata_are_an_error_that_names_the_file(lake: Lake, home: Path, kind: str, damage: str) -> None:
    path = find_file(home, kind)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    errors = {name: read(name) for name in READS}
    # Some reads need only the header of a manifest. They may succeed where the header is not damaged.
    assert errors["count"] is not None
    for name, error in errors.items():
        assert error is None or isinstance(error, DataError), (name, error)
        assert error is None or path.name in str(error), (name, error)
        assert error is None or "make restore" in str(error)


@pytest.mark.parametrize("kind", ["metadata", "manifest list", "manifest"])
def test_a_missing_file_of_metadata_is_named(lake: Lake, home: Path, kind: str) -> None:
    path = find_file(home, kind)
    path.unlink()
    error = read("count")
    assert isinstance(error, DataError)
    assert path.name in str(error)


def test_a_missing_catalog_is_not_created_beside_its_tables(lake: Lake, home: Path) -> None:
    """The tables would look as if they were empty, and the next writes would hide the old rows for ever."""
    (home / "lake/catalog.db").unlink()
    with pytest.raises(DataError, match=r"catalog\.db does not exist, but .* has tables\. Run .*lake check --repair"):
        Lake.open()
    assert not (home / "lake/catalog.db").exists()


def test_a_lake_without_tables_is_created(home: Path) -> None:
    """This is the negative control."""
    (home / "lake").mkdir(parents=True)
    (home / "lake/catalog.db").touch()
    assert Lake.open().count_rows_by_day("t") == {}


@pytest.mark.parametrize("reader", ["pyiceberg", "duckdb"])
@pytest.mark.parametrize("damage", [*DAMAGES, "missing"])
def test_a_damaged_file_of_rows_is_named(lake: Lake, home: Path, damage: str, reader: str) -> None:
    path = find_file(home, "rows")
    content = path.read_bytes()
    path.unlink() if damage == "missing" else path.write_bytes(DAMAGES[damage](content))
    error = read(reader)
    assert isinstance(error, DataError), error
    assert path.name in str(error)
    assert "Run the step that writes this day of the table again" in str(error)


@pytest.mark.parametrize("damage", [*DAMAGES, "missing"])
@pytest.mark.parametrize("value", [0, 7])
def test_a_write_replaces_a_damaged_file_of_rows(lake: Lake, home: Path, damage: str, value: int) -> None:
    path = find_file(home, "rows")
    content = path.read_bytes()
    path.unlink() if damage == "missing" else path.write_bytes(DAMAGES[damage](content))
    assert lake.write_partition("t", D2, create_rows(D2, value)).changed
    assert pc.sum(lake.read_partition("t", D2)["value"]).as_py() == 50 * value
    assert lake.count_rows_by_day("t") == {D1: 50, D2: 50}


def test_an_undamaged_day_is_not_written_again(lake: Lake) -> None:
    """This is the negative control."""
    assert not lake.write_partition("t", D2, create_rows(D2)).changed
