"""Test `sync` killed at random moments: each day has its old or its new rows, and the next run stages all of them."""

import datetime as dt
from typing import Any

import pytest

from pipelines.ingestion import watermarks
from pipelines.lake import Lake
from pipelines.steps import sync
from tests.tools.kill_points import draw_moments, is_killed, run_until

DAYS = [dt.date(2026, 2, n) for n in (1, 2)]
ROWS = 300


def put_orders(orders: Any, state: str, first_cursor: int) -> None:
    """Write all orders of both days with a state; each has a larger cursor than before."""
    orders.execute(
        "DELETE FROM orders",
        f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {2 * ROWS - 1}) "
        f"INSERT INTO orders SELECT CASE WHEN i < {ROWS} THEN '{DAYS[0]}' ELSE '{DAYS[1]}' END, i, '{state}', "
        f"i + {first_cursor} FROM n",
    )


def read_states() -> list[list[tuple[str, int]]]:
    """Return for each day the states of its orders, with the number of orders."""
    tables = [Lake.open().read_partition("orders_raw", day) for day in DAYS]
    assert [sorted(table["number"].to_pylist()) for table in tables] == [
        list(range(ROWS)), list(range(ROWS, 2 * ROWS)),
    ]  # fmt: skip
    counts = [table["state"].value_counts().to_pylist() for table in tables]
    return [sorted((count["values"], count["counts"]) for count in day_counts) for day_counts in counts]


@pytest.mark.parametrize("kills", [2, pytest.param(30, marks=pytest.mark.soak)])
def test_a_killed_sync_stages_the_old_rows_of_a_day_or_the_new_ones(kills: int, commands: Any, orders: Any) -> None:
    spec = sync.SyncSpec(dataset="orders", folder=orders.folder)
    options = ("sync", "--dataset", "orders", "--folder", str(orders.folder))
    put_orders(orders, "0", 1)
    sync.run(spec)
    put_orders(orders, "1", ROWS * 2 + 1)
    whole_run = run_until(commands, 0, *options, datasets=str(orders.folder))
    for number, moment in enumerate(draw_moments(whole_run, kills, seed=8), start=2):
        before = watermarks.read_watermark("orders")
        put_orders(orders, str(number), number * ROWS * 2 + 1)
        assert is_killed(run_until(commands, moment, *options, datasets=str(orders.folder))), moment
        old_or_new = [[(str(number - 1), ROWS)], [(str(number), ROWS)]]
        states = read_states()
        assert all(state in old_or_new for state in states), (moment, states)
        is_whole = states == [old_or_new[1]] * 2
        assert watermarks.read_watermark("orders") == before or is_whole, "the watermark moves last"
        sync.run(spec)
        assert read_states() == [[(str(number), ROWS)]] * 2
        assert watermarks.read_watermark("orders") == str((number + 1) * ROWS * 2)
