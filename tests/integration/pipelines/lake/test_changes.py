"""Test what a write reports of a partition's rows and columns, what it refuses, and the views for DuckDB."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.errors import DataError
from pipelines.lake import ChangeCounts, Lake, connect, new_files

D1, D2, D3 = (dt.date(2013, 1, day) for day in (1, 2, 3))


def create_rows(day: dt.date, values: list[int], **more_columns: pa.Array) -> pa.Table:
    """Return rows of a day, with these values, the numbers from 0 on in `n`, and more columns."""
    columns = {"date": pa.array([day] * len(values), pa.date32()), "n": pa.array(range(len(values)), pa.int32())}
    return pa.table({**columns, "value": pa.array(values, pa.int32()), **more_columns})


def list_files(home: Path) -> set[str]:
    """Return the names of the lake's Parquet files."""
    return {path.name for path in (home / "lake").rglob("*.parquet")}


def test_all_rows_of_a_new_partition_are_added(home: Path) -> None:
    commit = Lake.open().write_partition("t", D1, create_rows(D1, [1, 2, 3]), ["n"])
    assert (commit.changed, commit.rows, commit.changes, commit.column_changes) == (True, 3, ChangeCounts(added=3), [])


def test_changes_are_counted_by_key(home: Path) -> None:
    lake = Lake.open()
    lake.write_partition("t", D1, create_rows(D1, [1, 2, 3, 4]), ["n"])
    commit = lake.write_partition("t", D1, create_rows(D1, [1, 20, 30]), ["n"])
    assert commit.changes == ChangeCounts(added=0, removed=1, changed=2)
    assert lake.write_partition("t", D1, create_rows(D1, [1, 20, 30, 4, 5]), ["n"]).changes == ChangeCounts(added=2)


def test_a_change_without_a_key_is_a_removed_and_an_added_row(home: Path) -> None:
    lake = Lake.open()
    lake.write_partition("t", D1, create_rows(D1, [1, 2]))
    assert lake.write_partition("t", D1, create_rows(D1, [1, 3])).changes == ChangeCounts(added=1, removed=1)


def test_another_order_of_rows_commits_nothing_and_a_duplicate_row_commits(home: Path) -> None:
    lake, rows = Lake.open(), create_rows(D1, [1, 2, 3])
    first = lake.write_partition("t", D1, rows, ["n"])
    files = list_files(home)
    repeat = lake.write_partition("t", D1, rows.take([2, 0, 1]), ["n"])
    assert (repeat.changed, repeat.snapshot_id, list_files(home)) == (False, first.snapshot_id, files)
    duplicate = lake.write_partition("t", D1, rows.take([0, 0, 1, 2]), ["n"])
    assert duplicate.changes == ChangeCounts(added=1)


def test_null_values_and_null_keys_are_equal(home: Path) -> None:
    lake, rows = Lake.open(), create_rows(D1, [1, 2]).set_column(1, "n", pa.array([None, 1], pa.int32()))
    lake.write_partition("t", D1, rows, ["n"])
    assert not lake.write_partition("t", D1, rows.take([1, 0]), ["n"]).changed
    changed_rows = rows.set_column(2, "value", pa.array([None, 2], pa.int32()))
    assert lake.write_partition("t", D1, changed_rows, ["n"]).changes == ChangeCounts(changed=1)


def test_an_added_column_is_accepted_and_reported(home: Path) -> None:
    lake = Lake.open()
    lake.write_partition("t", D1, create_rows(D1, [1]), ["n"])
    commit = lake.write_partition("t", D2, create_rows(D2, [2], colour=pa.array(["red"])), ["n"])
    assert commit.column_changes == ["added colour: string"]
    assert lake.read_partition("t", D1)["colour"].to_pylist() == [None]
    assert lake.read_partition("t", D2)["colour"].to_pylist() == ["red"]


def test_equal_rows_with_another_column_are_a_change(home: Path) -> None:
    lake = Lake.open()
    lake.write_partition("t", D1, create_rows(D1, [1]), ["n"])
    commit = lake.write_partition("t", D1, create_rows(D1, [1], colour=pa.array([None], pa.string())), ["n"])
    assert (commit.changed, commit.column_changes) == (True, ["added colour: string"])


def test_a_wider_type_is_accepted_and_reported(home: Path) -> None:
    lake, wide_values = Lake.open(), pa.array([2**40], pa.int64())
    lake.write_partition("t", D1, create_rows(D1, [1]), ["n"])
    commit = lake.write_partition("t", D2, create_rows(D2, [2]).set_column(2, "value", wide_values), ["n"])
    assert commit.column_changes == ["widened value: int32 to int64"]
    assert (lake.read_partition("t", D1)["value"].to_pylist(), lake.read_partition("t", D2)["value"].to_pylist()) == (
        [1],
        [2**40],
    )


@pytest.mark.parametrize(
    ("later_rows", "message"),
    [
        (create_rows(D3, [1]).drop_columns(["value"]), "column value is gone"),
        (create_rows(D3, [1]), "column value was narrowed from int64 to int32"),
        (create_rows(D3, [1]).set_column(2, "value", pa.array(["one"])), "column value changed from int64 to string"),
        (create_rows(D3, [1]).set_column(2, "value", pa.array([1.5])), "column value changed from int64 to double"),
    ],
)
def test_a_removed_or_narrowed_column_is_refused_and_named(home: Path, later_rows: pa.Table, message: str) -> None:
    lake = Lake.open()
    lake.write_partition("t", D1, create_rows(D1, [1]), ["n"])
    lake.write_partition("t", D2, create_rows(D2, [2]).set_column(2, "value", pa.array([2], pa.int64())), ["n"])
    with pytest.raises(DataError, match=message):
        lake.write_partition("t", D3, later_rows, ["n"])
    assert lake.count_rows_by_day("t") == {D1: 1, D2: 1}


