"""Test that a file of many partitions is read once for all of them, and gives each the same rows as before."""

import datetime as dt
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.errors import DataError
from pipelines.ingestion.sources import FileSource, TrueFalse
from pipelines.ingestion.sources.files import csv_file, file_source, split_file
from pipelines.ingestion.sources.files.storage import open_file
from pipelines.partitions import Hour, Month
from pipelines.source import read_once
from pipelines.window import Days

UTC = pa.timestamp("us", tz="UTC")
COLUMNS = {"id": pa.int64(), "at": UTC, "word": pa.string(), "price": pa.decimal128(9, 2)}
START = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
ROWS = 4_000


@pytest.fixture
def write_file(home: Path, tmp_path: Path) -> Callable[..., str]:
    """Return the function that writes rows of 100 days, in any order, as a CSV."""

    def write(*more_lines: str) -> str:
        chance = random.Random(7)
        hours = [chance.randrange(100 * 24) for _ in range(ROWS)]
        lines = [
            f"{number},{START + dt.timedelta(hours=hour):%Y-%m-%dT%H:%M:%SZ},{'w' * (hour % 5)},{hour / 4:.2f}"
            for number, hour in enumerate(hours)
        ]
        path = tmp_path / "rows.csv"
        path.write_text("\n".join(["id,at,word,price", *lines, *more_lines, ""]))
        return str(path)

    return write


@pytest.fixture
def openings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the addresses of the files that were opened."""
    opened = list[str]()
    monkeypatch.setattr(
        file_source, "open_file", lambda address, *options: opened.append(address) or open_file(address, *options)
    )
    return opened


KEYS: dict[str, list[Any]] = {
    "day": [START.date() + dt.timedelta(day) for day in (*range(3, 40), 70)],
    "hour": [Hour(START.date() + dt.timedelta(day), hour) for day in (0, 5) for hour in (0, 7, 23)],
    "month": [Month(dt.date(2013, month, 1)) for month in (1, 3)],
}


@pytest.mark.parametrize("group_bytes", [1, 20_000, split_file.GROUP_BYTES])
@pytest.mark.parametrize("unit", KEYS)
def test_each_partition_has_the_same_rows_in_the_same_order(
    write_file: Callable[..., str], openings: list[str], monkeypatch: pytest.MonkeyPatch, unit: Any, group_bytes: int
) -> None:
    monkeypatch.setattr(split_file, "GROUP_BYTES", group_bytes)
    monkeypatch.setattr(csv_file, "BLOCK_BYTES", 10_000)
    source = FileSource(write_file(), "csv", COLUMNS, day="at", partition=unit)
    expected = [source.read(key).read_all() for key in KEYS[unit]]
    assert len(openings) == len(KEYS[unit]) and sum(table.num_rows for table in expected) > 5
    openings.clear()
    with read_once(source, KEYS[unit]) as once:
        tables = [once.read(key).read_all() for key in reversed(KEYS[unit])]
        assert once.find_day_range() == source.find_day_range()  # type: ignore[attr-defined]
        assert once.describe() == source.describe()
    assert tables[::-1] == expected and [table.schema for table in tables[::-1]] == [table.schema for table in expected]
    assert len(openings) == 2, "once, and once by find_day_range of the source itself"


def test_a_partition_without_rows_and_the_spilled_file(
    write_file: Callable[..., str], home: Path, openings: list[str]
) -> None:
    source = FileSource(write_file(), "csv", COLUMNS, day="at")
    absent = dt.date(2014, 1, 1)
    with read_once(source, [absent, START.date()]) as once:
        assert once.read(absent).read_all() == source.read(absent).read_all()
        assert len(list((home / "tmp").glob("spill-*"))) == 1
        assert once.list_partitions(Days(START.date(), START.date())) == [START.date()]
    assert list((home / "tmp").glob("spill-*")) == [], "it is removed"


def test_a_wrong_value_is_an_error_and_nothing_remains(write_file: Callable[..., str], home: Path) -> None:
    source = FileSource(write_file("x,2013-01-01T00:00:00Z,w,1"), "csv", COLUMNS, day="at")
    with (
        pytest.raises(DataError, match=r"rows\.csv: row 4002, column id: 'x' is not of type int64"),
        read_once(source, KEYS["day"]),
    ):
        raise AssertionError("not reached")
    assert list((home / "tmp").glob("spill-*")) == []


def test_one_partition_and_files_by_day_are_not_copied(write_file: Callable[..., str], tmp_path: Path) -> None:
    whole = FileSource(write_file(), "csv", COLUMNS, day="at")
    by_day = FileSource(tmp_path / "{date}.csv", "csv", COLUMNS)
    for source, keys in ((whole, KEYS["day"][:1]), (by_day, KEYS["day"])):
        with read_once(source, keys) as once:
            assert once is source


def test_a_source_around_another_reads_once_too(write_file: Callable[..., str], openings: list[str]) -> None:
    source = TrueFalse(FileSource(write_file(), "csv", COLUMNS, day="at"), "word", true="w", false="ww")
    keys = KEYS["day"][:5]
    with read_once(source, keys) as once:
        for key in keys:
            with pytest.raises(DataError, match="neither 'w' nor 'ww'"):
                once.read(key).read_all()
    assert len(openings) == 1


@pytest.mark.parametrize(("file_format", "content"), [("json", ""), ("csv", "id,at,word,price\n")])
def test_a_file_without_rows_has_none_for_each_partition(
    home: Path, tmp_path: Path, file_format: Any, content: str
) -> None:
    path = tmp_path / "rows"
    path.write_text(content)
    source = FileSource(str(path), file_format, COLUMNS, day="at")
    with read_once(source, KEYS["day"]) as once:
        assert [once.read(key).read_all().num_rows for key in KEYS["day"][:2]] == [0, 0]
