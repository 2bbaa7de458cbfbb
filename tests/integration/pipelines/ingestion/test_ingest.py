"""Test the step ingest on weather: what it reports, what it refuses, and what remains when it is killed."""

import datetime as dt
import json
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.contract import Changes
from pipelines.dataset import load_dataset
from pipelines.errors import DataError
from pipelines.ingestion import progress_log
from pipelines.lake import Lake
from pipelines.steps import backfill, ingest
from pipelines.steps.ingest import IngestResult

DAY = dt.date(2013, 1, 1)
HEADER = "origin,time_hour,temp,dewp,humid,wind_dir,wind_speed,wind_gust,precip,pressure,visib"
KILLED_INGEST = """
import os, signal, sys
from pipelines.cli.app import main
from {module} import {owner}
original = {owner}.{name}
def call_and_die(*arguments, **options):
    if not {is_after_call}:
        os.kill(os.getpid(), signal.SIGKILL)
    original(*arguments, **options)
    os.kill(os.getpid(), signal.SIGKILL)
{owner}.{name} = call_and_die
main()
"""
MOMENTS = {
    "when the first rows come": ("pipelines.lake", "new_files", "_write_file", False),
    "when the files are written": ("pipelines.lake", "new_files", "_write_file", True),
    "before the commit": ("pyiceberg.table", "Transaction", "commit_transaction", False),
    "after the commit": ("pyiceberg.table", "Transaction", "commit_transaction", True),
}
"""For each moment: module, owner and name of a function, and whether the kill comes after its call (else before)."""


def create_line(hour: int, temp: object = 40.0, origin: str = "EWR", day: str = "2013-01-01") -> str:
    """Return the line of the weather of one hour."""
    return f"{origin},{day}T{hour:02d}:00:00Z,{temp},26,60,270,10.4,NA,0,1012,10"


@pytest.fixture
def write_source(tmp_path: Path) -> Callable[..., Path]:
    """Return the function that writes the source's file and returns its folder."""

    def write_lines(*rows: str, header: str = HEADER) -> Path:
        (tmp_path / "weather.csv").write_text("\n".join([header, *rows, ""]))
        return tmp_path

    return write_lines


def ingest_day(folder: Path, day: dt.date = DAY) -> IngestResult:
    return ingest.run(ingest.IngestSpec(dataset="weather", partition=day, folder=folder))


def read_temperatures(day: dt.date = DAY) -> list[float]:
    return sorted(Lake.open().read_partition("weather_raw", day)["temp"].to_pylist())


def test_ingest_reports_new_changed_and_equal_rows(home: Path, write_source: Callable[..., Path]) -> None:
    first = ingest_day(write_source(create_line(1), create_line(2), create_line(3)))
    assert (first.new, first.changed, first.changes, first.rows) == (True, True, Changes(added=3), 3)
    ingest_day(write_source(create_line(1), next_day := create_line(1, day="2013-01-02")), dt.date(2013, 1, 2))
    repeat = ingest_day(write_source(create_line(1), create_line(2), create_line(3), next_day))
    assert (repeat.new, repeat.changed, repeat.changes) == (False, False, Changes())
    assert repeat.snapshot_id == first.snapshot_id, "writes to other days do not change the snapshot id of this day"
    correction = ingest_day(write_source(create_line(1), create_line(2, temp=41.0), create_line(4), create_line(5)))
    assert (correction.new, correction.changed, correction.changes) == (
        False,
        True,
        Changes(added=2, removed=1, changed=1),
    )
    assert correction.snapshot_id != first.snapshot_id


def test_a_day_with_all_rows_replaced_is_not_new(home: Path, write_source: Callable[..., Path]) -> None:
    ingest_day(write_source(create_line(1)))
    replacement = ingest_day(write_source(create_line(2)))
    assert (replacement.new, replacement.changes) == (False, Changes(added=1, removed=1))


