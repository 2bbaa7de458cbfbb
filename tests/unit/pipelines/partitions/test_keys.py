"""Test the keys of partitions: how they are parsed, formatted, ordered and refused."""

import datetime as dt
from dataclasses import replace

import pytest

from pipelines.backtest.study import run_backtest
from pipelines.contract import Result, Spec
from pipelines.dataset import Dataset
from pipelines.errors import SpecError
from pipelines.loop.study import run_study
from pipelines.partitions import (
    Hour,
    Month,
    Partition,
    PartitionKey,
    check_partition,
    get_date,
    get_end,
    get_last_day,
    list_partitions,
    list_range,
    parse_partition,
    refuse_monthly_partitions,
    shift_partition,
)
from pipelines.window import Days

DAY = dt.date(2013, 1, 31)
KEYS = {"2013-01-31T05": Hour(DAY, 5), "2013-01-31": DAY, "2013-01": Month(dt.date(2013, 1, 1))}


class KeySpec(Spec):
    """A spec with a key."""

    partition: PartitionKey
    """The key."""


class KeyResult(Result):
    """A result with a key."""

    partition: PartitionKey
    """The key."""


@pytest.mark.parametrize(("text", "key"), KEYS.items())
def test_a_key_is_written_as_it_is_read(text: str, key: Partition) -> None:
    assert parse_partition(text) == key
    assert str(key) == key.isoformat() == f"{key}" == text
    assert KeySpec.parse({"partition": text}, "test").partition == key
    assert KeySpec.parse({"partition": key}, "test").partition == key
    assert KeyResult(partition=key).model_dump(mode="json")["partition"] == text
    assert KeyResult.model_validate_json(KeyResult(partition=key).model_dump_json()).partition == key


@pytest.mark.parametrize("text", ["2013-02-31", "2013-13", "2013-00", "2013-01-01T24", "2013-02-31T05", "2013-1", "x"])
def test_a_key_that_does_not_exist_is_one_line(text: str) -> None:
    with pytest.raises(SpecError, match=r"test: partition: .*got '" + text) as error:
        KeySpec.parse({"partition": text}, "test")
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 2


@pytest.mark.parametrize("unit", ["hour", "day", "month"])
def test_only_keys_of_the_dataset_s_unit_are_accepted(unit: str) -> None:
    dataset = Dataset(name="words", key=("id",), partition=unit)
    for key, key_unit in zip(KEYS.values(), ("hour", "day", "month"), strict=True):
        if key_unit == unit:
            check_partition(dataset, key)
            continue
        article = "an" if key_unit == "hour" else "a"
        message = f"first {key} is {article} {key_unit}, but the partitions of words are {unit}s. Write it as 2013-"
        with pytest.raises(SpecError, match=message):
            check_partition(dataset, key, "first")


def test_an_hourly_dataset_with_a_label_has_day_and_hour_in_its_key() -> None:
    with pytest.raises(SpecError, match="the key of words lacks date or hour"):
        Dataset(name="words", key=("date", "id"), label="late", partition="hour")
    Dataset(name="words", key=("date", "hour", "id"), label="late", partition="hour")
    with pytest.raises(SpecError, match=r"words has partitions by 'week'\. Use one of: hour, day, month\."):
        Dataset(name="words", key=("id",), partition="week")


def test_months_are_refused_where_days_are_compared() -> None:
    months = Dataset(name="bills", key=("date", "id"), label="paid", partition="month")
    message = "compares days, but the partitions of bills are months"
    with pytest.raises(SpecError, match=f"the backtest {message}"):
        run_backtest("bills", months, None, None, 1, 0.02)
    with pytest.raises(SpecError, match=f"the study of the loop {message}"):
        run_study("bills", months, DAY, None)
    refuse_monthly_partitions(replace(months, partition="day"), "drift")


def test_a_range_has_all_keys_in_order() -> None:
    hours = list_range(Hour(dt.date(2013, 1, 1), 22), Hour(dt.date(2013, 1, 2), 1))
    assert [str(hour) for hour in hours] == ["2013-01-01T22", "2013-01-01T23", "2013-01-02T00", "2013-01-02T01"]
    months = list_range(parse_partition("2012-11"), parse_partition("2013-02"))
    assert [str(month) for month in months] == ["2012-11", "2012-12", "2013-01", "2013-02"]
    assert list_range(dt.date(2013, 1, 31), dt.date(2013, 2, 1)) == [dt.date(2013, 1, 31), dt.date(2013, 2, 1)]
    assert list_range(dt.date(2013, 1, 2), dt.date(2013, 1, 1)) == []
    assert len(list(list_partitions(Days(dt.date(2013, 1, 1), dt.date(2013, 12, 31)), "hour"))) == 365 * 24
    assert [*list_partitions(Days(dt.date(2013, 1, 2), dt.date(2013, 2, 1)), "month")] == [Month(dt.date(2013, 2, 1))]


def test_a_key_has_a_place_in_time() -> None:
    hour, month = Hour(DAY, 23), Month(dt.date(2013, 2, 1))
    assert get_date(hour) == DAY
    assert get_end(hour) == dt.datetime(2013, 2, 1, tzinfo=dt.UTC) == get_end(DAY)
    assert get_last_day(month) == dt.date(2013, 2, 28)
    assert get_end(month) == dt.datetime(2013, 3, 1, tzinfo=dt.UTC)
    assert shift_partition(hour, -31) == Hour(dt.date(2012, 12, 31), 23)
    assert shift_partition(month, -2) == Month(dt.date(2012, 12, 1))
    assert shift_partition(month, 11) == Month(dt.date(2014, 1, 1))
    assert shift_partition(DAY, 1) == dt.date(2013, 2, 1)
