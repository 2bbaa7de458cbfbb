"""`python -m pipelines quarantine`, on a real day with a broken sensor."""

import datetime as dt
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from pipelines.cli.quarantine import app
from pipelines.errors import DataError, SpecError
from pipelines.lake import Lake
from pipelines.steps import validate

ROOT = Path(__file__).parents[4]
DAYS = ("2013-01-01", "2013-01-02")


@pytest.fixture
def project(
    home: Path,
    tmp_path: Path,
    day_rows: Callable[[str], pa.Table],
    monkeypatch: pytest.MonkeyPatch,
    fresh_settings: Callable[[], None],
) -> Path:
    """A project of the test's own, with two days published, each but for three rows."""
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    fresh_settings()
    shutil.copytree(ROOT / "expectations", tmp_path / "expectations")
    for day in DAYS:
        rows, date = day_rows(day), dt.date.fromisoformat(day)
        place = rows.schema.get_field_index("weather_wind_speed")
        broken = pa.array([1048.4] * 3 + rows["weather_wind_speed"].to_pylist()[3:], pa.float64())
        Lake.open().write_partition("flights_raw", date, rows.set_column(place, rows.schema.field(place), broken))
        assert validate.run(validate.ValidateSpec(partition=date)).quarantined == 3
    return tmp_path


def told(*arguments: str) -> str:
    return CliRunner().invoke(app, arguments, catch_exceptions=False).stdout


def allow(project: Path, most: float) -> None:
    path = project / "expectations/flights.json"
    suite = json.loads(path.read_text())
    for one in suite["expectations"]:
        if one["kwargs"].get("column") == "weather_wind_speed":
            one["kwargs"]["max_value"] = most
    path.write_text(json.dumps(suite))


def test_list_says_what_is_wrong(project: Path) -> None:
    reason = "expect_column_values_to_be_between of weather_wind_speed"
    assert told("list").splitlines() == [f"{day}  3 rows: 3 {reason}" for day in DAYS]
    assert json.loads(told("list", "--json", "--from", DAYS[1])) == [
        {"partition": DAYS[1], "rows": 3, "reasons": {reason: 3}}
    ]
    assert told("list", "--to", "2012-12-31") == "No row of flights is in quarantine to 2012-12-31.\n"


def test_show_has_the_whole_row(project: Path) -> None:
    lines = told("show", "--to", DAYS[0], "--limit", "2").splitlines()
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert [one["weather_wind_speed"] for one in rows] == [1048.4] * 2
    assert rows[0]["quarantine"][0]["value"] == "1048.4"


def test_release_publishes_what_passes_now(project: Path) -> None:
    assert told("release", "--to", DAYS[0]) == f"{DAYS[0]}  0 of 3 rows published, 3 stay in quarantine\n"
    allow(project, 2000)
    assert told("release", "--to", DAYS[0]) == f"{DAYS[0]}  3 of 3 rows published, 0 stay in quarantine\n"
    lake, (first, second) = Lake.open(), map(dt.date.fromisoformat, DAYS)
    assert lake.count_rows_by_day("flights_quarantine") == {second: 3}
    assert lake.read_partition("flights", first).num_rows == lake.read_partition("flights_raw", first).num_rows


def test_a_refused_partition_does_not_stop_the_others(project: Path) -> None:
    date = dt.date.fromisoformat(DAYS[0])
    allow(project, 2000)
    Lake.open().write_partition("flights_raw", date, Lake.open().read_partition("flights_raw", date).slice(0, 100))
    with pytest.raises(DataError, match="1 of 2 partitions were refused: 2013-01-01"):
        told("release")
    assert Lake.open().count_rows_by_day("flights_quarantine") == {date: 3}


def test_a_day_that_is_none_is_refused(project: Path) -> None:
    with pytest.raises(SpecError, match="--from '2013-13-01'"):
        told("list", "--from", "2013-13-01")
