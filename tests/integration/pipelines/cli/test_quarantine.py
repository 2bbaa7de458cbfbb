"""Test `python -m pipelines quarantine` on real days with a few wrong values."""

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
    """Return a project folder of this test. Two days are published; three rows of each are in quarantine."""
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    fresh_settings()
    shutil.copytree(ROOT / "expectations", tmp_path / "expectations")
    for day in DAYS:
        rows, date = day_rows(day), dt.date.fromisoformat(day)
        position = rows.schema.get_field_index("weather_wind_speed")
        values = pa.array([1048.4] * 3 + rows["weather_wind_speed"].to_pylist()[3:], pa.float64())
        Lake.open().write_partition("flights_raw", date, rows.set_column(position, rows.schema.field(position), values))
        assert validate.run(validate.ValidateSpec(dataset="flights", partition=date)).quarantined == 3
    return tmp_path


def run_cli(*arguments: str) -> str:
    """Run the command for the dataset flights and return its stdout."""
    return CliRunner().invoke(app, [*arguments, "--dataset", "flights"], catch_exceptions=False).stdout


def set_max_wind_speed(project: Path, max_value: float) -> None:
    """Change the highest wind speed that the suite of the project allows."""
    path = project / "expectations/flights.json"
    suite = json.loads(path.read_text())
    for expectation in suite["expectations"]:
        if expectation["kwargs"].get("column") == "weather_wind_speed":
            expectation["kwargs"]["max_value"] = max_value
    path.write_text(json.dumps(suite))


def test_list_gives_the_reasons_of_each_day(project: Path) -> None:
    reason = "expect_column_values_to_be_between of weather_wind_speed"
    assert run_cli("list").splitlines() == [f"{day}  3 rows: 3 {reason}" for day in DAYS]
    assert json.loads(run_cli("list", "--json", "--from", DAYS[1])) == [
        {"partition": DAYS[1], "rows": 3, "reasons": {reason: 3}}
    ]
    assert run_cli("list", "--to", "2012-12-31") == "No row of flights is in quarantine to 2012-12-31.\n"


def test_show_prints_whole_rows(project: Path) -> None:
    lines = run_cli("show", "--to", DAYS[0], "--limit", "2").splitlines()
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert [row["weather_wind_speed"] for row in rows] == [1048.4] * 2
    assert rows[0]["quarantine"][0]["value"] == "1048.4"


def test_release_publishes_rows_that_pass_now(project: Path) -> None:
    assert run_cli("release", "--to", DAYS[0]) == f"{DAYS[0]}  0 of 3 rows published, 3 stay in quarantine\n"
    set_max_wind_speed(project, 2000)
    assert run_cli("release", "--to", DAYS[0]) == f"{DAYS[0]}  3 of 3 rows published, 0 stay in quarantine\n"
    lake, (first, second) = Lake.open(), map(dt.date.fromisoformat, DAYS)
    assert lake.count_rows_by_day("flights_quarantine") == {second: 3}
    assert lake.read_partition("flights", first).num_rows == lake.read_partition("flights_raw", first).num_rows


def test_release_says_how_many_rows_a_stricter_suite_adds(project: Path) -> None:
    speeds = Lake.open().read_partition("flights", dt.date.fromisoformat(DAYS[0]))["weather_wind_speed"].to_pylist()
    limit = sorted({speed for speed in speeds if speed is not None})[-2]
    count = sum(speed is not None and speed > limit for speed in speeds)
    set_max_wind_speed(project, limit)
    assert count > 0
    assert run_cli("release", "--to", DAYS[0]) == f"{DAYS[0]}  {count} more rows are in quarantine: now {3 + count}\n"


def test_a_refused_partition_does_not_stop_the_others(project: Path) -> None:
    date = dt.date.fromisoformat(DAYS[0])
    set_max_wind_speed(project, 2000)
    Lake.open().write_partition("flights_raw", date, Lake.open().read_partition("flights_raw", date).slice(0, 100))
    with pytest.raises(DataError, match="1 of 2 partitions were refused: 2013-01-01"):
        run_cli("release")
    assert Lake.open().count_rows_by_day("flights_quarantine") == {date: 3}


def test_refuses_an_invalid_day(project: Path) -> None:
    with pytest.raises(SpecError, match="--from '2013-13-01'"):
        run_cli("list", "--from", "2013-13-01")


@pytest.mark.parametrize("command", ["list", "show", "release"])
def test_asks_for_the_dataset_where_the_project_has_several(home: Path, command: str) -> None:
    with pytest.raises(
        SpecError,
        match=r"no dataset is named. Give one .* datasets: flight_delay, flight_status, flights, weather\.",
    ):
        CliRunner().invoke(app, [command], catch_exceptions=False)
