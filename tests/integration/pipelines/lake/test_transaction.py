"""Test that a catalog parses each version of a table once, sees the commits of others, and changes no old version."""

import datetime as dt
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.serializers import FromInputFile

from pipelines.lake import Lake
from pipelines.lake.transaction import CachingSqlCatalog

DAYS = [dt.date(2013, 1, day) for day in (1, 2, 3)]


def write(lake: Lake, day: dt.date, value: int = 0) -> None:
    lake.write_partition("words", day, pa.table({"date": pa.array([day], pa.date32()), "n": [value]}))


def test_a_version_is_parsed_once_and_commits_of_others_are_seen(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, other = Lake.open(), Lake.open()
    write(lake, DAYS[0])
    read, parsed = FromInputFile.table_metadata, list[str]()
    monkeypatch.setattr(
        FromInputFile, "table_metadata", lambda file, *args: parsed.append(file.location) or read(file, *args)
    )
    for _ in range(3):
        assert lake.count_rows_by_day("words") == {DAYS[0]: 1}
    assert parsed == [], "the catalog has the version that it wrote"
    write(other, DAYS[1])
    assert len(parsed) == 1
    assert lake.count_rows_by_day("words") == {DAYS[0]: 1, DAYS[1]: 1}
    write(lake, DAYS[2])
    assert other.count_rows_by_day("words") == dict.fromkeys(DAYS, 1)
    assert len(parsed) == len(set(parsed)) == 3, "each catalog parses what the other one wrote"


def test_a_commit_shares_old_snapshots_and_leaves_them_as_they_were(home: Path) -> None:
    lake = Lake.open()
    write(lake, DAYS[0])
    table = lake.catalog.load_table("leeway.words")
    (snapshot,) = table.snapshots()
    before, text = table.metadata, table.metadata.model_dump_json()
    write(lake, DAYS[0], value=1)
    write(lake, DAYS[1])
    assert before.model_dump_json() == text == table.metadata.model_dump_json()
    newest = lake.catalog.load_table("leeway.words")
    assert newest.snapshots()[0] is deepcopy(snapshot) is snapshot
    assert len(newest.snapshots()) > 2
    reread = Lake.open().catalog.load_table("leeway.words").metadata
    assert newest.metadata.model_dump() == reread.model_dump(), "the file has what the catalog kept"


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Let Python switch between threads as often as it can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_several_threads_use_one_catalog(home: Path, monkeypatch: pytest.MonkeyPatch, frequent_switches: None) -> None:
    """Without the lock, `LRUCache` raises KeyError for a version that another thread has just removed."""
    monkeypatch.setattr("pipelines.lake.transaction.MAX_CACHED_VERSIONS", 2)
    lake, names = Lake.open(), [f"words{number}" for number in range(4)]
    assert isinstance(lake.catalog, CachingSqlCatalog)
    for name in names:
        lake.write_partition(name, DAYS[0], pa.table({"date": pa.array(DAYS[:1], pa.date32()), "n": [0]}))

    def load_tables(thread: int) -> set[bool]:
        loaded = [names[(thread + turn) % len(names)] for turn in range(100)]
        return {lake.catalog.load_table(("leeway", name)).name()[-1] == name for name in loaded}

    with ThreadPoolExecutor(8) as pool:
        assert set.union(*pool.map(load_tables, range(8))) == {True}
