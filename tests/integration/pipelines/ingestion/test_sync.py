"""Test the step sync: it upserts by key what changed in a source without partitions, then stores the watermark."""

import datetime as dt
import json
import math
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from pipelines.contract import Changes
from pipelines.dataset import Dataset
from pipelines.errors import ConflictError, DataError, SpecError
from pipelines.ingestion import changes, watermarks
from pipelines.lake import Lake
from pipelines.lake.catalog import load_table
from pipelines.steps import ingest, sync

D1, D2, D3, D4 = (dt.date(2026, 1, n) for n in (1, 2, 3, 4))
ORDER_COLUMNS = pa.schema(
    [("date", pa.date32()), ("number", pa.int64()), ("share", pa.float64()), ("changed", pa.int64())]
)
KILLED_SYNC = """
from pipelines.lake import Lake
write, remaining = Lake.write_partition, [{writes}]
def write_or_die(*arguments, **options):
    remaining[0] -= 1
    if remaining[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return write(*arguments, **options)
Lake.write_partition = write_or_die
"""


def sync_orders(orders: Any, **fields: Any) -> sync.SyncResult:
    return sync.run(sync.SyncSpec(dataset="orders", folder=orders.folder, **fields))


def read_states(day: dt.date) -> dict[int, str]:
    """Return the state of each order of a day, by the order's number. Each number must occur once."""
    rows = Lake.open().read_partition("orders_raw", day).to_pylist()
    assert len({row["number"] for row in rows}) == len(rows)
    return {row["number"]: row["state"] for row in rows}


def test_the_first_sync_reads_all_rows_and_the_next_reads_none(orders: Any, home: Path) -> None:
    result = sync_orders(orders)
    assert (result.rows, result.watermark, result.partitions) == (5, "5", [D1, D2, D3])
    assert [(change.partition, change.rows, change.new) for change in result.changed] == [
        (D1, 2, True),
        (D2, 2, True),
        (D3, 1, True),
    ]
    assert json.loads((home / "watermarks/orders.json").read_text()) == {"watermark": "5"}
    snapshots = len(load_table(Lake.open().catalog, "orders_raw").snapshots())
    repeat = sync_orders(orders)
    assert (repeat.rows, repeat.watermark, repeat.partitions, repeat.changed) == (0, "5", [], [])
    assert len(load_table(Lake.open().catalog, "orders_raw").snapshots()) == snapshots


def test_changes_are_upserted_and_reported(orders: Any) -> None:
    sync_orders(orders)
    orders.put_order("2026-01-01", 1, "paid", 6)
    orders.put_order("2026-01-01", 6, "late", 7)
    orders.put_order("2026-01-04", 7, "new", 8)
    result = sync_orders(orders)
    assert (result.rows, result.watermark, result.partitions) == (3, "8", [D1, D4])
    assert [change.changes for change in result.changed] == [Changes(added=1, changed=1), Changes(added=1)]
    assert read_states(D1) == {1: "paid", 2: "new", 6: "late"}
    assert read_states(D2) == {3: "new", 5: "new"}
    assert read_states(D4) == {7: "new"}


def test_the_newest_of_two_changes_of_a_row_counts(orders: Any) -> None:
    """The source is a table of changes, in which a key can repeat."""
    orders.execute("DROP TABLE orders", "CREATE TABLE orders (date DATE, number INTEGER, state TEXT, changed INTEGER)")
    orders.execute("INSERT INTO orders VALUES ('2026-01-03', 4, 'new', 5)")
    orders.execute("INSERT INTO orders VALUES ('2026-01-03', 9, 'first', 6), ('2026-01-03', 9, 'last', 7)")
    sync_orders(orders)
    assert read_states(D3) == {4: "new", 9: "last"}


