"""Test how FileSource finds the hour, day or month of a row: by the file's name, or by a column."""

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.errors import DataError, SpecError
from pipelines.ingestion.sources import FileSource
from pipelines.partitions import Hour, Month, Partition
from pipelines.window import Days

MOMENT = pa.timestamp("us", tz="UTC")
JANUARY = Days(dt.date(2013, 1, 1), dt.date(2013, 1, 31))
TIMES = "id,at\n1,2013-01-01T04:59:59Z\n2,2013-01-01T05:00:00Z\n3,2013-01-01T05:30:00Z\n4,2013-02-01T03:00:00Z\n"


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(text)


def read(source: FileSource, partition: Partition) -> dict[str, list[Any]]:
    return source.read(partition).read_all().to_pydict()


def test_the_hour_comes_from_the_name_of_the_file(tmp_path: Path) -> None:
    write(tmp_path, **{"2013-01-01T05": "id\n1\n2\n", "2013-01-01T07": "id\n3\n"})
    source = FileSource(f"{tmp_path}/{{date}}.csv", "csv", partition="hour")
    assert source.list_partitions(JANUARY) == [Hour(dt.date(2013, 1, 1), 5), Hour(dt.date(2013, 1, 1), 7)]
    rows = source.read(Hour(dt.date(2013, 1, 1), 5)).read_all()
    assert rows.to_pydict() == {"id": [1, 2], "date": [dt.date(2013, 1, 1)] * 2, "hour": [5, 5]}
    assert rows.schema.field("hour").type == pa.int32()
    with pytest.raises(DataError, match="2013-01-01T06"):
        read(source, Hour(dt.date(2013, 1, 1), 6))


@pytest.mark.parametrize("form", ["%Y%m%d", "%Y-%m-%d", "%d%m/%Y"])
def test_a_day_is_found_by_any_form_of_the_date_in_the_file_s_name(tmp_path: Path, form: str) -> None:
    for day in (dt.date(2013, 1, 1), dt.date(2013, 1, 3)):
        path = tmp_path / f"sales{day.strftime(form)}.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_text("id\n1\n")
    source = FileSource(f"{tmp_path}/sales{{date:{form}}}.csv", "csv")
    assert source.list_partitions(JANUARY) == [dt.date(2013, 1, 1), dt.date(2013, 1, 3)]
    assert read(source, dt.date(2013, 1, 3)) == {"id": [1], "date": [dt.date(2013, 1, 3)]}


def test_the_hour_comes_from_a_timestamp_with_its_offset(tmp_path: Path) -> None:
    write(tmp_path, all="id,at\n1,2013-01-01T23:30:00-05:00\n2,2013-01-01T23:30:00+00:00\n")
    source = FileSource(f"{tmp_path}/all.csv", "csv", {"at": MOMENT}, day="at", partition="hour")
    assert source.list_partitions(JANUARY) == [Hour(dt.date(2013, 1, 1), 23), Hour(dt.date(2013, 1, 2), 4)]
    assert read(source, Hour(dt.date(2013, 1, 2), 4))["id"] == [1]
    assert read(source, Hour(dt.date(2013, 1, 2), 4))["date"] == [dt.date(2013, 1, 2)]
    assert read(source, Hour(dt.date(2013, 1, 2), 5))["id"] == []


def test_the_month_comes_from_the_name_of_the_file_or_from_a_day(tmp_path: Path) -> None:
    write(tmp_path, **{"sales-201301": "id,day\n1,2013-01-31\n", "sales-201302": "id,day\n2,2013-01-31\n"})
    source = FileSource(
        f"{tmp_path}/sales-{{date:%Y%m}}.csv", "csv", {"day": pa.date32()}, day="day", partition="month"
    )
    assert source.list_partitions(JANUARY) == [Month(dt.date(2013, 1, 1))]
    january = read(source, Month(dt.date(2013, 1, 1)))
    assert (january["date"], january["day"]) == ([dt.date(2013, 1, 1)], [dt.date(2013, 1, 31)])
    with pytest.raises(
        DataError, match=r"is of the month 2013-01\. The file may only have rows of the month in its name"
    ):
        read(source, Month(dt.date(2013, 2, 1)))


