"""Test the lake: writes of other days, writers at the same time, and writers that are killed."""

import datetime as dt
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines.errors import DataError
from pipelines.lake import Lake

D1, D2, D3, D9 = (dt.date(2013, 1, day) for day in (1, 2, 3, 9))


def create_rows(day: dt.date, value: int = 0, number: int = 50) -> pa.Table:
    """Return `number` rows of a day, all with this value."""
    return pa.table(
        {"date": pa.array([day] * number, pa.date32()), "n": pa.array(range(number), pa.int32()),
         "value": pa.array([value] * number, pa.int64())}
    )  # fmt: skip


def count_snapshots(lake: Lake, name: str) -> int:
    return len(lake.catalog.load_table(("leeway", name)).snapshots())


def test_a_written_partition_is_read_back(home: Path) -> None:
    lake = Lake.open()
    commit = lake.write_partition("t", D1, create_rows(D1, 1))
    assert commit.changed
    assert lake.read_partition("t", D1).equals(create_rows(D1, 1))
    assert lake.read_partition("t", D2).num_rows == 0
    assert lake.count_rows_by_day("t") == {D1: 50}
    assert Lake.open().read_partition("t", D1).equals(create_rows(D1, 1))


def test_real_rows_are_read_back_unchanged(home: Path, day_rows: Callable[[str], pa.Table]) -> None:
    lake, real = Lake.open(), day_rows("2013-11-03")
    lake.write_partition("flights", dt.date(2013, 11, 3), real)
    assert lake.read_partition("flights", dt.date(2013, 11, 3)).to_pylist() == real.to_pylist()
    assert not lake.write_partition("flights", dt.date(2013, 11, 3), real).changed


def test_equal_rows_commit_nothing(home: Path) -> None:
    lake = Lake.open()
    first = lake.write_partition("t", D1, create_rows(D1, 1))
    lake.write_partition("t", D2, create_rows(D2, 1))
    count = count_snapshots(lake, "t")
    repeat = lake.write_partition("t", D1, create_rows(D1, 1))
    assert not repeat.changed
    assert count_snapshots(lake, "t") == count
    assert lake.read_window("t", D1, D1, repeat.snapshot_id).equals(create_rows(D1, 1))
    assert lake.write_partition("t", D1, create_rows(D1, 2)).changed
    assert lake.read_partition("t", D1).equals(create_rows(D1, 2))
    assert lake.read_partition("t", D2).equals(create_rows(D2, 1))
    assert first.snapshot_id != lake.write_partition("t", D1, create_rows(D1, 1, 49)).snapshot_id
    assert lake.count_rows_by_day("t") == {D1: 49, D2: 50}


def create_model_rows(day: dt.date, model: str, value: int = 0, number: int = 50, at: int = 0) -> pa.Table:
    """Return rows of a day and a model. `at` is the moment of the write."""
    table = create_rows(day, value, number).append_column("model", pa.array([model] * number))
    return table.append_column("at", pa.array([at] * number, pa.int64()))


def test_one_part_of_a_partition_can_be_replaced_and_cleared(home: Path) -> None:
    lake = Lake.open()
    for day, model in ((D1, "a"), (D1, "b"), (D2, "a")):
        assert lake.write_partition("t", day, create_model_rows(day, model, 1), part_values={"model": model}).changed
    before = {model: lake.read_partition("t", D1).filter(pc.equal(pc.field("model"), model)) for model in "ab"}
    assert lake.write_partition("t", D1, create_model_rows(D1, "a", 2, 60), part_values={"model": "a"}).changed
    assert lake.count_rows_by_day("t") == {D1: 110, D2: 50}
    assert lake.count_rows_of_partitions("t", [D1, D2]) == {D1: 110, D2: 50}
    after = lake.read_partition("t", D1)
    assert after.filter(pc.equal(pc.field("model"), "b")).equals(before["b"])
    assert after.filter(pc.equal(pc.field("model"), "a"))["value"].to_pylist() == [2] * 60
    assert not lake.write_partition("t", D1, create_model_rows(D1, "a", 2, 60), part_values={"model": "a"}).changed
    assert lake.clear_partition("t", D1, {"model": "a"}) and not lake.clear_partition("t", D1, {"model": "a"})
    assert lake.read_partition("t", D1).equals(before["b"])
    assert lake.count_rows_by_day("t") == {D1: 50, D2: 50}


