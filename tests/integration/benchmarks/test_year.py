"""Test the faults that benchmarks/year.py finds after a backfill."""

import datetime as dt
import json
import sys
from typing import Any

import pyarrow as pa
import pytest

from benchmarks import year
from pipelines.lake import Lake

pytestmark = pytest.mark.soak
DAYS = [dt.date(2013, 1, 1), dt.date(2013, 1, 2)]


@pytest.fixture
def count_faults(home: Any, day_rows: Any, commands: Any) -> Any:
    """Stage and publish two days; return the function that counts the lake's faults."""
    for name in ("flights_raw", "flights"):
        for day in DAYS:
            Lake.open().write_partition(name, day, day_rows(str(day)))

    def count() -> dict[str, int]:
        result = commands.run(sys.executable, "-c", year.LAKE_SCRIPT)
        assert result.code == 0, result.err
        counts = year.count_faults(json.loads(result.out), year.count_source_rows(2))
        return {name: number for name, number in counts.items() if number}

    return count


def test_correct_lake_has_no_fault(count_faults: Any, day_rows: Any) -> None:
    assert count_faults() == {}
    Lake.open().write_partition("flights", DAYS[0], day_rows(str(DAYS[0])))
    assert count_faults() == {}, "a day that is written again with equal rows is not published twice"


def test_check_finds_a_lost_day_a_second_publication_and_a_duplicate_row(count_faults: Any, day_rows: Any) -> None:
    rows = day_rows(str(DAYS[0]))
    Lake.open().write_partition("flights", DAYS[0], pa.concat_tables([rows, rows.slice(0, 1)]))
    assert count_faults() == {
        "days published with other rows than the source's": 1,
        "days published more than once": 1,
        "duplicate rows": 1,
    }
    Lake.open().clear_partition("flights_raw", DAYS[1])
    assert count_faults()["days staged with other rows than the source's"] == 1
