"""Test `validate` killed at random moments: nothing is half-published, and the next run publishes the whole day."""

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.lake import Lake
from pipelines.steps import validate
from tests.tools.kill_points import draw_moments, is_killed, run_until

DAY = dt.date(2013, 1, 1)
OLD, NEW = 30.5, 31.5
"""Temperatures in the earlier and in the new version of the day."""
BAD_ROWS = 9


def build_version(rows: pa.Table, temperature: float, bad_rows: int) -> pa.Table:
    """Return the day with one temperature in all rows, but for the bad rows, which are too hot."""
    values = [500.0] * bad_rows + [temperature] * (rows.num_rows - bad_rows)
    return rows.set_column(rows.schema.get_field_index("weather_temp"), "weather_temp", pa.array(values))


def read_versions(table: str) -> list[tuple[float, int]]:
    """Return each temperature of the day in the table, with the number of its rows."""
    if DAY not in Lake.open().count_rows_by_day(table):
        return []
    counts = Lake.open().read_partition(table, DAY)["weather_temp"].value_counts().to_pylist()
    return sorted((count["values"], count["counts"]) for count in counts)


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.soak)])
def test_a_killed_validate_publishes_the_old_day_or_the_new_one(
    kills: int, commands: Any, home: Path, day_rows: Callable[[str], pa.Table]
) -> None:
    options = ("validate", "--dataset", "flights", "--partition", str(DAY), "--verify-share", "0")
    versions = {
        temperature: build_version(day_rows(str(DAY)), temperature, bad_rows)
        for temperature, bad_rows in ((OLD, 0), (NEW, BAD_ROWS))
    }
    published = {OLD: [(OLD, 842)], NEW: [(NEW, 842 - BAD_ROWS)]}
    quarantined: dict[float, list[tuple[float, int]]] = {OLD: [], NEW: [(500.0, BAD_ROWS)]}

    def publish_old_and_stage_new() -> None:
        Lake.open().write_partition("flights_raw", DAY, versions[OLD])
        validate.run(validate.ValidateSpec(dataset="flights", partition=DAY, verify_share=0, allow_shrink=True))
        Lake.open().write_partition("flights_raw", DAY, versions[NEW])

    publish_old_and_stage_new()
    whole_run = run_until(commands, 0, *options)
    for moment in draw_moments(whole_run, kills, seed=8):
        publish_old_and_stage_new()
        assert is_killed(run_until(commands, moment, *options)), moment
        assert read_versions("flights") in published.values(), moment
        assert read_versions("flights_quarantine") in quarantined.values(), moment
        json.loads((home / f"validation/flights/{DAY}.json").read_text())
        assert commands.run_step(*options).code == 0, moment
        assert (read_versions("flights"), read_versions("flights_quarantine")) == (published[NEW], quarantined[NEW])