def test_ignored_columns_do_not_change_a_row(home: Path) -> None:
    lake, part_values = Lake.open(), {"model": "a"}
    lake.write_partition("t", D1, create_model_rows(D1, "a", 1, at=1), ["n"], part_values, ["at"])
    assert not lake.write_partition("t", D1, create_model_rows(D1, "a", 1, at=2), ["n"], part_values, ["at"]).changed
    assert set(lake.read_partition("t", D1)["at"].to_pylist()) == {1}
    assert (
        lake.write_partition("t", D1, create_model_rows(D1, "a", 3, at=4), ["n"], part_values, ["at"]).changes.changed
        == 50
    )
    assert set(lake.read_partition("t", D1)["at"].to_pylist()) == {4}
    assert lake.write_partition("t", D1, create_model_rows(D1, "a", 3, at=5), ["n"], part_values).changed, (
        "the negative control: the column is not ignored"
    )


@pytest.mark.parametrize(
    "rows",
    [
        create_rows(D2),
        pa.concat_tables([create_rows(D1), create_rows(D2)]),
        create_rows(D1, number=0),
        create_rows(D1).drop_columns(["value"]),
        create_rows(D1).drop_columns(["date"]),
        create_rows(D1).set_column(2, "value", pa.array(["a word"] * 50)),
        create_rows(D1).set_column(2, "value", pa.array([[1]] * 50)),
        create_rows(D1).set_column(0, "date", pa.array([None] * 50, pa.date32())),
    ],
    ids=["another day", "two days", "no rows", "a missing column", "no column date", "words", "lists", "null dates"],
)
def test_unsuitable_rows_are_refused_and_change_nothing(home: Path, rows: pa.Table) -> None:
    lake = Lake.open()
    lake.write_partition("t", D1, create_rows(D1, 1))
    with pytest.raises(DataError):
        lake.write_partition("t", D1, rows)
    assert lake.read_partition("t", D1).equals(create_rows(D1, 1))
    assert count_snapshots(lake, "t") == 1


def test_refused_rows_create_no_table(home: Path) -> None:
    with pytest.raises(DataError):
        Lake.open().write_partition("t", D1, create_rows(D2))
    assert Lake.open().count_rows_by_day("t") == {}


def test_a_key_without_its_column_is_named_and_changes_nothing(home: Path) -> None:
    lake = Lake.open()
    lake.write_partition("t", D1, create_rows(D1, 1))
    with pytest.raises(DataError, match="no column id_of_row, which the dataset's key names"):
        lake.write_partition("t", D1, create_rows(D1, 2), key=("date", "id_of_row"))
    assert count_snapshots(lake, "t") == 1


def test_a_missing_table_or_snapshot_is_named(home: Path) -> None:
    lake = Lake.open()
    with pytest.raises(DataError, match="no table t"):
        lake.read_partition("t", D1)
    with pytest.raises(DataError, match="no table t"):
        lake.pin_window("t", D1, D2)
    lake.write_partition("t", D1, create_rows(D1))
    with pytest.raises(DataError, match="no snapshot 12345"):
        lake.read_window("t", D1, D1, 12345)


def test_the_pinned_snapshot_changes_only_with_its_days(home: Path) -> None:
    lake = Lake.open()
    for day in (D1, D2):
        lake.write_partition("t", day, create_rows(day, 1))
    first_pin = lake.pin_window("t", D1, D2)
    lake.write_partition("t", D9, create_rows(D9, 1))
    lake.write_partition("t", D3, create_rows(D3, 1))
    lake.write_partition("t", D9, create_rows(D9, 2))
    lake.write_partition("t", D1, create_rows(D1, 1))  # equal rows
    assert lake.pin_window("t", D1, D2) == first_pin
    assert lake.pin_window("t", D2, D2) == first_pin
    lake.write_partition("t", D1, create_rows(D1, 7))
    second_pin = lake.pin_window("t", D1, D2)
    assert second_pin != first_pin
    assert lake.pin_window("t", D2, D2) == first_pin, "the second day did not change"
    assert set(lake.read_window("t", D1, D2, first_pin)["value"].to_pylist()) == {1}
    assert set(lake.read_window("t", D1, D2, second_pin)["value"].to_pylist()) == {1, 7}


