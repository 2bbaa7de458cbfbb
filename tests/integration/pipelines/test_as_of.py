"""No step sees the future: rows planted at or after the moment of training change no byte of what any step leaves."""

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
LEFT = ("snapshot.json", "features", "model", "evaluation", "verdict.json")
"""What the steps leave; data/training has the clock's times."""
DAY = dt.timedelta(days=1)
FIRST, LAST = dt.date(2013, 1, 5), AS_OF - 2 * DAY
"""Days of the window: labels of the 20th are known during the 21st, so the 21st is not in it."""
GAP = LAST - 4 * DAY
"""Between training and holdout: its labels were not known when the holdout began."""


def steps() -> dict[str, str]:
    """Digest of what each step leaves, run afresh in the working directory."""
    snapshot.run(snapshot.SnapshotSpec(**WINDOW))
    preprocess.run(preprocess.PreprocessSpec(validation_days=2))
    train.run(train.TrainSpec(hyperparameters=TINY))
    evaluate.run(evaluate.EvaluateSpec())
    gate.run(gate.GateSpec(policy=EASY))
    return {name: sha256(Path("data") / name) for name in LEFT}


def planted(rows: pa.Table) -> pa.Table:
    """All labels turned, weather and plane as nobody knew them, carriers that nobody had seen."""
    new = {
        "late": [None if label is None else not label for label in rows["late"].to_pylist()],
        **{name: [99.0] * rows.num_rows for name in ("weather_temp", "weather_wind_speed")},
        **{name: ["FROM THE FUTURE"] * rows.num_rows for name in ("carrier", "plane_manufacturer")},
        "plane_year": [2013] * rows.num_rows,
        # Else flights of two carriers with one number would be one flight.
        "flight": range(rows.num_rows),
    }
    for name, values in new.items():
        field = rows.schema.field(name)
        rows = rows.set_column(rows.schema.get_field_index(name), field, pa.array(values, field.type))
    return rows


@pytest.fixture
def publish(home: Path, day_rows: Callable[[str], pa.Table]) -> Callable[..., None]:
    """Publishes days, as they were or with another content."""

    def published(*days: dt.date, change: Callable[[pa.Table], pa.Table] = lambda rows: rows) -> None:
        for day in days:
            Lake.open().write_partition("flights", day, change(day_rows(day.isoformat())))

    return published


def days(first: dt.date, last: dt.date) -> list[dt.date]:
    return [first + n * DAY for n in range((last - first).days + 1)]


FUTURE = [AS_OF - DAY, AS_OF, AS_OF + DAY, dt.date(2013, 2, 3)]
"""The first of them has departed, but its labels become known during the day of `AS_OF`: after its midnight."""


def test_what_is_known_later_changes_no_byte_of_any_step(publish: Callable[..., Any]) -> None:
    publish(*days(FIRST - 3 * DAY, LAST), *FUTURE)
    before = steps()
    publish(*FUTURE, change=planted)
    assert steps() == before


def test_a_future_that_was_there_from_the_start_is_not_seen_either(
    publish: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fresh_settings: Callable[[], None]
) -> None:
    publish(*FUTURE, change=planted)
    publish(*days(FIRST - 3 * DAY, LAST))
    told = steps()
    # Another lake, without any future. Its snapshot ids are others, drawn at random: so all but snapshot.json.
    monkeypatch.setenv("LEEWAY_HOME", str(tmp_path / "other"))
    fresh_settings()
    publish(*days(FIRST - 3 * DAY, LAST))
    assert {**steps(), "snapshot.json": ""} == {**told, "snapshot.json": ""}


@pytest.mark.parametrize(
    ("day", "same"),
    [
        (LAST, {"model"}),
        (LAST - 3 * DAY, {"model"}),
        (GAP, {"features", "model", "evaluation", "verdict.json"}),
        (GAP - DAY, set()),
        (FIRST + 2 * DAY, set()),
    ],
    ids=["last day of the holdout", "first day of the holdout", "gap", "last day of training", "a day of training"],
)
def test_the_same_plant_inside_the_window_is_seen(publish: Callable[..., Any], day: dt.date, same: set[str]) -> None:
    """The control: each edge of the window by itself. The gap is pinned, but no step reads it."""
    publish(*days(FIRST - 3 * DAY, LAST))
    before = steps()
    publish(day, change=planted)
    after = steps()
    assert {name for name in LEFT if after[name] == before[name]} == same


def test_a_day_corrected_later_is_seen_by_later_runs_only(publish: Callable[..., Any]) -> None:
    """As-of is about the days. What a run pinned stays; who pins later gets the correction."""
    publish(*days(FIRST - 3 * DAY, LAST))
    before = steps()
    publish(LAST, change=planted)
    preprocess.run(preprocess.PreprocessSpec(validation_days=2))
    assert sha256(Path("data/features")) == before["features"], "the pin is the lake's as it was"
    snapshot.run(snapshot.SnapshotSpec(**WINDOW))
    preprocess.run(preprocess.PreprocessSpec(validation_days=2))
    assert sha256(Path("data/features")) != before["features"]
