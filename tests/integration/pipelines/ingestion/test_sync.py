"""Changes of a source without partitions: upserted by key, behind a watermark that moves last."""

import datetime as dt
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from pipelines.contract import Changes
from pipelines.errors import ConflictError, DataError, SpecError
from pipelines.ingestion import changes, watermarks
from pipelines.lake import Lake
from pipelines.lake.catalog import load_table
from pipelines.steps import ingest, sync

D1, D2, D3, D4 = (dt.date(2026, 1, n) for n in (1, 2, 3, 4))
DYING = """
from pipelines.lake import Lake
write, left = Lake.write_partition, [{writes}]
def dying(*given, **named):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return write(*given, **named)
Lake.write_partition = dying
"""


def synced(orders: Any, **more: Any) -> sync.SyncResult:
    return sync.run(sync.SyncSpec(dataset="orders", folder=orders.folder, **more))


def states(day: dt.date) -> dict[int, str]:
    rows = Lake.open().read_partition("orders_raw", day).to_pylist()
    assert len({row["number"] for row in rows}) == len(rows)
    return {row["number"]: row["state"] for row in rows}


def test_the_first_sync_reads_all_and_the_next_nothing(orders: Any, home: Path) -> None:
    told = synced(orders)
    assert (told.rows, told.watermark, told.partitions) == (5, "5", [D1, D2, D3])
    assert [(one.partition, one.rows, one.new) for one in told.changed] == [(D1, 2, True), (D2, 2, True), (D3, 1, True)]
    assert json.loads((home / "watermarks/orders.json").read_text()) == {"watermark": "5"}
    snapshots = len(load_table(Lake.open().catalog, "orders_raw").snapshots())
    again = synced(orders)
    assert (again.rows, again.watermark, again.partitions, again.changed) == (0, "5", [], [])
    assert len(load_table(Lake.open().catalog, "orders_raw").snapshots()) == snapshots


def test_what_changed_is_upserted_and_told(orders: Any) -> None:
    synced(orders)
    orders.put_order("2026-01-01", 1, "paid", 6)
    orders.put_order("2026-01-01", 6, "late", 7)
    orders.put_order("2026-01-04", 7, "new", 8)
    told = synced(orders)
    assert (told.rows, told.watermark, told.partitions) == (3, "8", [D1, D4])
    assert [one.changes for one in told.changed] == [Changes(added=1, changed=1), Changes(added=1)]
    assert states(D1) == {1: "paid", 2: "new", 6: "late"}
    assert states(D2) == {3: "new", 5: "new"}
    assert states(D4) == {7: "new"}


def test_of_two_changes_of_a_row_the_newest_holds(orders: Any) -> None:
    """In a table of changes, where a key comes again."""
    orders.execute("DROP TABLE orders", "CREATE TABLE orders (date DATE, number INTEGER, state TEXT, changed INTEGER)")
    orders.execute("INSERT INTO orders VALUES ('2026-01-03', 4, 'new', 5)")
    orders.execute("INSERT INTO orders VALUES ('2026-01-03', 9, 'first', 6), ('2026-01-03', 9, 'last', 7)")
    synced(orders)
    assert states(D3) == {4: "new", 9: "last"}


def test_a_watermark_that_is_given_leaves_the_file_alone(orders: Any, home: Path) -> None:
    assert synced(orders, watermark="3").partitions == [D2, D3]
    assert not (home / "watermarks/orders.json").exists()
    told = synced(orders, watermark="")
    assert (told.rows, told.partitions, [one.partition for one in told.changed]) == (5, [D1, D2, D3], [D1, D2])
    same = synced(orders, watermark="")
    assert (same.partitions, same.changed) == ([D1, D2, D3], []), "named, since they may not be published yet"
    assert synced(orders, watermark="5").watermark == "5"


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_kill_9_in_the_middle_loses_nothing(orders: Any, home: Path, writes: int) -> None:
    died = orders.sync(preamble=DYING.format(writes=writes))
    assert died.code == -9
    assert len(Lake.open().count_rows_by_day("orders_raw")) == writes
    assert watermarks.read_watermark("orders") is None
    done = orders.sync()
    assert done.code == 0, done.err
    assert json.loads(done.out)["partitions"] == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert len(json.loads(done.out)["changed"]) == 3 - writes
    assert states(D1) | states(D2) | states(D3) == dict.fromkeys(range(1, 6), "new")
    assert watermarks.read_watermark("orders") == "5"