def test_a_window_is_read_at_its_snapshot(home: Path) -> None:
    lake = Lake.open()
    for day in (D1, D2, D3):
        lake.write_partition("t", day, create_rows(day, 1))
    snapshot_id = lake.pin_window("t", D1, D2)
    lake.write_partition("t", D2, create_rows(D2, 2, 10))
    window = lake.read_window("t", D1, D2, snapshot_id)
    assert (window.num_rows, set(window["date"].to_pylist())) == (100, {D1, D2})
    assert lake.read_window("t", D1, D2, lake.pin_window("t", D1, D2)).num_rows == 60


def test_a_commit_of_another_program_counts_as_a_change_of_the_window(home: Path) -> None:
    lake = Lake.open()
    lake.write_partition("t", D1, create_rows(D1, 1))
    snapshot_id = lake.pin_window("t", D1, D1)
    lake.catalog.load_table(("leeway", "t")).append(create_rows(D9, 1))
    assert lake.pin_window("t", D1, D1) != snapshot_id


PREAMBLE = """
import sys
sys.path.insert(0, sys.argv[1])
from test_lake import create_rows
from pipelines.lake import Lake
"""
WRITE_DIFFERENT_DAYS = (
    PREAMBLE
    + """
import datetime as dt
writer, ready = int(sys.argv[2]), sys.stdin.readline()
for n in range(4):
    day = dt.date(2013, 1 + writer, 1 + n)
    Lake.open().write_partition("t", day, create_rows(day, writer))
"""
)
WRITE_SAME_DAY = (
    PREAMBLE
    + """
import datetime as dt
writer, ready = int(sys.argv[2]), sys.stdin.readline()
day = dt.date(2013, 1, 1)
for n in range(4):
    Lake.open().write_partition("t", day, create_rows(day, writer * 100 + n, 10 + writer))
"""
)


def run_together(commands: Any, code: str, number: int) -> None:
    """Let `number` processes write at the same time to a lake that does not exist yet, and wait for their ends."""
    folder = str(Path(__file__).parent)
    children = [
        commands.start(sys.executable, "-c", code, folder, str(n), stdin=subprocess.PIPE) for n in range(number)
    ]
    exit_codes = [child.poll() for child in children]
    assert exit_codes == [None] * number
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        err = child.communicate(timeout=200)[1]
        assert child.returncode == 0, err[-2_000:]


@pytest.mark.soak
def test_six_writers_of_different_days_lose_no_rows(commands: Any) -> None:
    run_together(commands, WRITE_DIFFERENT_DAYS, 6)
    lake = Lake.open()
    assert lake.count_rows_by_day("t") == {
        dt.date(2013, 1 + writer, 1 + n): 50 for writer in range(6) for n in range(4)
    }
    for day in lake.count_rows_by_day("t"):
        assert lake.read_partition("t", day).equals(create_rows(day, day.month - 1))


def test_four_writers_of_one_day_leave_the_rows_of_one_writer(commands: Any) -> None:
    run_together(commands, WRITE_SAME_DAY, 4)
    lake = Lake.open()
    last_rows = lake.read_partition("t", D1)
    table = lake.catalog.load_table(("leeway", "t"))
    for snapshot in [*table.snapshots(), table.current_snapshot()]:
        rows = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        assert len(set(rows["value"].to_pylist())) <= 1, "the rows are of two writers"
        assert rows.num_rows in (0, *(10 + writer for writer in range(4)))
    value = last_rows["value"].to_pylist()[0]
    assert value % 100 == 3, "the rows are of the last write of a writer"
    assert last_rows.num_rows == 10 + value // 100