def test_a_timestamp_named_date_or_hour_gives_the_partition(tmp_path: Path) -> None:
    write(tmp_path, all="id,date\n1,2013-01-01T23:30:00\n")
    columns = {"date": pa.timestamp("us", "UTC")}
    source = FileSource(f"{tmp_path}/all.csv", "csv", columns, day="date", timezone="UTC", day_timezone="Europe/Berlin")
    assert read(source, dt.date(2013, 1, 2)) == {"id": [1], "date": [dt.date(2013, 1, 2)]}
    write(tmp_path, all="id,hour\n1,2013-01-01T23:30:00\n")
    columns = {"hour": pa.timestamp("us", "UTC")}
    by_hour = FileSource(f"{tmp_path}/all.csv", "csv", columns, day="hour", timezone="UTC", partition="hour")
    assert read(by_hour, Hour(dt.date(2013, 1, 1), 23))["hour"] == [23]


def test_a_date_within_a_month_is_not_replaced_by_its_first_day(tmp_path: Path) -> None:
    write(tmp_path, all="id,date\n1,2013-01-01\n2,2013-01-02\n")
    source = FileSource(f"{tmp_path}/all.csv", "csv", {"date": pa.date32()}, day="date", partition="month")
    with pytest.raises(DataError, match=r"row 3, column date: 2013-01-02 is not the first day of a month"):
        read(source, Month(dt.date(2013, 1, 1)))
    write(tmp_path, all="id,date\n1,2013-01-01\n2,2013-02-01\n")
    assert read(source, Month(dt.date(2013, 2, 1)))["id"] == [2]


def test_days_and_months_are_counted_in_a_time_zone(tmp_path: Path) -> None:
    """4:59:59 in UTC is the last second of the day before in New York."""
    write(tmp_path, all=TIMES)
    fields: dict[str, Any] = {"format": "csv", "columns": {"at": MOMENT}, "day": "at"}
    local = FileSource(f"{tmp_path}/all.csv", **fields, day_timezone="America/New_York")
    assert read(local, dt.date(2012, 12, 31))["id"] == [1]
    assert read(local, dt.date(2013, 1, 1))["id"] == [2, 3]
    assert read(FileSource(f"{tmp_path}/all.csv", **fields), dt.date(2013, 1, 1))["id"] == [1, 2, 3]
    months = FileSource(f"{tmp_path}/all.csv", **fields, day_timezone="America/New_York", partition="month")
    assert read(months, Month(dt.date(2013, 1, 1)))["id"] == [2, 3, 4]
    assert read(months, Month(dt.date(2013, 1, 1)))["at"][2] == dt.datetime(2013, 2, 1, 3, tzinfo=dt.UTC)


def test_a_row_without_a_time_and_a_column_without_hours_are_refused(tmp_path: Path) -> None:
    write(tmp_path, all="id,at\n1,2013-01-01T05:00:00Z\n2,\n", days="id,at\n1,2013-01-01\n")
    source = FileSource(f"{tmp_path}/all.csv", "csv", {"at": MOMENT}, day="at", partition="hour")
    with pytest.raises(DataError, match="row 3, column at: an empty value names no day"):
        read(source, Hour(dt.date(2013, 1, 1), 5))
    days = FileSource(f"{tmp_path}/days.csv", "csv", {"at": pa.date32()}, day="at", partition="hour")
    with pytest.raises(DataError, match=r"column at holds date32.*, which has no hour"):
        read(days, Hour(dt.date(2013, 1, 1), 5))


def test_a_column_hour_of_the_file_is_not_overwritten(tmp_path: Path) -> None:
    write(tmp_path, all="id,at,hour\n1,2013-01-01T05:00:00Z,0\n")
    source = FileSource(f"{tmp_path}/all.csv", "csv", {"at": MOMENT}, day="at", partition="hour")
    with pytest.raises(DataError, match="has a column hour, but the hour is to come from the column at"):
        read(source, Hour(dt.date(2013, 1, 1), 5))


@pytest.mark.parametrize(
    ("url", "fields", "problem"),
    [
        ("all.csv", {}, r"the address has no \{date\}, and day= is not set"),
        ("{date:%Y-%m-%d}.csv", {"partition": "hour"}, r"does not fit partitions by hour. Use \{date:%Y-%m-%dT%H\}"),
        ("{date:%Y-%m-%dT%H}.csv", {}, "does not fit partitions by day"),
        ("{date:%Y-%m-%d}.csv", {"partition": "month"}, "does not fit partitions by month"),
        ("{date}.csv", {"partition": "week"}, "unknown partition 'week'"),
        ("{date}.csv", {"day_timezone": "Europe/Berlin"}, "day_timezone has no effect without day="),
        ("all.csv", {"day": "at", "day_timezone": "Mars"}, "there is no time zone 'Mars'"),
        ("all.csv", {"day": "at", "partition": "hour", "day_timezone": "Europe/Berlin"}, "hours are those of UTC"),
    ],
)
def test_fields_that_do_not_fit_are_refused(url: str, fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        FileSource(url, "csv", **fields)