def test_kill_9_of_a_later_sync_keeps_the_watermark(orders: Any) -> None:
    synced(orders)
    orders.put_order("2026-01-01", 1, "paid", 6)
    orders.put_order("2026-01-03", 4, "paid", 7)
    assert orders.sync(preamble=DYING.format(writes=1)).code == -9
    assert watermarks.read_watermark("orders") == "5"
    assert (states(D1)[1], states(D3)[4]) == ("paid", "new")
    assert synced(orders).watermark == "7"
    assert states(D3)[4] == "paid"


def test_an_added_column_is_taken_in_and_one_that_is_gone_is_refused(orders: Any) -> None:
    synced(orders)
    orders.execute("ALTER TABLE orders ADD COLUMN colour TEXT")
    orders.execute("REPLACE INTO orders VALUES ('2026-01-01', 1, 'paid', 6, 'red')")
    (one,) = synced(orders).changed
    assert one.columns == ["added colour: string"]
    assert sorted(Lake.open().read_partition("orders_raw", D1)["colour"].to_pylist(), key=str) == [None, "red"]
    orders.execute("ALTER TABLE orders DROP COLUMN state", "UPDATE orders SET changed = 7 WHERE number = 1")
    with pytest.raises(DataError, match="column state is gone"):
        synced(orders)
    assert (states(D1)[1], watermarks.read_watermark("orders")) == ("paid", "6")


def test_an_error_of_the_write_is_told_and_no_other(orders: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB drops no view under an open result."""
    synced(orders)
    orders.put_order("2026-01-01", 1, "paid", 6)

    def full(*given: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(Lake, "write_partition", full)
    with pytest.raises(OSError, match="No space left"):
        synced(orders)


def test_a_row_without_a_day_is_refused(orders: Any) -> None:
    orders.put_order(None, 9, "new", 6)
    with pytest.raises(DataError, match="names no day"):
        synced(orders)
    assert Lake.open().count_rows_by_day("orders_raw") == {}
    orders.put_order("2026-01-01", 9, "new", 6)
    assert synced(orders).rows == 6


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"date": [D1, None], "changed": [1, 2]}, "1 rows have no date"),
        ({"date": [D1, D2], "changed": [1, None]}, "1 rows have no changed"),
        ({"date": ["2026-01-01"], "changed": [1]}, "column date holds string, not days"),
        ({"changed": [1]}, "column date is gone"),
        ({"date": [D1]}, "column changed is gone"),
    ],
)
def test_a_source_of_one_s_own_is_not_believed(home: Path, rows: dict[str, Any], said: str) -> None:
    source = SimpleNamespace(cursor="changed", changes=lambda since: pa.table(rows).to_reader())
    with pytest.raises(DataError, match=said), changes.read_changes(source, None, "mine", None):
        pass


def test_two_at_once_are_refused(orders: Any) -> None:
    with watermarks.hold_sync_lock("orders"), pytest.raises(ConflictError, match="another sync of orders"):
        synced(orders)
    assert synced(orders).rows == 5


def test_each_step_has_its_kind_of_source(orders: Any) -> None:
    with pytest.raises(SpecError, match="source of flights has partitions: the step `ingest` reads it"):
        sync.run(sync.SyncSpec(dataset="flights"))
    with pytest.raises(SpecError, match="source of orders has no partitions: the step `sync` reads it"):
        ingest.run(ingest.IngestSpec(dataset="orders", partition=D1, folder=orders.folder))


@pytest.mark.parametrize("text", ["5", "{}", '{"watermark": 5}', "nonsense"])
def test_a_watermark_that_is_none_is_bad_data(orders: Any, home: Path, text: str) -> None:
    (home / "watermarks").mkdir(parents=True)
    (home / "watermarks/orders.json").write_text(text)
    with pytest.raises(DataError, match=r"orders\.json"):
        synced(orders)
    assert Lake.open().count_rows_by_day("orders_raw") == {}
