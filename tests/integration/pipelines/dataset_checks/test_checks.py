"""Test what the tests of a project call: each check has a dataset that passes, and one that fails."""

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pipelines.dataset import Dataset, load_dataset
from pipelines.dataset_checks import engines, interruption, leaks, policies
from pipelines.datasets.flights import DATASET
from pipelines.datasets.flights import features as flights_features


@pytest.fixture(scope="module")
def rows(day_rows: Callable[[str], pa.Table]) -> pa.Table:
    return pa.concat_tables([day_rows("2013-01-01"), day_rows("2013-01-02")])


def use_delay(rows: ibis.Table) -> ibis.Table:
    return flights_features.features(rows).mutate(distance=rows.dep_delay)


def test_a_leak_is_found(rows: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    assert leaks.find_leaks(DATASET, rows) == []
    assert leaks.find_leaks(*leaks.add_leak(DATASET, rows)) == [
        "leak alone predicts the label with 1.000; at most 0.99 is plausible"
    ]
    assert leaks.find_leaks(*leaks.add_leak(DATASET, rows), known_before=["leak"]) == []
    monkeypatch.setattr("pipelines.dataset.Dataset.load_feature_function", lambda self: use_delay)
    dataset = replace(DATASET, known_later=[name for name in DATASET.known_later if name != "dep_delay"])
    assert leaks.find_leaks(dataset, rows) == [], "a known delay is no leak, and does not predict the label alone"


def test_rows_without_a_class_have_no_leak(rows: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "_list_targets", lambda dataset, frame: [])  # as for a multiclass model without labels
    assert leaks.find_leaks(DATASET, rows) == []


def test_a_feature_of_a_column_that_is_known_later_is_refused(rows: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.dataset.Dataset.load_feature_function", lambda self: use_delay)
    lines = leaks.find_leaks(DATASET, rows)
    assert lines == ["the features cannot be built without the columns of known_later: dep_delay"]


@pytest.mark.parametrize(
    ("is_leak", "lines"), [(True, ["plane_seats alone predicts the label with 1.000"]), (False, [])]
)
def test_a_feature_that_is_missing_for_the_cancelled_flights_is_a_leak(
    day_rows: Callable[[str], pa.Table], is_leak: bool, lines: list[str]
) -> None:
    """On 2013-02-08, in a snow storm, 472 flights were cancelled. The invented seats say nothing about it."""
    day = day_rows("2013-02-08")
    by_chance = pa.array(np.random.default_rng(3).random(len(day)) < 0.5)
    is_missing = day["dep_time"].is_null() if is_leak else by_chance
    seats = pc.if_else(is_missing, pa.scalar(None, pa.float64()), pa.array(np.arange(len(day)) % 7 + 100.0))
    rows = day.set_column(day.schema.get_field_index("plane_seats"), "plane_seats", seats)
    status = load_dataset("flight_status")
    dataset = replace(status, features={**status.features, "plane_seats": "number"})
    found = leaks.find_leaks(dataset, rows)
    assert [line[: len(text)] for line, text in zip(found, lines, strict=True)] == lines


def use_chance(rows: ibis.Table) -> ibis.Table:
    return flights_features.features(rows).mutate(plane_seats=ibis.random())


@pytest.mark.soak
@pytest.mark.slow
def test_different_features_of_the_engines_are_found(
    java: None, home: Path, rows: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engines.find_differences(DATASET, rows, tmp_path / "equal") == []
    computed_label = load_dataset("flight_status")
    assert engines.find_differences(computed_label, rows, tmp_path / "computed_label") == []
    labels = pq.read_table(tmp_path / "computed_label/spark/data.parquet")["status"]
    assert set(labels.to_pylist()) == {"cancelled", "late", "on_time"}
    monkeypatch.setattr("pipelines.dataset.Dataset.load_feature_function", lambda self: use_chance)
    lines = engines.find_differences(DATASET, rows, tmp_path / "different")
    assert lines == ["DuckDB and Spark give different values of plane_seats"]


SCRIPT = """
import os
import signal
import sys
import time
lines = 1_000 if "interrupted" in os.environ["SM_MODEL_DIR"] else 3
{statement}
for number in range(lines):
    print(number)
    time.sleep(0.01)
"""


@pytest.mark.soak
def test_a_training_that_resumes_after_an_interruption_has_no_problem(
    home: Path, rows: pa.Table, tmp_path: Path
) -> None:
    assert interruption.find_problem(DATASET, rows, tmp_path) == ""


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("pass", "after SIGTERM, the script ended with exit code -15, not 143"),
        ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))", "the script ended with exit code 0, not 143: "),
        ("lines = 3", "the script ended with exit code 0, not 143: "),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN)", "the script did not end within 0.2 s of SIGTERM"),
    ],
)
def test_a_training_that_does_not_survive_an_interruption_is_found(
    home: Path,
    rows: pa.Table,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    problem: str,
) -> None:
    (tmp_path / "training.py").write_text(SCRIPT.replace("{statement}", statement))
    monkeypatch.setattr(Dataset, "find_file", lambda self, name: tmp_path / name)
    monkeypatch.setattr(interruption, "NOTICE_S", 0.2)
    assert interruption.find_problem(DATASET, rows, tmp_path / "folder").startswith(problem)


SECTIONS: dict[str, dict[str, Any]] = {
    "snapshot": {"holdout_days": 14, "min_train_days": 14},
    "gate": {"policy": {"min_rows": 200, "group_by": "date", "min_groups": 10}},
    "drift": {"window_days": 14, "policy": {"min_rows": 200}},
}


@pytest.mark.parametrize(
    ("days", "rows_per_day", "problems"),
    [
        (60, 50, []),
        (60, 5, ["gate: min_rows 200", "drift: min_rows 200"]),
        (20, 50, ["snapshot: the shortest window has 29 days, and the published days span 20"]),
    ],
)
def test_policies_that_the_data_cannot_meet_are_named(days: int, rows_per_day: int, problems: list[str]) -> None:
    rows_by_day = {dt.date(2026, 1, 1) + dt.timedelta(number): rows_per_day for number in range(days)}
    lines = policies.find_problems(SECTIONS, rows_by_day)
    assert [line[: len(problem)] for line, problem in zip(lines, problems, strict=True)] == problems


def test_days_without_rows_count_for_the_groups() -> None:
    rows_by_day = {dt.date(2026, 1, 1) + dt.timedelta(7 * number): 500 for number in range(20)}
    assert policies.find_problems(SECTIONS, rows_by_day) == [
        "gate: min_groups 10, and a holdout has about 2 days with rows"
    ]