def test_rows_are_merged_as_a_loop_over_them_would(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys repeat, are null or NaN, and lie on both sides of the ends of batches."""
    monkeypatch.setattr(changes, "BATCH_ROWS", 2048)
    dataset, random = Dataset(name="orders", key=("date", "number", "share")), Random(4)
    old_keys = [(number, share) for number in [*range(3_000), None] for share in (0.5, math.nan, None)]
    new_keys = [(random.choice([*range(2_000, 4_000), None]), random.choice([0.5, math.nan])) for _ in range(6_000)]
    expected = {}
    for keys in (old_keys, new_keys):
        first = len(expected)
        rows = [{"date": D1, "number": n, "share": s, "changed": first + i} for i, (n, s) in enumerate(keys)]
        expected |= {(row["number"], str(row["share"])): row["changed"] for row in rows}
        table = pa.Table.from_pylist(rows, ORDER_COLUMNS)
        source = SimpleNamespace(cursor="changed", read_changes=lambda since, table=table: table.to_reader(1_000))
        result = sync.stage_changes(dataset, source, "")
        assert result.rows == len(keys)
    rows = Lake.open().read_partition("orders_raw", D1).to_pylist()
    assert {(row["number"], str(row["share"])): row["changed"] for row in rows} == expected
    assert len(rows) == len(expected)
    numbers = [math.inf if row["number"] is None else row["number"] for row in rows]
    assert numbers == sorted(numbers), "the rows are sorted by the key"


def test_equal_rows_of_the_lake_stay_until_their_key_changes(home: Path) -> None:
    """A table that `ingest` wrote may repeat a key."""
    rows = {"date": [D1] * 4, "number": [1, 1, 2, 2], "share": [0.5] * 4, "changed": [1, 2, 3, 4]}
    Lake.open().write_partition("orders_raw", D1, pa.table(rows, ORDER_COLUMNS))
    table = pa.table({"date": [D1], "number": [2], "share": [0.5], "changed": [5]}, ORDER_COLUMNS)
    source = SimpleNamespace(cursor="changed", read_changes=lambda since: table.to_reader())
    sync.stage_changes(Dataset(name="orders", key=("date", "number", "share")), source, "")
    assert sorted(Lake.open().read_partition("orders_raw", D1)["changed"].to_pylist()) == [1, 2, 5]


def test_a_watermark_in_the_request_does_not_change_the_stored_one(orders: Any, home: Path) -> None:
    assert sync_orders(orders, watermark="3").partitions == [D2, D3]
    assert not (home / "watermarks/orders.json").exists()
    result = sync_orders(orders, watermark="")
    assert (result.rows, result.partitions, [change.partition for change in result.changed]) == (
        5,
        [D1, D2, D3],
        [D1, D2],
    )
    repeat = sync_orders(orders, watermark="")
    assert (repeat.partitions, repeat.changed) == ([D1, D2, D3], []), (
        "the partitions are named, since they may not be published yet"
    )
    assert sync_orders(orders, watermark="5").watermark == "5"


@pytest.mark.parametrize("writes", [1, *(pytest.param(writes, marks=pytest.mark.soak) for writes in (0, 2))])
def test_a_killed_first_sync_loses_nothing(orders: Any, home: Path, writes: int) -> None:
    killed_run = orders.sync(preamble=KILLED_SYNC.format(writes=writes))
    assert killed_run.code == -9
    assert len(Lake.open().count_rows_by_day("orders_raw")) == writes
    assert watermarks.read_watermark("orders") is None
    result = orders.sync()
    assert result.code == 0, result.err
    assert json.loads(result.out)["partitions"] == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert len(json.loads(result.out)["changed"]) == 3 - writes
    assert read_states(D1) | read_states(D2) | read_states(D3) == dict.fromkeys(range(1, 6), "new")
    assert watermarks.read_watermark("orders") == "5"


def test_a_killed_later_sync_keeps_the_watermark(orders: Any) -> None:
    sync_orders(orders)
    orders.put_order("2026-01-01", 1, "paid", 6)
    orders.put_order("2026-01-03", 4, "paid", 7)
    assert orders.sync(preamble=KILLED_SYNC.format(writes=1)).code == -9
    assert watermarks.read_watermark("orders") == "5"
    assert (read_states(D1)[1], read_states(D3)[4]) == ("paid", "new")
    assert sync_orders(orders).watermark == "7"
    assert read_states(D3)[4] == "paid"


def test_an_added_column_is_accepted_and_a_removed_one_is_refused(orders: Any) -> None:
    sync_orders(orders)
    orders.execute("ALTER TABLE orders ADD COLUMN colour TEXT")
    orders.execute("REPLACE INTO orders VALUES ('2026-01-01', 1, 'paid', 6, 'red')")
    (change,) = sync_orders(orders).changed
    assert change.columns == ["added colour: string"]
    assert sorted(Lake.open().read_partition("orders_raw", D1)["colour"].to_pylist(), key=str) == [None, "red"]
    orders.execute("ALTER TABLE orders DROP COLUMN state", "UPDATE orders SET changed = 7 WHERE number = 1")
    with pytest.raises(DataError, match="column state is gone"):
        sync_orders(orders)
    assert (read_states(D1)[1], watermarks.read_watermark("orders")) == ("paid", "6")


def test_an_error_of_the_write_reaches_the_caller(orders: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB refuses to drop a view that an open result reads. That error must not replace the first one."""
    sync_orders(orders)
    orders.put_order("2026-01-01", 1, "paid", 6)

    def raise_disk_full(*arguments: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(Lake, "write_partition", raise_disk_full)
    with pytest.raises(OSError, match="No space left"):
        sync_orders(orders)


def test_a_row_without_a_day_is_refused(orders: Any) -> None:
    orders.put_order(None, 9, "new", 6)
    with pytest.raises(DataError, match="names no day"):
        sync_orders(orders)
    assert Lake.open().count_rows_by_day("orders_raw") == {}
    orders.put_order("2026-01-01", 9, "new", 6)
    assert sync_orders(orders).rows == 6


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"date": [D1, None], "changed": [1, 2]}, "1 rows have no date"),
        ({"date": [D1, D2], "changed": [1, None]}, "1 rows have no changed"),
        ({"date": ["2026-01-01"], "changed": [1]}, "column date holds string, not days"),
        ({"changed": [1]}, "column date is gone"),
        ({"date": [D1]}, "column changed is gone"),
    ],
)
def test_rows_of_a_custom_source_are_checked(home: Path, rows: dict[str, Any], message: str) -> None:
    source = SimpleNamespace(cursor="changed", read_changes=lambda since: pa.table(rows).to_reader())
    with pytest.raises(DataError, match=message), changes.read_changes(source, None, "mine", None):
        pass


def test_a_second_sync_at_the_same_time_is_refused(orders: Any) -> None:
    with watermarks.hold_sync_lock("orders"), pytest.raises(ConflictError, match="another sync of orders"):
        sync_orders(orders)
    assert sync_orders(orders).rows == 5


def test_ingest_and_sync_refuse_the_source_of_the_other(orders: Any) -> None:
    with pytest.raises(SpecError, match="source of flights has partitions; read it with the step `ingest`"):
        sync.run(sync.SyncSpec(dataset="flights"))
    with pytest.raises(SpecError, match="source of orders has no partitions; read it with the step `sync`"):
        ingest.run(ingest.IngestSpec(dataset="orders", partition=D1, folder=orders.folder))


@pytest.mark.parametrize("text", ["5", "{}", '{"watermark": 5}', "nonsense"])
def test_an_invalid_watermark_file_is_refused(orders: Any, home: Path, text: str) -> None:
    (home / "watermarks").mkdir(parents=True)
    (home / "watermarks/orders.json").write_text(text)
    with pytest.raises(DataError, match=r"orders\.json"):
        sync_orders(orders)
    assert Lake.open().count_rows_by_day("orders_raw") == {}
