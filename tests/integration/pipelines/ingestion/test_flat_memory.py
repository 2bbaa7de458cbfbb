"""Test that the memory of the step ingest does not grow with the rows of a day: the peak of real processes."""

import json
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

DAY = "2013-01-02"
FEW, MANY = 200_000, 4_000_000
MAX_GROWTH_MB = 384
"""How much more memory twenty times the rows may take. Allocators keep free memory, up to a limit: 90 to 210 MiB were
measured, as much for 2 million rows as for 10 million. Rows that are read in one piece take 600 MiB more."""
ROWS = """
SELECT DATE '{day}' AS date, i AS id, 'word ' || i % 1000 AS word, {numbers}
FROM range({rows}) AS t(i)
"""
NUMBERS = 12
STEP = """
import datetime as dt, json, sys
from benchmarks.sources import read_peak_mb
from pipelines.dataset import Dataset
from pipelines.ingestion.sources import FileSource
from pipelines.lake import Lake
from pipelines.steps.ingest import stage_partition

class ReadInOnePiece(FileSource):
    def read(self, partition):
        return super().read(partition).read_all().to_reader()

folder = sys.argv[1]
measurements = []
for name in {names}:
    source = {source}(folder + "/" + name + "-{{date}}.parquet", "parquet")
    result = stage_partition(Dataset(name="words", key=("id",)), source, dt.date.fromisoformat("{day}"), Lake.open())
    measurements.append([result.changes.added, result.changes.changed, read_peak_mb()])
print(json.dumps(measurements))
"""


def write_days(folder: Path, rows: int) -> Path:
    """Write a day into a file, and the later content of the day, in which one row in ten has changed, into another."""
    folder.mkdir()
    for name, change in {"first": "0", "later": "(i % 10 = 0)::INTEGER"}.items():
        numbers = ", ".join(f"(hash(i + {n}) % 100000)::DOUBLE + {change} AS number_{n}" for n in range(NUMBERS))
        query = ROWS.format(day=DAY, numbers=numbers, rows=rows)
        with duckdb.connect() as connection:
            connection.execute(f"COPY ({query}) TO '{folder}/{name}-{DAY}.parquet' (FORMAT parquet)")
    return folder


def measure_peaks(
    commands: Any, folder: Path, rows: int, source: str = "FileSource", names: tuple[str, ...] = ("first", "later")
) -> list[float]:
    """Return the peak memory, in MiB, after the day was ingested, and after its later content was ingested."""
    home = {"LEEWAY_HOME": f"{folder}-{source}"}
    code = STEP.format(source=source, day=DAY, names=names)
    result = commands.run(sys.executable, "-c", code, str(folder), env=home, is_real=True)
    assert result.code == 0, result.err
    measurements = json.loads(result.out)
    assert [measurement[:2] for measurement in measurements] == [[rows, 0], [0, rows // 10]][: len(names)]
    return [peak for *_, peak in measurements]


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="VmHWM is Linux's")
def test_twenty_times_the_rows_take_no_more_memory(commands: Any, tmp_path: Path) -> None:
    """Neither new rows nor changed rows take more memory."""
    small_peaks = measure_peaks(commands, write_days(tmp_path / "few", FEW), FEW)
    large_peaks = measure_peaks(commands, folder := write_days(tmp_path / "many", MANY), MANY)
    assert [
        round(large_peak - small_peak)
        for large_peak, small_peak in zip(large_peaks, small_peaks, strict=True)
        if large_peak - small_peak > MAX_GROWTH_MB
    ] == []
    unbatched_peaks = measure_peaks(commands, folder, MANY, "ReadInOnePiece", ("first",))
    assert unbatched_peaks[0] - small_peaks[0] > MAX_GROWTH_MB  # the negative control


MAX_SYNC_GROWTH_MB = 256
"""How much more memory four times the rows may take in `sync`: 150 MiB were measured. Without a limit: 500 MiB."""
SYNC = """
import datetime as dt, json, sys
import duckdb
from benchmarks.sources import read_peak_mb
from pipelines.dataset import Dataset
from pipelines.ingestion import changes
from pipelines.steps.sync import stage_changes

class Orders:
    cursor = "changed"

    def __init__(self, select, connection):
        self.select, self.connection = select, connection

    def read_changes(self, since):
        return self.connection.sql(QUERY.replace("SELECTION", self.select)).to_arrow_reader(50_000)

QUERY = '''SELECT DATE '2013-01-02' AS date, (hash(i) >> 1)::BIGINT AS id, i AS changed, 'word ' || i % 1000 AS word,
{numbers} FROM range({rows}) AS t(i) SELECTION'''
changes.LOW_MEMORY_MIB = {limit_mib} or changes.LOW_MEMORY_MIB
measurements = []
with duckdb.connect() as connection:
    for select in ("", "WHERE i % 10 = 0"):
        source = Orders(select, connection)
        result = stage_changes(Dataset(name="orders", key=("date", "id")), source, "")
        measurements.append([result.rows, [change.rows for change in result.changed], read_peak_mb()])
print(json.dumps(measurements))
"""


def measure_sync_peak(commands: Any, home: Path, rows: int, limit_mib: int = 0) -> float:
    """Return the peak memory, MiB, of a sync of new rows, and of one row in ten that is read again."""
    numbers = ", ".join(f"(hash(i + {n}) % 100000)::DOUBLE AS number_{n}" for n in range(NUMBERS))
    code = SYNC.format(rows=rows, numbers=numbers, limit_mib=limit_mib)
    variables = {"LEEWAY_HOME": str(home)} | ({"LEEWAY_MEMORY_MIB": str(limit_mib)} if limit_mib else {})
    result = commands.run(sys.executable, "-c", code, env=variables, is_real=True)
    assert result.code == 0, result.err
    (new, staged, _), (again, changed, peak_mb) = json.loads(result.out.splitlines()[-1])
    assert (new, staged, again, changed) == (rows, [rows], rows // 10, [])
    return float(peak_mb)


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="VmHWM is Linux's")
def test_a_sync_of_four_times_the_rows_takes_no_more_memory(commands: Any, tmp_path: Path) -> None:
    small_peak = measure_sync_peak(commands, tmp_path / "few", 500_000)
    large_peak = measure_sync_peak(commands, tmp_path / "many", 2_000_000)
    unlimited_peak = measure_sync_peak(commands, tmp_path / "unlimited", 2_000_000, limit_mib=8192)
    assert large_peak - small_peak < MAX_SYNC_GROWTH_MB < unlimited_peak - small_peak, [
        small_peak,
        large_peak,
        unlimited_peak,
    ]
