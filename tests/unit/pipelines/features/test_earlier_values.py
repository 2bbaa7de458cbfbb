"""Test that a lookup without the partition in its key gives each row the newest value of an earlier partition."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import ibis
import pandas as pd
import pyarrow as pa
import pytest

from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.features.building import build_features, build_sorted_features
from pipelines.features.columns import list_lookups_of_earlier_partitions
from pipelines.features.earlier_values import find_first_needed_day, find_first_needed_partition, run_features
from pipelines.lookups import Lookup
from pipelines.partitions import Hour, Month
from pipelines.window import Days

FEATURES = {"orders_of_shop": "number", "weather": "category"}
DEFAULTS: dict[str, float | str | None] = {"orders_of_shop": 3, "weather": None}
ORDERS = [  # day, number, shop, weather
    (1, 10, "a", "sun"), (1, 11, "a", "sun"), (1, 12, "b", "rain"),
    (2, 20, "a", "snow"), (2, 21, "b", None),
    (4, 40, "a", "sun"), (4, 41, "b", "sun"), (4, 42, None, "sun"),
    (7, 70, "a", "fog"), (7, 71, "c", "fog"),
]  # fmt: skip
KNOWN = {
    10: (3, None), 11: (3, None), 12: (3, None),  # there is no earlier day
    20: (2, "sun"), 21: (1, "rain"),
    40: (1, "snow"), 41: (1, None),  # a value of two days before; a missing value is no default
    42: (3, None),  # the key is missing
    70: (3, None), 71: (3, None),  # the newest value is three days old; there is none
}  # fmt: skip


def count_orders(rows: ibis.Table) -> ibis.Table:
    columns = [rows.date, rows.shop, *([rows.hour] if "hour" in rows.columns else [])]
    return rows.mutate(orders_of_shop=rows.count().over(ibis.window(group_by=columns)))


@pytest.fixture(autouse=True)
def features(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every dataset the features of the orders."""
    monkeypatch.setattr(Dataset, "load_feature_function", lambda _: count_orders)


def make_dataset(*key: str, max_age: dt.timedelta = dt.timedelta(days=2), **fields: Any) -> Dataset:
    lookup = Lookup("shop", DEFAULTS, key, max_age)
    arguments: dict[str, Any] = {"key": ("date", "number"), "label": "late", **fields}
    return Dataset(name="orders", features=FEATURES, lookups=[lookup], **arguments)


def make_rows(orders: list[tuple[Any, ...]] = ORDERS) -> pa.Table:
    days, numbers, shops, weathers = zip(*orders, strict=True)
    dates = [dt.date(2013, 1, day) for day in days]
    columns = {"date": dates, "number": numbers, "shop": shops, "weather": weathers, "late": [True] * len(days)}
    return pa.table(columns).cast(
        pa.schema(
            [
                ("date", pa.date32()),
                ("number", pa.int64()),
                ("shop", pa.string()),
                ("weather", pa.string()),
                ("late", pa.bool_()),
            ]
        )
    )


def read(expression: ibis.Table) -> dict[int, tuple[float, str | None]]:
    """Return the features of each row by its number."""
    rows = expression.to_pyarrow().to_pylist()
    return {row["number"]: (row["orders_of_shop"], row["weather"]) for row in rows}


def test_a_row_gets_the_newest_value_of_an_earlier_day_or_the_defaults() -> None:
    dataset, rows = make_dataset("shop"), ibis.memtable(make_rows())
    assert read(build_sorted_features(dataset, rows)) == KNOWN
    later = read(build_sorted_features(dataset, rows, dt.datetime(2013, 1, 4, tzinfo=dt.UTC)))
    assert later == {number: values for number, values in KNOWN.items() if number >= 40}


def test_a_key_with_the_day_gives_the_values_of_the_own_day() -> None:
    """The control: then rows of other days make no difference."""
    dataset, rows = make_dataset("date", "shop"), ibis.memtable(make_rows())
    own = read(build_sorted_features(dataset, rows))
    assert own == read(build_features(dataset, rows)) and own[10] == (2, "sun") and own[42] == (1, "sun")


