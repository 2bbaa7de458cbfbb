"""The step ingest: what it tells, what it refuses, and what is left when it is killed. The day is one of weather."""

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
DYING = """
import os, signal, sys
from pipelines.cli.app import main
from {module} import {owner}
real = {owner}.{name}
def dying(*given, **named):
    if not {late}:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*given, **named)
    os.kill(os.getpid(), signal.SIGKILL)
{owner}.{name} = dying
main()
"""
MOMENTS = {
    "when the first rows come": ("pipelines.lake", "spool", "_write_file", False),
    "when the files are written": ("pipelines.lake", "spool", "_write_file", True),
    "before the commit": ("pyiceberg.table", "Transaction", "commit_transaction", False),
    "after the commit": ("pyiceberg.table", "Transaction", "commit_transaction", True),
}


def hour(number: int, temp: object = 40.0, origin: str = "EWR", day: str = "2013-01-01") -> str:
    return f"{origin},{day}T{number:02d}:00:00Z,{temp},26,60,270,10.4,NA,0,1012,10"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes the source; gives its folder."""

    def made(*rows: str, header: str = HEADER) -> Path:
        (tmp_path / "weather.csv").write_text("\n".join([header, *rows, ""]))
        return tmp_path

    return made


def ingested(folder: Path, day: dt.date = DAY) -> IngestResult:
    return ingest.run(ingest.IngestSpec(dataset="weather", partition=day, folder=folder))


def temps(day: dt.date = DAY) -> list[float]:
    return sorted(Lake.open().read_partition("weather_raw", day)["temp"].to_pylist())


def test_it_tells_what_is_new_what_changed_and_what_is_the_same(home: Path, write: Callable[..., Path]) -> None:
    first = ingested(write(hour(1), hour(2), hour(3)))
    assert (first.new, first.changed, first.changes, first.rows) == (True, True, Changes(added=3), 3)
    ingested(write(hour(1), day := hour(1, day="2013-01-02")), dt.date(2013, 1, 2))
    same = ingested(write(hour(1), hour(2), hour(3), day))
    assert (same.new, same.changed, same.changes) == (False, False, Changes())
    assert same.snapshot_id == first.snapshot_id, "the version of a day, whatever is written to others"
    late = ingested(write(hour(1), hour(2, temp=41.0), hour(4), hour(5)))
    assert (late.new, late.changed, late.changes) == (False, True, Changes(added=2, removed=1, changed=1))
    assert late.snapshot_id != first.snapshot_id


def test_a_day_of_which_all_is_other_is_not_new(home: Path, write: Callable[..., Path]) -> None:
    ingested(write(hour(1)))
    other = ingested(write(hour(2)))
    assert (other.new, other.changes) == (False, Changes(added=1, removed=1))


def test_what_happens_to_columns_is_told(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Rows:
        """A source of one row, of the columns that it is given."""

        def __init__(self, **columns: Any) -> None:
            self.table = pa.table({"date": pa.array([DAY]), "origin": ["EWR"], "time_hour": [1], **columns})

        def read(self, partition: dt.date) -> pa.RecordBatchReader:
            return self.table.to_reader()

    def staged(**columns: Any) -> IngestResult:
        return ingest.stage_partition(load_dataset("weather"), Rows(**columns), DAY)  # type: ignore[arg-type]

    assert staged(temp=pa.array([1], pa.int32())).columns == []
    with caplog.at_level(logging.WARNING, "leeway"):
        told = staged(temp=pa.array([1], pa.int64()), haze=["thick"])
    assert sorted(told.columns) == ["added haze: string", "widened temp: int32 to int64"]
    assert "weather_raw 2013-01-01: added haze: string" in caplog.messages
    with pytest.raises(DataError, match="column haze is gone"):
        staged(temp=pa.array([1], pa.int64()))
    with pytest.raises(DataError, match="column temp was narrowed from int64 to int32"):
        staged(temp=pa.array([1], pa.int32()), haze=["thin"])
    assert Lake.open().read_partition("weather_raw", DAY)["haze"].to_pylist() == ["thick"]


@pytest.mark.parametrize(
    ("rows", "header", "said"),
    [
        ((), HEADER, "has no rows for 2013-01-01. Nothing was staged"),
        ((hour(1, day="2013-01-02"),), HEADER, "has no rows for 2013-01-01. Nothing was staged"),
        ((hour(1), hour(2)[:30]), HEADER, r"weather\.csv"),
        ((hour(1), hour(2, temp="warm")), HEADER, "warm"),
        ((hour(1),), HEADER.replace("temp", "heat"), "temp"),
        ((hour(1).replace(",", ";"),), HEADER.replace(",", ";"), "delimiter"),
    ],
    ids=["no rows", "another day", "half a file", "a word", "a column is gone", "another delimiter"],
)
def test_a_bad_file_leaves_what_was_there(
    home: Path, write: Callable[..., Path], rows: tuple[str, ...], header: str, said: str
) -> None:
    before = ingested(write(hour(1), hour(2)))
    with pytest.raises(DataError, match=said) as caught:
        ingested(write(*rows, header=header))
    assert "\n" not in str(caught.value)
    assert temps() == [40.0, 40.0]
    mended = ingested(write(hour(1), hour(2), hour(3)))
    assert (mended.changes, before.rows) == (Changes(added=1), 2)


def test_a_bad_file_makes_no_table(home: Path, write: Callable[..., Path]) -> None:
    with pytest.raises(DataError):
        ingested(write())
    assert Lake.open().count_rows_by_day("weather_raw") == {}


@pytest.mark.parametrize("moment", MOMENTS)
def test_kill_9_leaves_the_old_version_or_the_new_one(
    commands: Any, home: Path, write: Callable[..., Path], moment: str
) -> None:
    ingested(write(hour(1), hour(2)))
    folder = write(hour(1), hour(2, temp=41.0))
    module, owner, name, late = MOMENTS[moment]
    code = DYING.format(module=module, owner=owner, name=name, late=late)
    given = ("ingest", "--dataset", "weather", "--partition", str(DAY), "--folder", str(folder))
    assert commands.run(sys.executable, "-c", code, *given).code == -9
    assert temps() == ([40.0, 41.0] if moment == "after the commit" else [40.0, 40.0])
    done = commands.step(*given)
    assert done.code == 0, done.err
    assert json.loads(done.out)["changed"] is (moment != "after the commit")
    assert temps() == [40.0, 41.0]


def test_a_long_read_says_how_far_it_is(caplog: pytest.LogCaptureFixture) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(3):
            yield pa.record_batch({"n": pa.array(range(1_000))})

    with caplog.at_level(logging.INFO, "leeway"):
        assert sum(one.num_rows for one in progress_log.log_progress(batches(), "t 2013-01-01", every_s=0)) == 3_000
    assert caplog.messages[-1] == "t 2013-01-01: 3,000 rows read so far"
    caplog.clear()
    list(progress_log.log_progress(batches(), "t 2013-01-01"))
    assert caplog.messages == []


def test_a_dataset_without_a_label_is_published_and_days_that_are_not_there_are_told(home: Path) -> None:
    """The last days of the real year: on 2013-12-31 the weather has ended."""
    days = {"dataset": "weather", "first": "2013-12-29", "last": "2013-12-31"}
    with pytest.raises(DataError, match="1 of 3 partitions were not published: 2013-12-31: the source of weather has"):
        backfill.run(backfill.BackfillSpec(**days))
    told = backfill.run(backfill.BackfillSpec(**days, absent="skip"))
    assert (told.published, told.changed, told.skipped, told.absent) == (0, 0, 2, 1)
    assert told.snapshot_id
    again = backfill.run(backfill.BackfillSpec(**days, absent="skip", again=True))
    assert (again.published, again.changed, again.snapshot_id) == (2, 0, told.snapshot_id)
    nothing = backfill.run(
        backfill.BackfillSpec(dataset="weather", first="2014-01-01", last="2014-01-02", absent="skip")
    )
    assert (nothing.published, nothing.absent, nothing.snapshot_id) == (0, 2, 0)


def test_the_fault_of_2013_is_a_warning(home: Path) -> None:
    from pipelines.steps import validate

    day = dt.date(2013, 2, 12)
    ingest.run(ingest.IngestSpec(dataset="weather", partition=day))
    told = validate.run(validate.ValidateSpec(dataset="weather", partition=day))
    assert [one["column"] for one in told.warnings] == ["wind_speed"]
    assert told.warnings[0]["examples"] == ["1048.36058"]
