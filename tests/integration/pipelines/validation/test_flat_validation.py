"""Test that the memory of the step validate does not grow with the rows of a day: the peak of real processes.

A check of unique rows groups all of them; one row in twenty is quarantined, and the others are published.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

FEW, MANY = 500_000, 4_000_000
MAX_GROWTH_MB = 160
"""How much more memory eight times the rows may take: 20 to 100 MiB were measured. Without a limit: 300 MiB."""
SUITE = {
    "expectations": [
        {"type": "expect_compound_columns_to_be_unique", "kwargs": {"column_list": ["id", "word"]}},
        {"type": "expect_column_unique_value_count_to_be_between", "kwargs": {"column": "id", "min_value": 1}},
        {"type": "expect_column_median_to_be_between", "kwargs": {"column": "number", "min_value": 0}},
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {"column": "number", "min_value": 5},
            "severity": "warning",
        },
    ]
}
STAGE = """
import datetime as dt
from pipelines.lake import Lake, connect
QUERY = '''SELECT DATE '2013-01-02' AS date, i AS id, 'a word of some length ' || i AS word,
(i % 100)::DOUBLE AS number, true AS late FROM range({rows}) AS t(i)'''
with connect() as connection:
    Lake.open().write_partition(
        "flights_raw", dt.date(2013, 1, 2), connection.sql(QUERY).to_arrow_reader(100_000), ["id"]
    )
"""
VALIDATE = """
import datetime as dt, json
from benchmarks.sources import read_peak_mb
from pipelines.steps import validate
from pipelines.validation.evaluators import rows

rows.LOW_MEMORY_MIB = {limit_mib} or rows.LOW_MEMORY_MIB
result = validate.run(validate.ValidateSpec(dataset="flights", partition=dt.date(2013, 1, 2)))
print(json.dumps([result.rows, result.quarantined, read_peak_mb()]))
"""


def measure_peak(commands: Any, folder: Path, rows: int, limit_mib: int = 0) -> float:
    """Stage a day and validate it in another process; return the peak memory of that process, MiB.

    `limit_mib` replaces DuckDB's memory limits; 0 leaves them as they are.
    """
    (folder / "expectations").mkdir(parents=True)
    (folder / "expectations/flights.json").write_text(json.dumps(SUITE))
    variables = {"LEEWAY_HOME": str(folder), "LEEWAY_PROJECT": str(folder)}
    variables |= {"LEEWAY_MEMORY_MIB": str(limit_mib)} if limit_mib else {}
    for code in (STAGE.format(rows=rows), VALIDATE.format(limit_mib=limit_mib)):
        result = commands.run(sys.executable, "-c", code, env=variables, is_real=True)
        assert result.code == 0, result.err
    published, quarantined, peak_mb = json.loads(result.out)
    assert (published, quarantined) == (rows * 95 // 100, rows // 20)
    return float(peak_mb)


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="VmHWM is Linux's")
def test_eight_times_the_rows_take_no_more_memory(commands: Any, tmp_path: Path) -> None:
    small_peak = measure_peak(commands, tmp_path / "few", FEW)
    large_peak = measure_peak(commands, tmp_path / "many", MANY)
    unlimited_peak = measure_peak(commands, tmp_path / "unlimited", MANY, limit_mib=8192)
    assert large_peak - small_peak < MAX_GROWTH_MB < unlimited_peak - small_peak, [
        small_peak,
        large_peak,
        unlimited_peak,
    ]
