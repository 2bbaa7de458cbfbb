"""Test that no step sees the future: rows that become known after as_of change no output of any step."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.lake import Lake
from pipelines.steps import evaluate, gate, preprocess, snapshot, train
from pipelines.system.files import sha256
from tests.tools.policies import EASY

AS_OF = dt.date(2013, 1, 22)
WINDOW = {"as_of": AS_OF, "train_days": 9, "holdout_days": 4, "min_train_days": 4}
TINY = {"num_round": 12, "early_stopping_rounds": 6, "checkpoint_rounds": 6, "eta": 0.3, "max_depth": 3}
OUTPUTS = ("snapshot.json", "features", "model", "evaluation", "verdict.json")
"""Outputs of the steps. data/training is not one of them: it contains wall-clock times."""
DAY = dt.timedelta(days=1)
FIRST, LAST = dt.date(2013, 1, 5), AS_OF - 2 * DAY
"""First and last day of the window. The label of the 21st is not known yet at the midnight that begins the 22nd."""
GAP = LAST - 4 * DAY
"""The day between the training days and the holdout: its labels were not known when the holdout began."""


def run_steps() -> dict[str, str]:
    """Run all steps in the working directory; return the digest of each output."""
    snapshot.run(snapshot.SnapshotSpec(**WINDOW))
    preprocess.run(preprocess.PreprocessSpec(validation_days=2))
    train.run(train.TrainSpec(hyperparameters=TINY))
    evaluate.run(evaluate.EvaluateSpec())
    gate.run(gate.GateSpec(policy=EASY))
    return {name: sha256(Path("data") / name) for name in OUTPUTS}


def alter_rows(rows: pa.Table) -> pa.Table:
    """Negate all labels, and write values into weather, planes and carriers that no real row has."""
    new_values = {
        "late": [None if label is None else not label for label in rows["late"].to_pylist()],
        **{name: [99.0] * rows.num_rows for name in ("weather_temp", "weather_wind_speed")},
        **{name: ["FROM THE FUTURE"] * rows.num_rows for name in ("carrier", "plane_manufacturer")},
        "plane_year": [2013] * rows.num_rows,
        # The carriers are equal now, so the key needs different flight numbers.
        "flight": range(rows.num_rows),
    }
    for name, values in new_values.items():
        field = rows.schema.field(name)
        rows = rows.set_column(rows.schema.get_field_index(name), field, pa.array(values, field.type))
    return rows


@pytest.fixture
def publish(home: Path, day_rows: Callable[[str], pa.Table]) -> Callable[..., None]:
    """Return the function that publishes days, unchanged or with altered rows."""

    def publish_days(*days: dt.date, change: Callable[[pa.Table], pa.Table] = lambda rows: rows) -> None:
        for day in days:
            Lake.open().write_partition("flights", day, change(day_rows(day.isoformat())))

    return publish_days


def list_days(first: dt.date, last: dt.date) -> list[dt.date]:
    return [first + n * DAY for n in range((last - first).days + 1)]


FUTURE = [AS_OF - DAY, AS_OF, AS_OF + DAY, dt.date(2013, 2, 3)]
"""Days outside the window. The first is before `AS_OF`, but its labels become known only after that midnight."""


def test_days_known_later_change_no_output(publish: Callable[..., Any]) -> None:
    publish(*list_days(FIRST - 3 * DAY, LAST), *FUTURE)
    before = run_steps()
    publish(*FUTURE, change=alter_rows)
    assert run_steps() == before


def test_days_published_before_the_window_change_no_output(
    publish: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fresh_settings: Callable[[], None]
) -> None:
    publish(*FUTURE, change=alter_rows)
    publish(*list_days(FIRST - 3 * DAY, LAST))
    digests = run_steps()
    # This lake has no future days. Snapshot ids are random, so snapshot.json is not compared.
    monkeypatch.setenv("LEEWAY_HOME", str(tmp_path / "other"))
    fresh_settings()
    publish(*list_days(FIRST - 3 * DAY, LAST))
    assert {**run_steps(), "snapshot.json": ""} == {**digests, "snapshot.json": ""}


@pytest.mark.parametrize(
    ("day", "unchanged"),
    [
        (LAST, {"model"}),
        (LAST - 3 * DAY, {"model"}),
        (GAP, {"features", "model", "evaluation", "verdict.json"}),
        (GAP - DAY, set()),
        (FIRST + 2 * DAY, set()),
    ],
    ids=["last day of the holdout", "first day of the holdout", "gap", "last training day", "third training day"],
)
def test_altered_rows_inside_the_window_change_the_outputs(
    publish: Callable[..., Any], day: dt.date, unchanged: set[str]
) -> None:
    """This is the negative control, one edge of the window at a time. No step but `snapshot` reads the gap."""
    publish(*list_days(FIRST - 3 * DAY, LAST))
    before = run_steps()
    publish(day, change=alter_rows)
    after = run_steps()
    assert {name for name in OUTPUTS if after[name] == before[name]} == unchanged


def test_only_a_later_snapshot_reads_a_corrected_day(publish: Callable[..., Any]) -> None:
    """A run keeps the snapshot that it pinned. A snapshot that is pinned later contains the correction."""
    publish(*list_days(FIRST - 3 * DAY, LAST))
    before = run_steps()
    publish(LAST, change=alter_rows)
    preprocess.run(preprocess.PreprocessSpec(validation_days=2))
    assert sha256(Path("data/features")) == before["features"], "the snapshot is the lake before the correction"
    snapshot.run(snapshot.SnapshotSpec(**WINDOW))
    preprocess.run(preprocess.PreprocessSpec(validation_days=2))
    assert sha256(Path("data/features")) != before["features"]
