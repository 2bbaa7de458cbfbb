"""A lookup never fails: what the store does not give is the default, and is counted."""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Callable

import pyarrow as pa
import pytest

from pipelines.container.serving import lookups as lookups_module
from pipelines.container.serving.compiled_features import CompiledLookup
from pipelines.container.serving.lookups import LookupReader
from pipelines.container.serving.online_records import OnlineRecords, Record, StoreError
from pipelines.container.serving.values import format_values, iterate_identifiers, parse_value
from pipelines.datasets.flights import DATASET

DAY = dt.date(2013, 2, 1)
BEGIN = dt.datetime(2013, 2, 1, tzinfo=dt.UTC)
KEY_COLUMNS = ("leeway.key.date", "leeway.key.origin", "leeway.key.departs_hour")
HOUR = CompiledLookup("hour", "flights-hour-1", KEY_COLUMNS, DATASET.lookups[0].features, 86_400.0)
ROWS = pa.table(dict(zip(KEY_COLUMNS, [pa.array([DAY, DAY]), ["JFK", "LGA"], [8, 9]], strict=True)))


class Records(OnlineRecords):
    """A store in memory: whether drydock answers is tested elsewhere."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], Record] = {}
        self.reads = 0
        self.error: Exception | None = None

    def read(self, identifiers: object) -> dict[tuple[str, str], Record]:
        """Return all records, or raise the error."""
        self.reads += 1
        if self.error:
            raise self.error
        return self.records


@pytest.fixture
def store() -> Records:
    """Return a store with a record of the first row's key, from which the weather's gusts are missing."""
    records = Records()
    (first, _) = iterate_identifiers(HOUR.key_columns, ROWS)
    assert first == '["2013-02-01","JFK",8]'
    values = format_values({"departures_hour": 18.0, "weather_temp": 0.1 + 0.2, "weather_wind_gust": None})
    assert values == {"departures_hour": "18.0", "weather_temp": "0.30000000000000004"}
    records.records[HOUR.group, first] = Record(BEGIN, values)
    return records


def test_found_and_missing_values(store: Records) -> None:
    looked_up = LookupReader([HOUR], DATASET.features, store).look_up(ROWS, [BEGIN, BEGIN])
    assert looked_up.count() == {"hour": {"found": 1, "missing": 1}}
    assert set(looked_up.columns) == set(HOUR.features)
    assert looked_up.columns["departures_hour"] == [18.0, 21.0]
    assert looked_up.columns["weather_temp"] == [0.1 + 0.2, None]
    assert looked_up.columns["weather_wind_gust"] == [None, None]
    assert {type(value) for values in looked_up.columns.values() for value in values} == {float, type(None)}


def test_a_store_that_does_not_answer_is_logged_once_and_not_asked_at_each_request(
    store: Records, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, logger="leeway")
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    reader, store.error = LookupReader([HOUR], DATASET.features, store), StoreError("it is gone.")
    for _ in range(5):
        looked_up = reader.look_up(ROWS, [BEGIN, BEGIN])
        assert looked_up.count() == {"hour": {"unreachable": 2}}
        assert looked_up.columns["departures_hour"] == [21.0, 21.0]
    now[0] += lookups_module.PAUSE_S
    reader.look_up(ROWS, [BEGIN, BEGIN])
    assert store.reads == 2
    store.error = None
    now[0] += lookups_module.PAUSE_S
    assert [reader.look_up(ROWS, [BEGIN, BEGIN]).count() for _ in range(2)] == [
        {"hour": {"found": 1, "missing": 1}}
    ] * 2
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [
        "defaults are used instead of looked-up features: it is gone.",
        "the online store answers again",
    ]
    assert reader.describe()["lookups"] == {"hour": {"found": 2, "missing": 2, "unreachable": 12}}


def test_a_warm_up_is_not_counted(store: Records) -> None:
    reader = LookupReader([HOUR], DATASET.features, store)
    reader.warm_up(ROWS.slice(0, 1))
    assert (store.reads, reader.describe()) == (2, {"lookups": {}, "lookup_latency": {}})


@pytest.mark.parametrize("value", [0.1, -0.0, 5e-324, 1e308, 1 / 3, float("inf")])
def test_numbers_keep_their_bits(value: float) -> None:
    text = format_values({"distance": value})["distance"]
    parsed = parse_value("number", text)
    assert isinstance(parsed, float) and parsed.hex() == value.hex()


@pytest.mark.parametrize("build", [lambda: float("nan"), lambda: None])
def test_a_missing_value_is_left_out(build: Callable[[], float | None]) -> None:
    assert format_values({"distance": build()}) == {}
    assert parse_value("number", None) is None
