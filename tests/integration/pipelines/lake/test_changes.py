"""What a write tells of a partition's rows and columns, and what it refuses; views for DuckDB."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.errors import DataError
from pipelines.lake import Changes, Lake, connect, spool

D1, D2, D3 = (dt.date(2013, 1, day) for day in (1, 2, 3))


def rows(day: dt.date, values: list[int], **more: pa.Array) -> pa.Table:
    columns = {"date": pa.array([day] * len(values), pa.date32()), "n": pa.array(range(len(values)), pa.int32())}
    return pa.table({**columns, "value": pa.array(values, pa.int32()), **more})


def files(home: Path) -> set[str]:
    return {path.name for path in (home / "lake").rglob("*.parquet")}


def test_a_new_partition_is_all_added(home: Path) -> None:
    commit = Lake.open().write_partition("t", D1, rows(D1, [1, 2, 3]), ["n"])
    assert (commit.changed, commit.rows, commit.changes, commit.columns) == (True, 3, Changes(added=3), [])


def test_changes_are_counted_by_key(home: Path) -> None:
    lake = Lake.open()
    lake.write_partition("t", D1, rows(D1, [1, 2, 3, 4]), ["n"])
    commit = lake.write_partition("t", D1, rows(D1, [1, 20, 30]), ["n"])
    assert commit.changes == Changes(added=0, removed=1, changed=2)
    assert lake.write_partition("t", D1, rows(D1, [1, 20, 30, 4, 5]), ["n"]).changes == Changes(added=2)


def test_without_a_key_a_change_is_one_removed_and_one_added(home: Path) -> None:
    lake = Lake.open()
    lake.write_partition("t", D1, rows(D1, [1, 2]))
    assert lake.write_partition("t", D1, rows(D1, [1, 3])).changes == Changes(added=1, removed=1)


def test_another_order_of_the_same_rows_commits_nothing_and_one_row_twice_does(home: Path) -> None:
    lake, was = Lake.open(), rows(D1, [1, 2, 3])
    first = lake.write_partition("t", D1, was, ["n"])
    had = files(home)
    again = lake.write_partition("t", D1, was.take([2, 0, 1]), ["n"])
    assert (again.changed, again.snapshot_id, files(home)) == (False, first.snapshot_id, had)
    twice = lake.write_partition("t", D1, was.take([0, 0, 1, 2]), ["n"])
    assert twice.changes == Changes(added=1)


def test_null_values_and_null_keys_are_equal_to_themselves(home: Path) -> None:
    lake, odd = Lake.open(), rows(D1, [1, 2]).set_column(1, "n", pa.array([None, 1], pa.int32()))
    lake.write_partition("t", D1, odd, ["n"])
    assert not lake.write_partition("t", D1, odd.take([1, 0]), ["n"]).changed
    changed = odd.set_column(2, "value", pa.array([None, 2], pa.int32()))
    assert lake.write_partition("t", D1, changed, ["n"]).changes == Changes(changed=1)


def test_an_added_column_is_taken_in_and_told(home: Path) -> None:
    lake = Lake.open()
    lake.write_partition("t", D1, rows(D1, [1]), ["n"])
    commit = lake.write_partition("t", D2, rows(D2, [2], colour=pa.array(["red"])), ["n"])
    assert commit.columns == ["added colour: string"]
    assert lake.read_partition("t", D1)["colour"].to_pylist() == [None]
    assert lake.read_partition("t", D2)["colour"].to_pylist() == ["red"]


def test_the_same_rows_with_a_column_more_are_a_new_version(home: Path) -> None:
    lake = Lake.open()
    lake.write_partition("t", D1, rows(D1, [1]), ["n"])
    commit = lake.write_partition("t", D1, rows(D1, [1], colour=pa.array([None], pa.string())), ["n"])
    assert (commit.changed, commit.columns) == (True, ["added colour: string"])


def test_a_wider_type_is_taken_in_and_told(home: Path) -> None:
    lake, wide = Lake.open(), pa.array([2**40], pa.int64())
    lake.write_partition("t", D1, rows(D1, [1]), ["n"])
    commit = lake.write_partition("t", D2, rows(D2, [2]).set_column(2, "value", wide), ["n"])
    assert commit.columns == ["widened value: int32 to int64"]
    assert (lake.read_partition("t", D1)["value"].to_pylist(), lake.read_partition("t", D2)["value"].to_pylist()) == (
        [1],
        [2**40],
    )


@pytest.mark.parametrize(
    ("later", "told"),
    [
        (rows(D3, [1]).drop_columns(["value"]), "column value is gone"),
        (rows(D3, [1]), "column value was narrowed from int64 to int32"),
        (rows(D3, [1]).set_column(2, "value", pa.array(["one"])), "column value changed from int64 to string"),
        (rows(D3, [1]).set_column(2, "value", pa.array([1.5])), "column value changed from int64 to double"),
    ],
)
def test_a_removed_or_narrowed_column_is_named(home: Path, later: pa.Table, told: str) -> None:
    lake = Lake.open()
    lake.write_partition("t", D1, rows(D1, [1]), ["n"])
    lake.write_partition("t", D2, rows(D2, [2]).set_column(2, "value", pa.array([2], pa.int64())), ["n"])
    with pytest.raises(DataError, match=told):
        lake.write_partition("t", D3, later, ["n"])
    assert lake.count_rows_by_day("t") == {D1: 1, D2: 1}


def test_a_partition_from_before_a_change_may_be_as_it_was(home: Path) -> None:
    lake, wide = Lake.open(), pa.array([2], pa.int64())
    lake.write_partition("t", D1, rows(D1, [1]), ["n"])
    lake.write_partition("t", D3, rows(D3, [2], colour=pa.array(["red"])).set_column(2, "value", wide), ["n"])
    assert lake.write_partition("t", D1, rows(D1, [7]), ["n"]).changed
    assert lake.write_partition("t", D2, rows(D2, [7]), ["n"]).changed, "a day that was not there yet"
    with pytest.raises(DataError, match="column colour is gone"):
        lake.write_partition("t", D3, rows(D3, [7]).set_column(2, "value", wide), ["n"])


def test_a_column_that_was_there_earlier_than_known_may_not_go_from_then_on(home: Path) -> None:
    lake, red = Lake.open(), {"colour": pa.array(["red"])}
    lake.write_partition("t", D1, rows(D1, [1]))
    lake.write_partition("t", D3, rows(D3, [1], **red))
    lake.write_partition("t", D2, rows(D2, [1], **red))  # a backfill in no order
    with pytest.raises(DataError, match="column colour is gone"):
        lake.write_partition("t", D2, rows(D2, [1]))
    assert lake.write_partition("t", D1, rows(D1, [2])).changed


def test_a_column_without_any_value_yet_waits_for_its_type(home: Path) -> None:
    lake = Lake.open()
    lake.write_partition("t", D1, rows(D1, [1], colour=pa.nulls(1)))
    assert "colour" not in lake.read_schema("t").names
    lake.write_partition("t", D2, rows(D2, [1], colour=pa.array(["red"])))
    assert lake.write_partition("t", D3, rows(D3, [1], colour=pa.nulls(1))).columns == []
    assert lake.read_partition("t", D3)["colour"].to_pylist() == [None]


def test_rows_stream_in_and_equal_rows_are_equal_whatever_the_batches(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "GROUP_ROWS", 100)
    monkeypatch.setattr(spool, "FILE_BYTES", 1)
    lake, whole = Lake.open(), rows(D1, list(range(1_050)))

    def reader(size: int) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(whole.schema, whole.to_batches(size))

    assert lake.write_partition("t", D1, reader(7)).changed
    assert len(files(home)) == 11, "ten files of a group, and the rest"
    assert not lake.write_partition("t", D1, reader(1_000)).changed
    assert lake.read_partition("t", D1).sort_by("n").equals(whole)
    with connect() as connection, lake.create_view(connection, "v", "t", D1, D1):
        assert [n for (n,) in connection.execute("SELECT n FROM v").fetchall()] == list(range(1_050)), "in order"


def test_a_source_that_breaks_off_leaves_the_partition_and_no_file(home: Path) -> None:
    lake, whole = Lake.open(), rows(D1, [1, 2])
    lake.write_partition("t", D1, whole)
    had = files(home)

    def broken() -> Iterator[pa.RecordBatch]:
        yield from rows(D1, [7, 8]).to_batches()
        raise OSError("the line is dead")

    with pytest.raises(OSError, match="the line is dead"):
        lake.write_partition("t", D1, pa.RecordBatchReader.from_batches(whole.schema, broken()))
    assert (lake.read_partition("t", D1).equals(whole), files(home)) == (True, had)


def test_another_day_in_a_later_batch_is_refused(home: Path) -> None:
    both = [*rows(D1, [1]).to_batches(), *rows(D2, [1]).to_batches()]
    with pytest.raises(DataError, match="rows of that day only, but holds 2013-01-02"):
        Lake.open().write_partition("t", D1, pa.RecordBatchReader.from_batches(both[0].schema, both))
    assert Lake.open().count_rows_by_day("t") == {}


def test_a_cleared_partition_is_empty_and_stays_so(home: Path) -> None:
    lake = Lake.open()
    assert not lake.clear_partition("t", D1)
    lake.write_partition("t", D1, rows(D1, [1]))
    lake.write_partition("t", D2, rows(D2, [1]))
    assert lake.clear_partition("t", D1)
    assert not lake.clear_partition("t", D1)
    assert lake.count_rows_by_day("t") == {D2: 1}
    assert lake.write_partition("t", D1, rows(D1, [1])).changed, "the same rows as before it was cleared"


def test_a_view_has_a_window_as_it_was(home: Path) -> None:
    lake = Lake.open()
    lake.write_partition("t", D1, rows(D1, [1]))
    then = lake.write_partition("t", D2, rows(D2, [2])).snapshot_id
    lake.write_partition("t", D2, rows(D2, [20], colour=pa.array(["red"])))
    with connect() as connection:
        with lake.create_view(connection, "v", "t", D1, D2):
            now = connection.execute("SELECT value, colour FROM v ORDER BY value").fetchall()
        with lake.create_view(connection, "v", "t", D2, D3, then):
            before = connection.execute("SELECT value FROM v").fetchall()
        with lake.create_view(connection, "v", "t", D3, D3):
            none = connection.execute("SELECT value FROM v").fetchall()
    assert (now, before, none) == ([(1, None), (20, "red")], [(2,)], [])