def test_an_older_partition_can_keep_its_older_columns(home: Path) -> None:
    lake, wide_values = Lake.open(), pa.array([2], pa.int64())
    lake.write_partition("t", D1, create_rows(D1, [1]), ["n"])
    lake.write_partition(
        "t", D3, create_rows(D3, [2], colour=pa.array(["red"])).set_column(2, "value", wide_values), ["n"]
    )
    assert lake.write_partition("t", D1, create_rows(D1, [7]), ["n"]).changed
    assert lake.write_partition("t", D2, create_rows(D2, [7]), ["n"]).changed, (
        "a day before the new column is written without it"
    )
    with pytest.raises(DataError, match="column colour is gone"):
        lake.write_partition("t", D3, create_rows(D3, [7]).set_column(2, "value", wide_values), ["n"])


def test_a_backfill_moves_the_day_from_which_a_column_is_required(home: Path) -> None:
    lake, colour = Lake.open(), {"colour": pa.array(["red"])}
    lake.write_partition("t", D1, create_rows(D1, [1]))
    lake.write_partition("t", D3, create_rows(D3, [1], **colour))
    lake.write_partition("t", D2, create_rows(D2, [1], **colour))  # a backfill: this day is written after a later one
    with pytest.raises(DataError, match="column colour is gone"):
        lake.write_partition("t", D2, create_rows(D2, [1]))
    assert lake.write_partition("t", D1, create_rows(D1, [2])).changed


def test_a_column_without_values_gets_its_type_from_the_first_value(home: Path) -> None:
    lake = Lake.open()
    lake.write_partition("t", D1, create_rows(D1, [1], colour=pa.nulls(1)))
    assert "colour" not in lake.read_schema("t").names
    lake.write_partition("t", D2, create_rows(D2, [1], colour=pa.array(["red"])))
    assert lake.write_partition("t", D3, create_rows(D3, [1], colour=pa.nulls(1))).column_changes == []
    assert lake.read_partition("t", D3)["colour"].to_pylist() == [None]


def test_the_size_of_batches_does_not_change_equal_rows(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_files, "GROUP_ROWS", 100)
    monkeypatch.setattr(new_files, "FILE_BYTES", 1)
    lake, rows = Lake.open(), create_rows(D1, list(range(1_050)))

    def open_reader(size: int) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(size))

    assert lake.write_partition("t", D1, open_reader(7)).changed
    assert len(list_files(home)) == 11, "there are ten full files, and one with the remaining rows"
    assert not lake.write_partition("t", D1, open_reader(1_000)).changed
    assert lake.read_partition("t", D1).sort_by("n").equals(rows)
    with connect() as connection, lake.create_view(connection, "v", "t", D1, D1):
        assert [n for (n,) in connection.execute("SELECT n FROM v").fetchall()] == list(range(1_050)), (
            "the rows are in order"
        )


def test_a_failed_source_keeps_the_partition_and_leaves_no_file(home: Path) -> None:
    lake, rows = Lake.open(), create_rows(D1, [1, 2])
    lake.write_partition("t", D1, rows)
    files = list_files(home)

    def read_and_fail() -> Iterator[pa.RecordBatch]:
        yield from create_rows(D1, [7, 8]).to_batches()
        raise OSError("the connection was lost")

    with pytest.raises(OSError, match="the connection was lost"):
        lake.write_partition("t", D1, pa.RecordBatchReader.from_batches(rows.schema, read_and_fail()))
    assert (lake.read_partition("t", D1).equals(rows), list_files(home)) == (True, files)


def test_another_day_in_a_later_batch_is_refused(home: Path) -> None:
    batches = [*create_rows(D1, [1]).to_batches(), *create_rows(D2, [1]).to_batches()]
    with pytest.raises(DataError, match="rows of that day only, but holds 2013-01-02"):
        Lake.open().write_partition("t", D1, pa.RecordBatchReader.from_batches(batches[0].schema, batches))
    assert Lake.open().count_rows_by_day("t") == {}


def test_a_cleared_partition_is_empty(home: Path) -> None:
    lake = Lake.open()
    assert not lake.clear_partition("t", D1)
    lake.write_partition("t", D1, create_rows(D1, [1]))
    lake.write_partition("t", D2, create_rows(D2, [1]))
    assert lake.clear_partition("t", D1)
    assert not lake.clear_partition("t", D1)
    assert lake.count_rows_by_day("t") == {D2: 1}
    assert lake.write_partition("t", D1, create_rows(D1, [1])).changed, (
        "the partition can be written again with the same rows"
    )


def test_a_view_has_the_rows_of_a_window_at_a_snapshot(home: Path) -> None:
    lake = Lake.open()
    lake.write_partition("t", D1, create_rows(D1, [1]))
    snapshot_id = lake.write_partition("t", D2, create_rows(D2, [2])).snapshot_id
    lake.write_partition("t", D2, create_rows(D2, [20], colour=pa.array(["red"])))
    with connect() as connection:
        with lake.create_view(connection, "v", "t", D1, D2):
            current = connection.execute("SELECT value, colour FROM v ORDER BY value").fetchall()
        with lake.create_view(connection, "v", "t", D2, D3, snapshot_id):
            before = connection.execute("SELECT value FROM v").fetchall()
        with lake.create_view(connection, "v", "t", D3, D3):
            rows_without_window = connection.execute("SELECT value FROM v").fetchall()
    assert (current, before, rows_without_window) == ([(1, None), (20, "red")], [(2,)], [])
