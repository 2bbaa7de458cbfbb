"""Test the flights source on the real year and on small files."""

import datetime as dt
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines.datasets.flights import DATASET
from pipelines.datasets.flights.source import COLUMNS, LATE_MINUTES, open_source
from pipelines.errors import DataError
from pipelines.steps import ingest
from pipelines.window import Days

FLIGHTS = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,origin,"
    "dest,air_time,distance,hour,minute,time_hour"
)
WEATHER = "origin,time_hour,temp,dewp,humid,wind_dir,wind_speed,wind_gust,precip,pressure,visib"
PLANES = "tailnum,year,manufacturer,seats"


def format_flight(number: int = 1, **fields: object) -> str:
    values = {
        "year": 2013, "month": 3, "day": 10, "dep_time": 800, "sched_dep_time": 755, "dep_delay": 5, "arr_time": 1010,
        "sched_arr_time": 1000, "arr_delay": 10, "carrier": "UA", "flight": number, "tailnum": "N1", "origin": "JFK",
        "dest": "BOS", "air_time": 60, "distance": 187, "hour": 7, "minute": 55, "time_hour": "2013-03-10T11:00:00Z",
    } | fields  # fmt: skip
    return ",".join(str(values[name]) for name in FLIGHTS.split(","))


@pytest.fixture
def write_source(tmp_path: Path) -> Callable[..., Path]:
    """Return the function that writes the three files of a source and returns their folder."""

    def write_files(*flights: str, header: str = FLIGHTS, weather: str = "", **files: bytes) -> Path:
        folder = tmp_path / "source"
        folder.mkdir(exist_ok=True)
        (folder / "flights.csv").write_text("\n".join([header, *flights]) + "\n", encoding="utf-8")
        (folder / "weather.csv").write_text(f"{WEATHER}\n{weather}", encoding="utf-8")
        (folder / "planes.csv").write_text(f"{PLANES}\nN1,1999,BOEING,150\n", encoding="utf-8")
        for name, content in files.items():
            (folder / name.replace("__", ".")).write_bytes(content)
        return folder

    return write_files


def read_day(folder: Path, day: str = "2013-03-10") -> pa.Table:
    return open_source(folder).read(dt.date.fromisoformat(day)).read_all()


def list_days(folder: Path, first: str = "2013-01-01", last: str = "2013-12-31") -> list[str]:
    days = Days(dt.date.fromisoformat(first), dt.date.fromisoformat(last))
    return [day.isoformat() for day in open_source(folder).list_partitions(days)]


# The real year


def test_the_real_year_has_all_flights_and_unique_keys(source: Any) -> None:
    year = Days(dt.date(2013, 1, 1), dt.date(2013, 12, 31))
    assert source.list_partitions(Days(dt.date(2012, 1, 1), dt.date(2014, 12, 31))) == list(year)
    flights = source._flights
    assert flights.num_rows == 336_776
    assert flights.group_by(["date", "carrier", "flight", "origin"]).aggregate([]).num_rows == 336_776
    assert pc.sum(pc.is_null(flights["arr_delay"])).as_py() == 9_430
    weather = source._weather
    assert weather.group_by(["origin", "time_hour"]).aggregate([]).num_rows == weather.num_rows


@pytest.mark.parametrize(
    ("day", "rows"),
    # Both changes of the clock, the days with the fewest and the most flights, a blizzard, the first and the last day.
    [("2013-01-01", 842), ("2013-02-08", 930), ("2013-03-10", 908), ("2013-11-03", 902), ("2013-11-28", 634),
     ("2013-11-27", 1014), ("2013-12-31", 776)],
)  # fmt: skip
def test_a_real_day_has_its_rows_once(day: str, rows: int, day_rows: Callable[[str], pa.Table]) -> None:
    table = day_rows(day)
    assert table.num_rows == rows
    assert tuple(table.column_names) == COLUMNS
    assert table.group_by(list(DATASET.key)).aggregate([]).num_rows == rows
    assert pc.unique(table["date"]).to_pylist() == [dt.date.fromisoformat(day)]
    assert table.equals(table.sort_by([(name, "ascending") for name in DATASET.key]))


def test_the_columns_have_the_declared_types(day_rows: Callable[[str], pa.Table]) -> None:
    schema = day_rows("2013-01-01").schema
    assert schema.field("date").type == pa.date32()
    assert schema.field("late").type == pa.bool_()
    assert schema.field("scheduled_at").type.tz == "UTC"
    assert schema.field("weather_temp").type == pa.float64()
    assert day_rows("2013-12-31").schema == schema


@pytest.mark.parametrize("day", ["2013-03-10", "2013-11-03"])
def test_weather_of_a_day_on_which_the_clock_changes_is_joined_by_utc(
    day: str, source: Any, day_rows: Callable[[str], pa.Table]
) -> None:
    temperatures = {(row["origin"], row["time_hour"]): row["weather_temp"] for row in source._weather.to_pylist()}
    joined_rows = 0
    for row in day_rows(day).to_pylist():
        hour = row["scheduled_at"].strftime("%Y-%m-%dT%H:00:00Z")
        assert row["weather_temp"] == temperatures.get((row["origin"], hour))
        joined_rows += row["weather_temp"] is not None
    assert joined_rows > 800
    # Negative control: joined by another hour, some rows have another temperature.
    shifted_temperatures = [
        temperatures.get((row["origin"], row["scheduled_at"].strftime("%Y-%m-%dT09:00:00Z")))
        for row in day_rows(day).to_pylist()
    ]
    assert shifted_temperatures != day_rows(day)["weather_temp"].to_pylist()


