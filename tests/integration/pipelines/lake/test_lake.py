"""The lake under everything that may happen to it: other days, other writers, death in the middle."""

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


def rows(day: dt.date, value: int = 0, number: int = 50) -> pa.Table:
    return pa.table(
        {"date": pa.array([day] * number, pa.date32()), "n": pa.array(range(number), pa.int32()),
         "value": pa.array([value] * number, pa.int64())}
    )  # fmt: skip


def snapshots(lake: Lake, name: str) -> int:
    return len(lake.catalog.load_table(("leeway", name)).snapshots())


def test_what_is_written_is_read(home: Path) -> None:
    lake = Lake.open()
    commit = lake.write_partition("t", D1, rows(D1, 1))
    assert commit.changed
    assert lake.read_partition("t", D1).equals(rows(D1, 1))
    assert lake.read_partition("t", D2).num_rows == 0
    assert lake.count_rows_by_day("t") == {D1: 50}
    assert Lake.open().read_partition("t", D1).equals(rows(D1, 1))


def test_real_rows_come_back_as_they_were(home: Path, day_rows: Callable[[str], pa.Table]) -> None:
    lake, real = Lake.open(), day_rows("2013-11-03")
    lake.write_partition("flights", dt.date(2013, 11, 3), real)
    assert lake.read_partition("flights", dt.date(2013, 11, 3)).to_pylist() == real.to_pylist()
    assert not lake.write_partition("flights", dt.date(2013, 11, 3), real).changed


def test_equal_rows_commit_nothing(home: Path) -> None:
    lake = Lake.open()
    first = lake.write_partition("t", D1, rows(D1, 1))
    lake.write_partition("t", D2, rows(D2, 1))
    count = snapshots(lake, "t")
    again = lake.write_partition("t", D1, rows(D1, 1))
    assert not again.changed
    assert snapshots(lake, "t") == count
    assert lake.read_window("t", D1, D1, again.snapshot_id).equals(rows(D1, 1))
    assert lake.write_partition("t", D1, rows(D1, 2)).changed
    assert lake.read_partition("t", D1).equals(rows(D1, 2))
    assert lake.read_partition("t", D2).equals(rows(D2, 1))
    assert first.snapshot_id != lake.write_partition("t", D1, rows(D1, 1, 49)).snapshot_id
    assert lake.count_rows_by_day("t") == {D1: 49, D2: 50}


def of_model(day: dt.date, model: str, value: int = 0, number: int = 50, at: int = 0) -> pa.Table:
    table = rows(day, value, number).append_column("model", pa.array([model] * number))
    return table.append_column("at", pa.array([at] * number, pa.int64()))


def test_a_part_of_a_partition_is_replaced_and_cleared_by_itself(home: Path) -> None:
    lake = Lake.open()
    for day, model in ((D1, "a"), (D1, "b"), (D2, "a")):
        assert lake.write_partition("t", day, of_model(day, model, 1), part={"model": model}).changed
    before = {model: lake.read_partition("t", D1).filter(pc.equal(pc.field("model"), model)) for model in "ab"}
    assert lake.write_partition("t", D1, of_model(D1, "a", 2, 60), part={"model": "a"}).changed
    assert lake.count_rows_by_day("t") == {D1: 110, D2: 50}
    assert lake.count_rows_of_days("t", [D1, D2]) == {D1: 110, D2: 50}
    after = lake.read_partition("t", D1)
    assert after.filter(pc.equal(pc.field("model"), "b")).equals(before["b"])
    assert after.filter(pc.equal(pc.field("model"), "a"))["value"].to_pylist() == [2] * 60
    assert not lake.write_partition("t", D1, of_model(D1, "a", 2, 60), part={"model": "a"}).changed
    assert lake.clear_partition("t", D1, {"model": "a"}) and not lake.clear_partition("t", D1, {"model": "a"})
    assert lake.read_partition("t", D1).equals(before["b"])
    assert lake.count_rows_by_day("t") == {D1: 50, D2: 50}


def test_what_is_set_aside_makes_no_row_another_one(home: Path) -> None:
    lake, part = Lake.open(), {"model": "a"}
    lake.write_partition("t", D1, of_model(D1, "a", 1, at=1), ["n"], part, ["at"])
    assert not lake.write_partition("t", D1, of_model(D1, "a", 1, at=2), ["n"], part, ["at"]).changed
    assert set(lake.read_partition("t", D1)["at"].to_pylist()) == {1}
    assert lake.write_partition("t", D1, of_model(D1, "a", 3, at=4), ["n"], part, ["at"]).changes.changed == 50
    assert set(lake.read_partition("t", D1)["at"].to_pylist()) == {4}
    assert lake.write_partition("t", D1, of_model(D1, "a", 3, at=5), ["n"], part).changed, "the control: not set aside"


