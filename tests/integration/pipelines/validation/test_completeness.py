"""Test that a cut source publishes nothing: a day that shrinks, or that ends early, is refused unless it is allowed."""

import datetime as dt
import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines.datasets.flights.source import find_package_data
from pipelines.errors import DataError, ValidationError
from pipelines.lake import Lake
from pipelines.steps import backfill, ingest, validate
from pipelines.validation import suite_replay

FIRST_DAY = dt.date(2013, 1, 1)
SECOND_DAY = dt.date(2013, 1, 2)
DAY_SIZES = (842, 943, 914, 915, 720, 832, 933, 899, 902)
"""Flights of January 1 to 9."""
DATA = find_package_data()


@pytest.fixture(scope="session")
def flight_lines() -> list[bytes]:
    """Return the header and the flights of the first nine days, in the order of the real file."""
    with zipfile.ZipFile(DATA / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        return file.read(1 << 21).splitlines(keepends=True)[: 1 + sum(DAY_SIZES)]


def write_source(folder: Path, lines: Sequence[bytes]) -> Path:
    """Write flights.csv with these lines; the other files are those of the package."""
    folder.mkdir(exist_ok=True)
    (folder / "flights.csv").write_bytes(b"".join(lines))
    for path in (*DATA.glob("weather.csv*"), *DATA.glob("planes.csv*")):
        if not (folder / path.name).exists():
            (folder / path.name).symlink_to(path)
    return folder


def publish(folder: Path, day: dt.date, **fields: Any) -> validate.ValidateResult:
    """Ingest a day from the folder, and validate it."""
    ingest.run(ingest.IngestSpec(dataset="flights", partition=day, folder=folder))
    return validate.run(validate.ValidateSpec(partition=day, **{"dataset": "flights", **fields}))


def stage(day: dt.date, rows: pa.Table, table: str = "flights_raw") -> None:
    """Write the rows of a day to a table, by default the staging table."""
    Lake.open().write_partition(table, day, rows)


def count_lines(day: dt.date, rows: int) -> int:
    """Count the lines of a file that ends after `rows` flights of a day."""
    return 1 + sum(DAY_SIZES[: (day - FIRST_DAY).days]) + rows


@pytest.mark.parametrize(
    ("rows", "engine"),
    [(942, "duckdb"), *(pytest.param(500, engine, marks=pytest.mark.soak) for engine in ("duckdb", "gx"))],
)
def test_a_file_that_is_cut_at_the_end_of_a_row_does_not_replace_a_good_day(
    rows: int, engine: str, home: Path, tmp_path: Path, flight_lines: list[bytes]
) -> None:
    folder = write_source(tmp_path / "source", flight_lines)
    first_result = publish(folder, SECOND_DAY)
    assert first_result.rows == 943
    write_source(folder, flight_lines[: count_lines(SECOND_DAY, rows)])
    with pytest.raises(ValidationError, match=f"{rows} rows; the published version has 943") as error:
        publish(folder, SECOND_DAY, engine=engine)
    assert error.value.exit_code == 2 and "--allow-shrink" in error.value.hint
    lake = Lake.open()
    assert lake.pin_window("flights", SECOND_DAY, SECOND_DAY) == first_result.snapshot_id
    assert lake.read_partition("flights", SECOND_DAY).num_rows == 943
    allowed_result = publish(folder, SECOND_DAY, allow_shrink=True, engine=engine)
    assert (allowed_result.rows, allowed_result.changes.removed) == (rows, 943 - rows)
    assert [failure["severity"] for failure in allowed_result.warnings if "shrink" in failure["expectation"]] == [
        "info"
    ]


def test_an_equal_a_changed_and_a_larger_version_are_published(
    home: Path, tmp_path: Path, flight_lines: list[bytes]
) -> None:
    smaller_lines, full_lines = (flight_lines[: count_lines(SECOND_DAY, rows)] for rows in (930, 943))
    folder = write_source(tmp_path / "source", smaller_lines)
    assert publish(folder, SECOND_DAY).changed
    assert not publish(folder, SECOND_DAY).changed, "the same version again"
    values = smaller_lines[-1].split(b",")
    changed_line = b",".join([*values[:15], b"1234", *values[16:]])  # another distance
    write_source(folder, [*smaller_lines[:-1], changed_line])
    assert publish(folder, SECOND_DAY).rows == 930
    write_source(folder, full_lines)
    assert publish(folder, SECOND_DAY).changes.added >= 13


@pytest.mark.parametrize(
    ("share", "known_days", "fields"),
    [
        (0.25, 1, {}),
        (0.75, 8, {}),
        pytest.param(0.25, 1, {"engine": "gx"}, marks=pytest.mark.soak),
        pytest.param(0.25, 1, {"engine": "gx", "verify_share": 1}, marks=pytest.mark.soak),
    ],
)
def test_a_day_that_ends_early_is_not_published_for_the_first_time(
    share: float,
    known_days: int,
    fields: dict[str, Any],
    home: Path,
    day_rows: Callable[[str], pa.Table],
    flight_lines: list[bytes],
    tmp_path: Path,
) -> None:
    day = FIRST_DAY + dt.timedelta(known_days)
    folder = write_source(tmp_path / "source", flight_lines)
    for number in range(known_days):
        stage(FIRST_DAY + dt.timedelta(number), day_rows(str(FIRST_DAY + dt.timedelta(number))), "flights")
    rows = int(DAY_SIZES[known_days] * share)
    write_source(folder, flight_lines[: count_lines(day, rows)])
    with pytest.raises(ValidationError, match=f"expect_partition_not_to_end_early.*: {rows} rows") as error:
        publish(folder, day, **fields)
    assert "--allow-shrink" in error.value.hint
    assert day not in Lake.open().count_rows_by_day("flights")
    write_source(folder, flight_lines)
    assert publish(folder, day, **fields).rows == DAY_SIZES[known_days], "the whole day is published"


def test_a_short_day_that_was_allowed_is_not_refused_again_and_does_not_lower_the_bound(
    home: Path, day_rows: Callable[[str], pa.Table]
) -> None:
    days = [dt.date(2013, 4, 1) + dt.timedelta(number) for number in range(16)]
    for day in days[:14]:
        stage(day, day_rows(str(day)), "flights")
    for day in days[14:]:
        rows = day_rows(str(day)).sort_by("scheduled_at")
        stage(day, rows.slice(0, rows.num_rows // 2))
        with pytest.raises(ValidationError, match=r"expect_partition_not_to_end_early"):
            validate.run(validate.ValidateSpec(dataset="flights", partition=day))
        assert validate.run(validate.ValidateSpec(dataset="flights", partition=day, allow_shrink=True)).rows
        assert not validate.run(validate.ValidateSpec(dataset="flights", partition=day)).changed


def test_rows_in_quarantine_count_as_rows_of_the_published_version(
    home: Path, day_rows: Callable[[str], pa.Table]
) -> None:
    rows = day_rows("2013-01-01")
    temperatures = pa.array([500.0] * 9 + rows["weather_temp"].to_pylist()[9:])
    bad_rows = rows.set_column(rows.schema.get_field_index("weather_temp"), "weather_temp", temperatures)
    stage(FIRST_DAY, bad_rows)
    result = validate.run(validate.ValidateSpec(dataset="flights", partition=FIRST_DAY))
    assert (result.rows, result.quarantined) == (833, 9)
    stage(FIRST_DAY, rows)
    assert validate.run(validate.ValidateSpec(dataset="flights", partition=FIRST_DAY)).rows == 842, (
        "the source was corrected"
    )
    stage(FIRST_DAY, bad_rows)
    assert validate.run(validate.ValidateSpec(dataset="flights", partition=FIRST_DAY)).rows == 833, (
        "no row of the source is gone"
    )
    stage(FIRST_DAY, rows.slice(0, 841))
    with pytest.raises(ValidationError, match="841 rows; the published version has 833 and 9 in quarantine"):
        validate.run(validate.ValidateSpec(dataset="flights", partition=FIRST_DAY))


def test_an_incomplete_day_withdraws_nothing(home: Path, day_rows: Callable[[str], pa.Table]) -> None:
    rows = day_rows("2013-01-01")
    stage(FIRST_DAY, rows)
    validate.run(validate.ValidateSpec(dataset="flights", partition=FIRST_DAY))
    stage(FIRST_DAY, rows.slice(0, 600))
    with pytest.raises(ValidationError):
        validate.run(validate.ValidateSpec(dataset="flights", partition=FIRST_DAY, withdraw=True))
    assert Lake.open().count_rows_by_day("flights") == {FIRST_DAY: 842}
    bad_origin = pa.array(["ZZZ"] * 600)
    stage(FIRST_DAY, rows.slice(0, 600).set_column(rows.schema.get_field_index("origin"), "origin", bad_origin))
    with pytest.raises(ValidationError):
        validate.run(validate.ValidateSpec(dataset="flights", partition=FIRST_DAY, withdraw=True))
    assert Lake.open().count_rows_by_day("flights") == {}


def test_a_withdrawn_day_can_be_published_smaller(home: Path, day_rows: Callable[[str], pa.Table]) -> None:
    rows = day_rows("2013-01-01")
    stage(FIRST_DAY, rows, "flights")
    Lake.open().clear_partition("flights", FIRST_DAY)
    stage(FIRST_DAY, rows.slice(0, 800))
    assert validate.run(validate.ValidateSpec(dataset="flights", partition=FIRST_DAY)).rows == 800


@pytest.fixture
def weather_rows(source: Any) -> Callable[[dt.date], pa.Table]:
    """Return the function that reads the weather of a day."""
    from pipelines.dataset import load_dataset

    return lambda day: load_dataset("weather").open_source().read(day).read_all()


@pytest.mark.parametrize("share", [pytest.param(0.5, marks=pytest.mark.soak), 0.9])
def test_each_station_of_the_weather_has_to_reach_the_end_of_the_day(
    share: float, home: Path, weather_rows: Callable[[dt.date], pa.Table]
) -> None:
    """The file is sorted by station, so a cut day may still have rows of its last hour."""
    days = [dt.date(2013, 3, 1) + dt.timedelta(number) for number in range(8)]
    for day in days[:7]:
        stage(day, weather_rows(day), "weather")
    rows = weather_rows(days[7])
    stage(days[7], rows.slice(0, int(rows.num_rows * share)), "weather_raw")
    spec = validate.ValidateSpec(dataset="weather", partition=days[7])
    with pytest.raises(ValidationError, match=r"expect_partition_not_to_end_early"):
        validate.run(spec)
    stage(days[7], rows, "weather_raw")
    assert validate.run(spec).rows == 72


SUITE = {"expectations": [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "date"}}]}


@pytest.fixture
def put_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> Callable[..., None]:
    """Return the function that replaces the suite of flights."""

    def put(*expectations: dict[str, Any]) -> None:
        monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
        fresh_settings()
        (tmp_path / "expectations").mkdir(exist_ok=True)
        suite = {"expectations": [*SUITE["expectations"], *expectations]}
        (tmp_path / "expectations/flights.json").write_text(json.dumps(suite))

    return put


def test_every_suite_has_both_expectations_and_may_change_them(
    home: Path, day_rows: Callable[[str], pa.Table], put_suite: Callable[..., None]
) -> None:
    put_suite()
    rows, spec = day_rows("2013-01-01"), validate.ValidateSpec(dataset="flights", partition=FIRST_DAY)
    stage(FIRST_DAY, rows)
    assert validate.run(spec).evaluated == 3
    stage(FIRST_DAY, rows.slice(0, 800))
    with pytest.raises(ValidationError, match=r"expect_partition_not_to_shrink"):
        validate.run(spec)
    put_suite({"type": "expect_partition_not_to_shrink", "kwargs": {"min_ratio": 0.99}})
    with pytest.raises(ValidationError, match=r"expect_partition_not_to_shrink"):
        validate.run(spec)
    put_suite({"type": "expect_partition_not_to_shrink", "kwargs": {"min_ratio": 0.95}})
    assert validate.run(spec).rows == 800
    put_suite({"type": "expect_partition_not_to_shrink", "kwargs": {}, "severity": "warning"})
    stage(FIRST_DAY, rows.slice(0, 100))
    assert validate.run(spec).rows == 100
    put_suite({"type": "expect_partition_not_to_end_early", "kwargs": {"timezone": "America/Newyork"}})
    with pytest.raises(DataError, match="time zone"):
        validate.run(spec)


@pytest.mark.parametrize("column", ["", pytest.param("carrier", marks=pytest.mark.soak)])
def test_without_a_time_the_number_of_rows_is_compared(
    column: str, home: Path, day_rows: Callable[[str], pa.Table], put_suite: Callable[..., None]
) -> None:
    put_suite({"type": "expect_partition_not_to_end_early", "kwargs": {"column": column}})
    days = [FIRST_DAY + dt.timedelta(number) for number in range(8)]
    for day in days[:7]:
        stage(day, day_rows(str(day)), "flights")
    rows = day_rows(str(days[7]))
    stage(days[7], rows.slice(0, 200))
    with pytest.raises(ValidationError, match=r"200 rows; usually at least 720 \(7 published days\)"):
        validate.run(validate.ValidateSpec(dataset="flights", partition=days[7]))
    stage(days[7], rows.slice(0, 400))
    assert validate.run(validate.ValidateSpec(dataset="flights", partition=days[7])).rows == 400


def test_published_days_may_lack_columns_that_were_added_later(
    home: Path, day_rows: Callable[[str], pa.Table], put_suite: Callable[..., None]
) -> None:
    put_suite({"type": "expect_partition_not_to_end_early", "kwargs": {"series": ["origin", "nowhere"]}})
    for day in (FIRST_DAY, dt.date(2013, 1, 3)):
        stage(day, day_rows(str(day)).drop_columns(["origin", "scheduled_at"]), "flights")
    stage(SECOND_DAY, day_rows("2013-01-02"))
    assert validate.run(validate.ValidateSpec(dataset="flights", partition=SECOND_DAY)).rows == 943
    assert validate.run(validate.ValidateSpec(dataset="flights", partition=SECOND_DAY)).changed is False


def test_a_replay_judges_staged_and_published_days(home: Path, day_rows: Callable[[str], pa.Table]) -> None:
    suite = suite_replay.load_changed_suite("flights")
    stage(FIRST_DAY, day_rows("2013-01-01"), "flights")
    stage(FIRST_DAY, day_rows("2013-01-01").slice(0, 10), "flights_quarantine")
    stage(FIRST_DAY, day_rows("2013-01-01").slice(0, 800))
    verdicts = [
        next(iter(suite_replay.replay(suite, table, "flights", [FIRST_DAY], 0.1))).verdict
        for table in ("flights", "flights_raw")
    ]
    assert verdicts[0] != "blocked" and verdicts[1] == "blocked"


def test_a_day_that_is_not_over_may_end_early(
    home: Path, day_rows: Callable[[str], pa.Table], put_suite: Callable[..., None]
) -> None:
    put_suite()
    rows, today = day_rows("2013-01-01"), dt.datetime.now(dt.UTC).date()
    days = [today - dt.timedelta(1), today]
    for day, row_count in zip(days, (842, 100), strict=True):
        dates = pa.array([day] * 842, pa.date32())
        moved_rows = rows.set_column(rows.schema.get_field_index("date"), "date", dates)
        times = pc.add(rows["scheduled_at"], pa.scalar(day - FIRST_DAY, pa.duration("us")))
        moved_rows = moved_rows.set_column(rows.schema.get_field_index("scheduled_at"), "scheduled_at", times)
        stage(day, moved_rows.slice(0, row_count), "flights_raw" if day == today else "flights")
    assert validate.run(validate.ValidateSpec(dataset="flights", partition=today)).rows == 100


def test_backfill_refuses_and_allows_as_validate_does(
    home: Path, tmp_path: Path, flight_lines: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines.datasets.flights import source as module

    folder = write_source(tmp_path / "source", flight_lines[: count_lines(SECOND_DAY, 943)])
    monkeypatch.setattr(module, "find_package_data", lambda: folder)
    fields = {"first": FIRST_DAY, "last": SECOND_DAY, "include_published": True}
    assert backfill.run(backfill.BackfillSpec(**{"dataset": "flights", **fields})).published == 2
    write_source(folder, flight_lines[: count_lines(SECOND_DAY, 500)])
    with pytest.raises(DataError, match=r"1 of 2 partitions were not published: 2013-01-02: .*943"):
        backfill.run(backfill.BackfillSpec(**{"dataset": "flights", **fields}))
    assert backfill.run(backfill.BackfillSpec(**{"dataset": "flights", **fields}, allow_shrink=True)).changed == 1


def test_backfill_uses_the_section_validate_of_params_yaml(
    home: Path, day_rows: Callable[[str], pa.Table], put_suite: Callable[..., None], tmp_path: Path
) -> None:
    put_suite()
    (tmp_path / "params.yaml").write_text("validate: {allow_shrink: true}\n")
    stage(FIRST_DAY, pa.concat_tables([day_rows("2013-01-01")] * 2), "flights")
    fields = {"first": FIRST_DAY, "last": FIRST_DAY, "include_published": True}
    with pytest.raises(DataError, match=r"842 rows; the published version has 1684"):
        backfill.run(backfill.BackfillSpec(**{"dataset": "flights", **fields}, allow_shrink=False))
    assert backfill.run(backfill.BackfillSpec(**{"dataset": "flights", **fields})).changed == 1