def test_cancelled_and_diverted_flights_have_no_label(source: Any, day_rows: Callable[[str], pa.Table]) -> None:
    rows = day_rows("2013-02-08").to_pylist()
    for row in rows:
        assert row["late"] == (None if row["arr_delay"] is None else row["arr_delay"] > LATE_MINUTES)
    cancelled = [row for row in rows if row["dep_time"] is None]
    assert len(cancelled) > 400
    assert {row["late"] for row in cancelled} == {None}
    diverted = [row for row in day_rows("2013-01-01").to_pylist() if row["dep_time"] and row["arr_delay"] is None]
    assert diverted
    assert {row["late"] for row in diverted} == {None}


# The files of a user


def test_a_flight_is_late_from_the_sixteenth_minute(write_source: Callable[..., Path]) -> None:
    delays = [-60, 0, 15, 16, 300, "NA"]
    table = read_day(write_source(*(format_flight(n, arr_delay=delay) for n, delay in enumerate(delays))))
    assert table["late"].to_pylist() == [False, False, False, True, True, None]


def test_rows_with_unknown_planes_or_weather_have_nulls(write_source: Callable[..., Path]) -> None:
    table = read_day(write_source(format_flight(1), format_flight(2, tailnum="N9"), format_flight(3, tailnum="NA")))
    assert table["plane_year"].to_pylist() == [1999, None, None]
    assert table["weather_temp"].to_pylist() == [None] * 3


@pytest.mark.parametrize("column", ["arr_delay", "time_hour", "year", "tailnum"])
def test_an_error_names_a_missing_column(write_source: Callable[..., Path], column: str) -> None:
    header = FLIGHTS.replace(column, "other", 1) if column != "year" else FLIGHTS.replace("year", "jahr", 1)
    with pytest.raises(DataError, match=rf"flights\.csv lacks the column\(s\) {column}"):
        read_day(write_source(format_flight(), header=header))
    with pytest.raises(DataError, match=r"weather\.csv lacks"):
        read_day(write_source(format_flight(), weather__csv=b"a,b\n1,2\n"))
    with pytest.raises(DataError, match=r"planes\.csv is empty"):
        read_day(write_source(format_flight(), planes__csv=b""))


def test_an_error_names_the_row_and_column_of_a_word_for_a_number(write_source: Callable[..., Path]) -> None:
    with pytest.raises(DataError, match=r"flights\.csv: row 3, column distance: 'far' is not of type int32"):
        read_day(write_source(format_flight(1), format_flight(2, distance="far")))


def test_an_error_suggests_the_delimiter(write_source: Callable[..., Path]) -> None:
    with pytest.raises(DataError) as error:
        read_day(write_source(format_flight().replace(",", ";"), header=FLIGHTS.replace(",", ";")))
    assert "If the delimiter is ';', set delimiter=." in error.value.hint


def test_a_header_without_a_line_end_is_read_to_its_end(write_source: Callable[..., Path]) -> None:
    with pytest.raises(DataError, match=r"weather\.csv: .*Empty CSV"):  # no column is missing
        read_day(write_source(format_flight(), weather__csv=WEATHER.encode()))


def test_a_flight_without_an_hour_is_read_and_left_to_validation(write_source: Callable[..., Path]) -> None:
    assert read_day(write_source(format_flight(1), format_flight(2, time_hour="NA")))["scheduled_at"].null_count == 1


def test_reads_a_file_that_excel_saved(write_source: Callable[..., Path]) -> None:
    text = b"\xef\xbb\xbf" + f"{FLIGHTS}\r\n{format_flight()}\r\n".encode()
    assert read_day(write_source(flights__csv=text)).num_rows == 1


