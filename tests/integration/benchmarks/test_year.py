"""What the soak benchmarks/year.py looks for after a backfill, it finds."""

import datetime as dt
import json
import sys
from typing import Any

import pyarrow as pa
import pytest

from benchmarks import year
from pipelines.lake import Lake

DAYS = [dt.date(2013, 1, 1), dt.date(2013, 1, 2)]


@pytest.fixture
def faults(home: Any, day_rows: Any, commands: Any) -> Any:
    """What is wrong with the test's lake, in which two days were staged and published."""
    for name in ("flights_raw", "flights"):
        for day in DAYS:
            Lake.open().write_partition(name, day, day_rows(str(day)))

    def found() -> dict[str, int]:
        told = commands.run(sys.executable, "-c", year.LAKE)
        assert told.code == 0, told.err
        return {
            what: count for what, count in year.faults(json.loads(told.out), year.of_the_source(2)).items() if count
        }

    return found


def test_a_whole_lake_has_no_fault(faults: Any, day_rows: Any) -> None:
    assert faults() == {}
    Lake.open().write_partition("flights", DAYS[0], day_rows(str(DAYS[0])))
    assert faults() == {}, "the same day again is no second publication"


def test_a_lost_day_a_second_publication_and_a_doubled_row_are_seen(faults: Any, day_rows: Any) -> None:
    rows = day_rows(str(DAYS[0]))
    Lake.open().write_partition("flights", DAYS[0], pa.concat_tables([rows, rows.slice(0, 1)]))
    assert faults() == {
        "days published with other rows than the source's": 1,
        "days published more than once": 1,
        "rows there twice": 1,
    }
    Lake.open().clear_partition("flights_raw", DAYS[1])
    assert faults()["days staged with other rows than the source's"] == 1