def test_features_do_not_change_with_rows_that_are_not_known_yet() -> None:
    """Each row keeps its features if the rows of its own and of all later days are others."""
    dataset, rows = make_dataset("shop"), make_rows()
    for day in (2, 4, 7):
        changed = [order if order[0] < day else (*order[:3], "storm") for order in ORDERS]
        more = [(order[0], order[1] + 5, *order[2:]) for order in changed if order[0] >= day]
        features = read(build_sorted_features(dataset, ibis.memtable(make_rows(changed + more))))
        same_day = [number for number in KNOWN if number // 10 <= day]
        assert {number: features[number] for number in same_day} == {number: KNOWN[number] for number in same_day}
    assert read(build_sorted_features(dataset, ibis.memtable(rows))) == KNOWN


def test_hours_get_the_values_of_an_earlier_hour() -> None:
    dataset = make_dataset("shop", max_age=dt.timedelta(hours=2), key=("date", "hour", "number"), partition="hour")
    numbers, hours = [1, 2, 3, 4], [22, 23, 0, 3]
    rows = make_rows([(1, 1, "a", "sun"), (1, 2, "a", "rain"), (2, 3, "a", "snow"), (2, 4, "a", "fog")])
    rows = rows.append_column("hour", pa.array(hours))
    expected = [(3, None), (1, "sun"), (1, "rain"), (3, None)]
    assert read(build_sorted_features(dataset, ibis.memtable(rows))) == dict(zip(numbers, expected, strict=True))
    by_day = make_dataset("date", "shop", key=("date", "hour", "number"), partition="hour")
    assert list_lookups_of_earlier_partitions(by_day), "the day is not the partition"
    own = make_dataset("date", "hour", "shop", key=("date", "hour", "number"), partition="hour")
    assert not list_lookups_of_earlier_partitions(own)


def test_the_rows_that_are_read_begin_earlier() -> None:
    day, begin = dt.date(2013, 1, 4), dt.datetime(2013, 1, 4, tzinfo=dt.UTC)
    assert find_first_needed_partition(make_dataset("shop"), day) == find_first_needed_day(make_dataset("shop"), begin)
    assert find_first_needed_day(make_dataset("shop"), begin) == dt.date(2013, 1, 2)
    assert find_first_needed_day(make_dataset("date", "shop"), begin) == day
    hours = make_dataset("shop", max_age=dt.timedelta(hours=2), key=("date", "hour", "number"), partition="hour")
    assert find_first_needed_partition(hours, Hour(day, 1)) == Hour(dt.date(2013, 1, 3), 23)
    months = make_dataset("shop", max_age=dt.timedelta(days=31), partition="month")
    assert find_first_needed_partition(months, Month(dt.date(2013, 3, 1))) == Month(dt.date(2013, 1, 1))


def run(dataset: Dataset, rows: pa.Table, first_day: int) -> dict[int, tuple[float, str | None]]:
    """Build features as the steps do, on an engine that holds all rows."""
    reads: list[Days | None] = []

    def engine(expression: Any, days: Days | None) -> Iterator[pa.RecordBatch]:
        reads.append(days)
        table = ibis.memtable(rows)
        yield from expression(table.filter(table.date >= days.first) if days else table).to_pyarrow().to_batches()

    begin = dt.datetime(2013, 1, first_day, tzinfo=dt.UTC)
    batches = list(run_features(engine, dataset, build_sorted_features, begin, dt.date(2013, 1, 31)))
    frame = pa.Table.from_batches(batches).to_pylist()
    assert reads[-1] == Days(find_first_needed_day(dataset, begin), dt.date(2013, 1, 31))
    return {row["number"]: (row["orders_of_shop"], row["weather"]) for row in frame}


def test_the_first_days_of_a_window_get_the_values_of_the_days_before_it() -> None:
    expected = {number: values for number, values in KNOWN.items() if number >= 40}
    assert run(make_dataset("shop"), make_rows(), 4) == expected


def test_several_values_of_a_key_in_one_partition_are_refused() -> None:
    rows = make_rows([*ORDERS, (4, 43, "a", "storm")])
    with pytest.raises(DataError, match=r"the lookup 'shop' of orders has several values for shop a in the partition"):
        run(make_dataset("shop"), rows, 4)
    assert pd.notna(run(make_dataset("shop"), make_rows(), 4)[40][0]), "the control"