BAD_ROWS = {
    "a word for a number": format_flight(distance="far"),
    "a column too few": "2013,3,10",
    "month 13": format_flight(month=13),
    "the 30th of February": format_flight(month=2, day=30),
    "no day": format_flight(day="NA"),
    "an invalid hour": format_flight(time_hour="soon"),
    "not UTF-8": "\udcff",
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_an_invalid_row_is_an_error_of_one_line(write_source: Callable[..., Path], case: str) -> None:
    text = "\n".join([FLIGHTS, format_flight(1), BAD_ROWS[case], ""]).encode("utf-8", "surrogateescape")
    if case == "not UTF-8":
        text = text.replace(b"\xff", format_flight(2, dest="X\udcff").encode("utf-8", "surrogateescape"))
    source = open_source(write_source(flights__csv=text))
    with pytest.raises(DataError, match=r"flights\.csv") as error:
        source.read(dt.date(2013, 3, 10))
    assert "\n" not in str(error.value)


def test_refuses_repeated_hours_of_weather(write_source: Callable[..., Path]) -> None:
    hour = "JFK,2013-03-10T11:00:00Z,50,40,60,180,10,NA,0,1015,10\n"
    assert read_day(write_source(format_flight(), weather=hour))["weather_temp"].to_pylist() == [50]
    with pytest.raises(DataError, match=r"weather\.csv"):
        read_day(write_source(format_flight(), weather=hour + hour.replace("50", "51")))


def test_refuses_repeated_planes(write_source: Callable[..., Path]) -> None:
    planes = f"{PLANES}\nN1,1999,BOEING,150\nN1,2001,BOEING,150\n".encode()
    with pytest.raises(DataError, match=r"planes\.csv"):
        read_day(write_source(format_flight(), planes__csv=planes))


def test_missing_files_are_an_error_and_empty_files_have_no_days(
    write_source: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=r"no flights\.csv and no flights\.csv\.zip"):
        list_days(tmp_path / "nowhere")
    assert list_days(write_source()) == []


def test_lists_the_days_of_the_file(write_source: Callable[..., Path]) -> None:
    folder = write_source(format_flight(1), format_flight(2, day=12), format_flight(3, day=14), format_flight(4))
    assert list_days(folder) == ["2013-03-10", "2013-03-12", "2013-03-14"]
    assert list_days(folder, "2013-03-11", "2013-03-13") == ["2013-03-12"]
    assert str(folder) in str(open_source(folder).describe())


def build_broken_zips() -> dict[str, bytes]:
    import io

    def build_zip(name: str, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", compression) as archive:
            archive.writestr(name, "\n".join([FLIGHTS, *(format_flight(n) for n in range(3_000))]))
        return buffer.getvalue()

    damaged = bytearray(build_zip("flights.csv"))
    damaged[200:400] = bytes(200)
    encrypted = bytearray(build_zip("flights.csv"))
    for index in (6, encrypted.rfind(b"PK\x01\x02") + 8):
        encrypted[index] |= 1
    return {
        "not a zip": b"PK nonsense",
        "empty": b"",
        "cut short": build_zip("flights.csv")[:2_000],
        "another name": build_zip("other.csv"),
        "damaged": bytes(damaged),
        "encrypted": bytes(encrypted),
    }


@pytest.mark.parametrize("case", build_broken_zips())
def test_refuses_a_broken_zip(write_source: Callable[..., Path], case: str) -> None:
    folder = write_source(flights__csv__zip=b"")
    (folder / "flights.csv").unlink()
    (folder / "flights.csv.zip").write_bytes(build_broken_zips()[case])
    with pytest.raises(DataError, match=r"flights\.csv"):
        list_days(folder)


def test_a_zip_and_a_plain_file_give_the_same_rows(write_source: Callable[..., Path]) -> None:
    folder = write_source(format_flight(1), format_flight(2))
    plain = read_day(folder)
    with zipfile.ZipFile(folder / "flights.csv.zip", "w") as archive:
        archive.write(folder / "flights.csv", "flights.csv")
    (folder / "flights.csv").unlink()
    assert read_day(folder).equals(plain)


# Through the step


@pytest.mark.parametrize("day", ["2012-12-31", "2013-03-13", "2013-03-11"])
def test_refuses_a_day_without_rows_and_stages_a_day_once(
    write_source: Callable[..., Path], home: Path, day: str
) -> None:
    folder = write_source(format_flight(1), format_flight(2, day=12))
    with pytest.raises(DataError, match=f"flights has no rows for {day}: it holds 2013-03-10 to 2013-03-12. Nothing"):
        ingest.run(ingest.IngestSpec(dataset="flights", partition=day, folder=folder))
    first = ingest.run(ingest.IngestSpec(dataset="flights", partition="2013-03-10", folder=folder))
    assert (first.rows, first.changed) == (1, True)
    second = ingest.run(ingest.IngestSpec(dataset="flights", partition="2013-03-10", folder=folder))
    assert (second.changed, second.snapshot_id) == (False, first.snapshot_id)


def test_na_is_a_code_of_airlines_and_airports_and_a_missing_value_elsewhere(write_source: Callable[..., Path]) -> None:
    flights = [
        format_flight(1, carrier="NA", origin="NA", dest="NA", tailnum="NA", dep_time="NA", arr_delay="NA"),
        format_flight(2, carrier="", tailnum=""),
    ]
    weather = "NA,2013-03-10T11:00:00Z,50,NA,1,1,1,1,1,1,1\n"
    first, second = sorted(
        read_day(write_source(*flights, weather=weather)).to_pylist(), key=lambda row: int(row["flight"])
    )
    assert [first[name] for name in ("carrier", "origin", "dest")] == ["NA", "NA", "NA"]
    assert (first["weather_temp"], first["weather_dewp"]) == (50.0, None), "the weather of the airport NA"
    assert [first[name] for name in ("tailnum", "plane_year", "dep_time", "late")] == [None] * 4
    assert (second["carrier"], second["tailnum"]) == (None, None)