@pytest.mark.parametrize(
    "wrong",
    [
        rows(D2),
        pa.concat_tables([rows(D1), rows(D2)]),
        rows(D1, number=0),
        rows(D1).drop_columns(["value"]),
        rows(D1).drop_columns(["date"]),
        rows(D1).set_column(2, "value", pa.array(["a word"] * 50)),
        rows(D1).set_column(2, "value", pa.array([[1]] * 50)),
        rows(D1).set_column(0, "date", pa.array([None] * 50, pa.date32())),
    ],
    ids=["another day", "two days", "none", "a column less", "no date", "words", "lists", "no day"],
)
def test_rows_that_do_not_belong_are_refused_and_change_nothing(home: Path, wrong: pa.Table) -> None:
    lake = Lake.open()
    lake.write_partition("t", D1, rows(D1, 1))
    with pytest.raises(DataError):
        lake.write_partition("t", D1, wrong)
    assert lake.read_partition("t", D1).equals(rows(D1, 1))
    assert snapshots(lake, "t") == 1


def test_refused_rows_make_no_table(home: Path) -> None:
    with pytest.raises(DataError):
        Lake.open().write_partition("t", D1, rows(D2))
    assert Lake.open().count_rows_by_day("t") == {}


def test_no_table_no_snapshot(home: Path) -> None:
    lake = Lake.open()
    with pytest.raises(DataError, match="no table t"):
        lake.read_partition("t", D1)
    with pytest.raises(DataError, match="no table t"):
        lake.pin_window("t", D1, D2)
    lake.write_partition("t", D1, rows(D1))
    with pytest.raises(DataError, match="no snapshot 12345"):
        lake.read_window("t", D1, D1, 12345)


def test_a_pin_stays_while_other_days_arrive_and_moves_when_its_days_change(home: Path) -> None:
    lake = Lake.open()
    for day in (D1, D2):
        lake.write_partition("t", day, rows(day, 1))
    pinned = lake.pin_window("t", D1, D2)
    lake.write_partition("t", D9, rows(D9, 1))
    lake.write_partition("t", D3, rows(D3, 1))
    lake.write_partition("t", D9, rows(D9, 2))
    lake.write_partition("t", D1, rows(D1, 1))  # equal rows
    assert lake.pin_window("t", D1, D2) == pinned
    assert lake.pin_window("t", D2, D2) == pinned
    lake.write_partition("t", D1, rows(D1, 7))
    moved = lake.pin_window("t", D1, D2)
    assert moved != pinned
    assert lake.pin_window("t", D2, D2) == pinned, "the second day did not change"
    assert set(lake.read_window("t", D1, D2, pinned)["value"].to_pylist()) == {1}
    assert set(lake.read_window("t", D1, D2, moved)["value"].to_pylist()) == {1, 7}


def test_a_window_is_its_days_as_they_were(home: Path) -> None:
    lake = Lake.open()
    for day in (D1, D2, D3):
        lake.write_partition("t", day, rows(day, 1))
    pinned = lake.pin_window("t", D1, D2)
    lake.write_partition("t", D2, rows(D2, 2, 10))
    old = lake.read_window("t", D1, D2, pinned)
    assert (old.num_rows, set(old["date"].to_pylist())) == (100, {D1, D2})
    assert lake.read_window("t", D1, D2, lake.pin_window("t", D1, D2)).num_rows == 60


def test_a_commit_without_our_mark_may_have_touched_the_window(home: Path) -> None:
    lake = Lake.open()
    lake.write_partition("t", D1, rows(D1, 1))
    pinned = lake.pin_window("t", D1, D1)
    lake.catalog.load_table(("leeway", "t")).append(rows(D9, 1))
    assert lake.pin_window("t", D1, D1) != pinned


PREAMBLE = """
import sys
sys.path.insert(0, sys.argv[1])
from test_lake import rows
from pipelines.lake import Lake
"""
OTHER_DAYS = (
    PREAMBLE
    + """
import datetime as dt
me, ready = int(sys.argv[2]), sys.stdin.readline()
for n in range(4):
    day = dt.date(2013, 1 + me, 1 + n)
    Lake.open().write_partition("t", day, rows(day, me))
"""
)
SAME_DAY = (
    PREAMBLE
    + """
import datetime as dt
me, ready = int(sys.argv[2]), sys.stdin.readline()
for n in range(4):
    Lake.open().write_partition("t", dt.date(2013, 1, 1), rows(dt.date(2013, 1, 1), me * 100 + n, 10 + me))
"""
)


def together(commands: Any, code: str, number: int) -> None:
    """`number` real processes at once, from one signal, on a lake that is not there yet."""
    here = str(Path(__file__).parent)
    children = [commands.start(sys.executable, "-c", code, here, str(n), stdin=subprocess.PIPE) for n in range(number)]
    time_to_import = [child.poll() for child in children]
    assert time_to_import == [None] * number
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        err = child.communicate(timeout=200)[1]
        assert child.returncode == 0, err[-2_000:]


