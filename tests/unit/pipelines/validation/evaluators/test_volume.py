"""Test which partitions the volume check names as those with which it compares."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.partitions import Hour, Month
from pipelines.validation.evaluators.table_checks import make_volume_check

DAY = dt.date(2013, 5, 3)


@pytest.mark.parametrize(
    ("partition", "name"),
    [(DAY, "Friday"), (Hour(DAY, 5), "Friday at 05:00 UTC"), (Month(dt.date(2013, 5, 1)), "month")],
    ids=["day", "hour", "month"],
)
def test_the_observed_value_names_the_partitions_of_the_comparison(partition: Any, name: str) -> None:
    lake = SimpleNamespace(count_rows_of_partitions=lambda _, partitions: dict.fromkeys(partitions, 100))
    rows: Any = SimpleNamespace(partition=partition, lake=lake, published_table="t", count=40)
    args: Any = SimpleNamespace(weeks=4, min_history=3, min_ratio=0.5, max_ratio=2.0)
    success, result = make_volume_check(args, rows).compute_result(rows, ())
    assert success is False
    assert result["observed_value"] == f"40 rows, 0.40 of the 100 that a {name} has"