WRITE_FOREVER = (
    PREAMBLE
    + """
import datetime as dt, itertools
lake = Lake.open()
print("ready", flush=True)
for n in itertools.count(1):
    lake.write_partition("t", dt.date(2013, 1, 1), create_rows(dt.date(2013, 1, 1), n, 5_000))
"""
)


@pytest.mark.parametrize("kills", [3, pytest.param(6, marks=pytest.mark.soak)])
def test_a_killed_writer_leaves_the_old_partition_or_the_new_one(commands: Any, kills: int) -> None:
    lake, randomness = Lake.open(), random.Random(11)
    lake.write_partition("t", D1, create_rows(D1, 0, 5_000))
    lake.write_partition("t", D2, create_rows(D2, 5))
    for attempt in range(kills):
        child = commands.start(sys.executable, "-c", WRITE_FOREVER, str(Path(__file__).parent))
        assert child.stdout.readline() == "ready\n"
        values_read, deadline = set(), time.monotonic() + randomness.uniform(0.1, 1.0)
        # The kill comes at a random moment. The reads until then are checked.
        while not values_read or time.monotonic() < deadline:
            rows = lake.read_partition("t", D1)
            values = set(rows["value"].to_pylist())
            assert (rows.num_rows, len(values)) == (5_000, 1), "a read gave the rows of two writes"
            values_read |= values
        child.send_signal(signal.SIGKILL)
        child.wait()
        rows = lake.read_partition("t", D1)
        assert (rows.num_rows, len(set(rows["value"].to_pylist()))) == (5_000, 1)
        assert lake.read_partition("t", D2).equals(create_rows(D2, 5))
        assert lake.write_partition("t", D1, create_rows(D1, -1 - attempt, 5_000)).changed, "the next write works"
        assert set(lake.read_partition("t", D1)["value"].to_pylist()) == {-1 - attempt}


WRITE_ONCE = (
    PREAMBLE
    + """
import datetime as dt
Lake.open().write_partition("t", dt.date(2013, 1, 1), create_rows(dt.date(2013, 1, 1)))
"""
)


def test_environment_variables_choose_another_catalog(commands: Any, home: Path, tmp_path: Path) -> None:
    env = {
        "PYICEBERG_CATALOG__LEEWAY__TYPE": "sql",
        "PYICEBERG_CATALOG__LEEWAY__URI": f"sqlite:///{tmp_path}/other.db",
        "PYICEBERG_CATALOG__LEEWAY__WAREHOUSE": (tmp_path / "warehouse").as_uri(),
    }
    result = commands.run(sys.executable, "-c", WRITE_ONCE, str(Path(__file__).parent), env=env)
    assert result.code == 0, result.err
    assert (tmp_path / "other.db").exists()
    assert list((tmp_path / "warehouse").rglob("*.parquet"))
    assert not (home / "lake").exists()


def test_versions_of_days_are_equal_if_their_rows_are_equal(home: Path) -> None:
    lake, days = Lake.open(), [D1, D2, D3]
    assert lake.find_partition_versions("t", days) == {}
    lake.write_partition("t", D1, create_rows(D1, 1))
    lake.write_partition("t", D2, create_rows(D2, 1))
    first = lake.find_partition_versions("t", days)
    assert set(first) == {D1, D2}
    lake.write_partition("t", D9, create_rows(D9, 1))
    lake.write_partition("t", D1, create_rows(D1, 1))
    assert lake.find_partition_versions("t", days) == first, "another day, or equal rows, change no version"
    lake.write_partition("t", D1, create_rows(D1, 2))
    changed_versions = lake.find_partition_versions("t", days)
    assert changed_versions[D1] != first[D1] and changed_versions[D2] == first[D2]
    lake.write_partition("t", D1, create_rows(D1, 1))
    assert lake.find_partition_versions("t", days) == first, "the first rows are back"
    lake.clear_partition("t", D2)
    assert lake.find_partition_versions("t", days)[D2] != first[D2]
