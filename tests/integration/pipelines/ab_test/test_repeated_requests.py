"""Test that an A/B test counts each row once for each version, although clients repeat requests."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.ab_test.outcome_sums import METRICS, create_outcomes_view, sum_outcomes
from pipelines.ab_test.report import build_report
from pipelines.dataset import Dataset
from pipelines.datasets.flights import DATASET
from pipelines.lake import Lake, connect

DAY = dt.date(2013, 5, 1)
NOON = dt.datetime(2013, 5, 1, 12, tzinfo=dt.UTC)
MODEL = "ab-rides"
RIDES = replace(DATASET, name="rides", key=("date", "number"), lookups=())
METRIC = METRICS["binary"]["brier"]


def write_outcomes(dataset: Dataset, version: str, numbers: Sequence[int], score: float) -> None:
    count = len(numbers)
    rows = {
        "date": pa.array([DAY] * count),
        "number": pa.array(numbers),
        "label": pa.array([True] * count),
        "score": pa.array([score] * count),
        "model_name": pa.array([MODEL] * count),
        "model_version": pa.array([version] * count),
    }
    part_values = {"model_name": MODEL, "model_version": version}
    Lake.open().write_partition(
        dataset.outcomes, DAY, pa.table(rows), (*dataset.key, "model_version"), part_values=part_values
    )


def test_a_few_rows_with_answers_of_both_versions_make_no_pairs(home: Path) -> None:
    write_outcomes(RIDES, "1", range(300), 0.5)
    write_outcomes(RIDES, "2", range(298, 500), 0.7)  # two requests were repeated, and the other version answered
    sums = sum_outcomes(Lake.open(), RIDES, MODEL, ("1", "2"), (DAY, DAY), METRIC)
    assert not sums.is_paired and [sample.count for sample in sums.samples] == [300, 202]


def test_rows_that_both_versions_scored_are_compared_in_pairs(home: Path) -> None:
    write_outcomes(RIDES, "1", range(300), 0.5)
    write_outcomes(RIDES, "2", range(200, 350), 0.7)  # two thirds of its rows
    sums = sum_outcomes(Lake.open(), RIDES, MODEL, ("1", "2"), (DAY, DAY), METRIC)
    assert sums.is_paired and [sample.count for sample in sums.samples] == [100]


def test_pairs_that_are_too_few_are_not_decided(home: Path) -> None:
    for version, score in (("1", 0.5), ("2", 0.7)):
        write_outcomes(RIDES, version, range(99), score)
    sums = sum_outcomes(Lake.open(), RIDES, MODEL, ("1", "2"), (DAY, DAY), METRIC)
    days = [DAY + dt.timedelta(number) for number in range(14)]
    report = build_report(
        MODEL, ("1", "2"), "brier", METRIC, sums._replace(days=days, row_counts=[150, 150]), 0.05, 1_000
    )
    assert report.missing_data == "at least 100 rows that both versions scored are needed"


def test_the_newest_online_answer_of_a_version_counts(home: Path) -> None:
    lake, count = Lake.open(), 10
    published = {
        "date": pa.array([DAY] * count),
        "number": pa.array(range(count)),
        "late": pa.array([True] * count),
    }
    lake.write_partition(RIDES.table, DAY, pa.table(published), RIDES.key)
    for variant, score, hours in (("AllTraffic", 0.8, 1), ("shadow-2", 0.2, 0)):
        part_values = {"model_name": MODEL, "model_version": "2", "endpoint": "rides", "variant": variant}
        rows = {
            "date": published["date"],
            "number": published["number"],
            "score": pa.array([score] * count),
            "requested_at": pa.array([NOON + dt.timedelta(hours=hours)] * count, pa.timestamp("us", tz="UTC")),
            **{name: pa.array([value] * count) for name, value in part_values.items()},
        }
        lake.write_partition(RIDES.requests, DAY, pa.table(rows), RIDES.key, part_values=part_values)
    sums = sum_outcomes(lake, RIDES, MODEL, ("2",), (DAY, DAY), METRIC, is_online=True)
    assert sums.row_counts == [count] and abs(sums.samples[0].mean - 0.04) < 1e-12


def test_the_view_of_the_online_outcomes_is_dropped_after_an_error(home: Path) -> None:
    lake, key = Lake.open(), {"date": pa.array([DAY]), "number": pa.array([1])}
    lake.write_partition(RIDES.table, DAY, pa.table({**key, "late": pa.array([True])}), RIDES.key)
    part_values = {"model_name": MODEL, "model_version": "1", "endpoint": "rides", "variant": "AllTraffic"}
    rows = {
        **{**key, "score": pa.array([0.5]), "requested_at": pa.array([NOON], pa.timestamp("us", tz="UTC"))},
        **{name: pa.array([value]) for name, value in part_values.items()},
    }
    lake.write_partition(RIDES.requests, DAY, pa.table(rows), RIDES.key, part_values=part_values)
    with connect() as connection:
        with (
            pytest.raises(ZeroDivisionError),
            create_outcomes_view(connection, lake, RIDES, (DAY, DAY), is_online=True),
        ):
            _ = 1 / 0
        assert connection.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall() == []
        with create_outcomes_view(connection, lake, RIDES, (DAY, DAY), is_online=True):
            assert connection.sql("SELECT count(*) FROM outcomes").fetchall() == [(1,)]