def test_six_writers_of_other_days_lose_nothing(commands: Any) -> None:
    together(commands, OTHER_DAYS, 6)
    lake = Lake.open()
    assert lake.count_rows_by_day("t") == {dt.date(2013, 1 + me, 1 + n): 50 for me in range(6) for n in range(4)}
    for day in lake.count_rows_by_day("t"):
        assert lake.read_partition("t", day).equals(rows(day, day.month - 1))


def test_four_writers_of_one_day_end_with_one_of_theirs(commands: Any) -> None:
    together(commands, SAME_DAY, 4)
    lake = Lake.open()
    kept = lake.read_partition("t", D1)
    table = lake.catalog.load_table(("leeway", "t"))
    for snapshot in [*table.snapshots(), table.current_snapshot()]:
        seen = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        assert len(set(seen["value"].to_pylist())) <= 1, "a mixture of two writers"
        assert seen.num_rows in (0, *(10 + me for me in range(4)))
    value = kept["value"].to_pylist()[0]
    assert value % 100 == 3, "the last write of some writer"
    assert kept.num_rows == 10 + value // 100


FOREVER = (
    PREAMBLE
    + """
import datetime as dt, itertools
lake = Lake.open()
print("ready", flush=True)
for n in itertools.count(1):
    lake.write_partition("t", dt.date(2013, 1, 1), rows(dt.date(2013, 1, 1), n, 5_000))
"""
)


@pytest.mark.parametrize("kills", [3, pytest.param(6, marks=pytest.mark.soak)])
def test_kill_9_of_a_writer_leaves_the_old_partition_or_the_new(commands: Any, kills: int) -> None:
    lake, chance = Lake.open(), random.Random(11)
    lake.write_partition("t", D1, rows(D1, 0, 5_000))
    lake.write_partition("t", D2, rows(D2, 5))
    for attempt in range(kills):
        child = commands.start(sys.executable, "-c", FOREVER, str(Path(__file__).parent))
        assert child.stdout.readline() == "ready\n"
        seen, die = set(), time.monotonic() + chance.uniform(0.1, 1.0)
        while not seen or time.monotonic() < die:  # a moment, not a wait: what is read meanwhile is checked
            found = lake.read_partition("t", D1)
            values = set(found["value"].to_pylist())
            assert (found.num_rows, len(values)) == (5_000, 1), "a reader saw a mixture"
            seen |= values
        child.send_signal(signal.SIGKILL)
        child.wait()
        found = lake.read_partition("t", D1)
        assert (found.num_rows, len(set(found["value"].to_pylist()))) == (5_000, 1)
        assert lake.read_partition("t", D2).equals(rows(D2, 5))
        assert lake.write_partition("t", D1, rows(D1, -1 - attempt, 5_000)).changed, "the next write works"
        assert set(lake.read_partition("t", D1)["value"].to_pylist()) == {-1 - attempt}


ELSEWHERE = (
    PREAMBLE
    + """
import datetime as dt
Lake.open().write_partition("t", dt.date(2013, 1, 1), rows(dt.date(2013, 1, 1)))
"""
)


def test_another_catalog_by_configuration(commands: Any, home: Path, tmp_path: Path) -> None:
    env = {
        "PYICEBERG_CATALOG__LEEWAY__TYPE": "sql",
        "PYICEBERG_CATALOG__LEEWAY__URI": f"sqlite:///{tmp_path}/other.db",
        "PYICEBERG_CATALOG__LEEWAY__WAREHOUSE": (tmp_path / "elsewhere").as_uri(),
    }
    done = commands.run(sys.executable, "-c", ELSEWHERE, str(Path(__file__).parent), env=env)
    assert done.code == 0, done.err
    assert (tmp_path / "other.db").exists()
    assert list((tmp_path / "elsewhere").rglob("*.parquet"))
    assert not (home / "lake").exists()


def test_versions_of_days_are_equal_where_their_rows_are(home: Path) -> None:
    lake, days = Lake.open(), [D1, D2, D3]
    assert lake.find_versions("t", days) == {}
    lake.write_partition("t", D1, rows(D1, 1))
    lake.write_partition("t", D2, rows(D2, 1))
    first = lake.find_versions("t", days)
    assert set(first) == {D1, D2}
    lake.write_partition("t", D9, rows(D9, 1))
    lake.write_partition("t", D1, rows(D1, 1))
    assert lake.find_versions("t", days) == first, "another day, or the same rows"
    lake.write_partition("t", D1, rows(D1, 2))
    changed = lake.find_versions("t", days)
    assert changed[D1] != first[D1] and changed[D2] == first[D2]
    lake.write_partition("t", D1, rows(D1, 1))
    assert lake.find_versions("t", days) == first, "put back"
    lake.clear_partition("t", D2)
    assert lake.find_versions("t", days)[D2] != first[D2]