def test_ingest_reports_added_and_widened_columns_and_refuses_removed_and_narrowed_ones(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class OneRowSource:
        """A source of one row with the given columns."""

        def __init__(self, **columns: Any) -> None:
            self.table = pa.table({"date": pa.array([DAY]), "origin": ["EWR"], "time_hour": [1], **columns})

        def read(self, partition: dt.date) -> pa.RecordBatchReader:
            return self.table.to_reader()

    def stage(**columns: Any) -> IngestResult:
        return ingest.stage_partition(load_dataset("weather"), OneRowSource(**columns), DAY, Lake.open())

    assert stage(temp=pa.array([1], pa.int32())).columns == []
    with caplog.at_level(logging.WARNING, "leeway"):
        result = stage(temp=pa.array([1], pa.int64()), haze=["thick"])
    assert sorted(result.columns) == ["added haze: string", "widened temp: int32 to int64"]
    assert "weather_raw 2013-01-01: added haze: string" in caplog.messages
    with pytest.raises(DataError, match="column haze is gone"):
        stage(temp=pa.array([1], pa.int64()))
    with pytest.raises(DataError, match="column temp was narrowed from int64 to int32"):
        stage(temp=pa.array([1], pa.int32()), haze=["thin"])
    assert Lake.open().read_partition("weather_raw", DAY)["haze"].to_pylist() == ["thick"]


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        ((), HEADER, "has no rows for 2013-01-01. Nothing was staged"),
        (
            (create_line(1, day="2013-01-02"),),
            HEADER,
            "2013-01-01: it holds 2013-01-02 to 2013-01-02. Nothing was staged",
        ),
        ((create_line(1), create_line(2)[:30]), HEADER, r"weather\.csv"),
        ((create_line(1), create_line(2, temp="warm")), HEADER, "warm"),
        ((create_line(1),), HEADER.replace("temp", "heat"), "temp"),
        ((create_line(1).replace(",", ";"),), HEADER.replace(",", ";"), "delimiter"),
    ],
    ids=["no rows", "another day", "half a file", "a word in a number column", "a column is gone", "another delimiter"],
)
def test_a_bad_file_keeps_the_rows_that_were_ingested_before(
    home: Path, write_source: Callable[..., Path], rows: tuple[str, ...], header: str, message: str
) -> None:
    before = ingest_day(write_source(create_line(1), create_line(2)))
    with pytest.raises(DataError, match=message) as error:
        ingest_day(write_source(*rows, header=header))
    assert "\n" not in str(error.value)
    assert read_temperatures() == [40.0, 40.0]
    repair = ingest_day(write_source(create_line(1), create_line(2), create_line(3)))
    assert (repair.changes, before.rows) == (Changes(added=1), 2)


def test_a_bad_file_creates_no_table(home: Path, write_source: Callable[..., Path]) -> None:
    with pytest.raises(DataError):
        ingest_day(write_source())
    assert Lake.open().count_rows_by_day("weather_raw") == {}


@pytest.mark.parametrize(
    "moment",
    [
        *("when the files are written", "after the commit"),
        *(pytest.param(moment, marks=pytest.mark.soak) for moment in ("when the first rows come", "before the commit")),
    ],
)
def test_a_killed_ingest_leaves_the_old_rows_or_the_new_ones(
    commands: Any, home: Path, write_source: Callable[..., Path], moment: str
) -> None:
    ingest_day(write_source(create_line(1), create_line(2)))
    folder = write_source(create_line(1), create_line(2, temp=41.0))
    module, owner, name, is_after_call = MOMENTS[moment]
    code = KILLED_INGEST.format(module=module, owner=owner, name=name, is_after_call=is_after_call)
    arguments = ("ingest", "--dataset", "weather", "--partition", str(DAY), "--folder", str(folder))
    assert commands.run(sys.executable, "-c", code, *arguments).code == -9
    assert read_temperatures() == ([40.0, 41.0] if moment == "after the commit" else [40.0, 40.0])
    result = commands.run_step(*arguments)
    assert result.code == 0, result.err
    assert json.loads(result.out)["changed"] is (moment != "after the commit")
    assert read_temperatures() == [40.0, 41.0]


def test_a_long_read_logs_its_progress(caplog: pytest.LogCaptureFixture) -> None:
    def yield_batches() -> Iterator[pa.RecordBatch]:
        for _ in range(3):
            yield pa.record_batch({"n": pa.array(range(1_000))})

    with caplog.at_level(logging.INFO, "leeway"):
        assert (
            sum(batch.num_rows for batch in progress_log.log_progress(yield_batches(), "t 2013-01-01", interval_s=0))
            == 3_000
        )
    assert caplog.messages[-1] == "t 2013-01-01: 3,000 rows read so far"
    caplog.clear()
    list(progress_log.log_progress(yield_batches(), "t 2013-01-01"))
    assert caplog.messages == []


def test_backfill_publishes_weather_and_reports_days_that_the_source_lacks(home: Path) -> None:
    """The source has the weather of 2013 up to 2013-12-30."""
    days = {"dataset": "weather", "first": "2013-12-29", "last": "2013-12-31"}
    with pytest.raises(DataError, match="1 of 3 partitions were not published: 2013-12-31: the source of weather has"):
        backfill.run(backfill.BackfillSpec(**days))
    result = backfill.run(backfill.BackfillSpec(**days, on_absent="skip"))
    assert (result.published, result.changed, result.skipped, result.absent) == (0, 0, 2, 1)
    assert result.snapshot_id
    repeat = backfill.run(backfill.BackfillSpec(**days, on_absent="skip", include_published=True))
    assert (repeat.published, repeat.changed, repeat.snapshot_id) == (2, 0, result.snapshot_id)
    after_the_year = backfill.run(
        backfill.BackfillSpec(dataset="weather", first="2014-01-01", last="2014-01-02", on_absent="skip")
    )
    assert (after_the_year.published, after_the_year.absent, after_the_year.snapshot_id) == (0, 2, 0)


def test_the_impossible_wind_speed_of_2013_is_a_warning(home: Path) -> None:
    from pipelines.steps import validate

    day = dt.date(2013, 2, 12)
    ingest.run(ingest.IngestSpec(dataset="weather", partition=day))
    result = validate.run(validate.ValidateSpec(dataset="weather", partition=day))
    assert [warning["column"] for warning in result.warnings] == ["wind_speed"]
    assert result.warnings[0]["examples"] == ["1048.36058"]
