"""Test that no step sees the future: rows that become known after as_of change no output of any step."""

import datetime as dt
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.lake import Lake
from pipelines.steps import evaluate, gate, preprocess, snapshot, train
from pipelines.system.files import sha256
from tests.tools.policies import EASY_POLICY
from tests.tools.short_gate import shorten_gate

AS_OF = dt.date(2013, 1, 22)
WINDOW = {"dataset": "flights", "as_of": AS_OF, "train_days": 9, "holdout_days": 4, "min_train_days": 4}
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
    train.run(train.TrainSpec(dataset="flights", hyperparameters=TINY))
    evaluate.run(
        evaluate.EvaluateSpec(
            dataset="flights",
        )
    )
    with shorten_gate():
        gate.run(gate.GateSpec(dataset="flights", policy=EASY_POLICY))
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


def publish(
    days: list[dt.date], day_rows: Callable[[str], pa.Table], change: Callable[[pa.Table], pa.Table] = lambda rows: rows
) -> None:
    """Publish days, unchanged or with altered rows."""
    for day in days:
        Lake.open().write_partition("flights", day, change(day_rows(day.isoformat())))


def list_days(first: dt.date, last: dt.date) -> list[dt.date]:
    return [first + n * DAY for n in range((last - first).days + 1)]


WINDOW_DAYS = list_days(FIRST - 3 * DAY, LAST)
FUTURE_DAYS = [AS_OF - DAY, AS_OF, AS_OF + DAY, dt.date(2013, 2, 3)]
"""Days outside the window. The first is before `AS_OF`, but its labels become known only after that midnight."""


@pytest.fixture(scope="module")
def lake_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the LEEWAY_HOME of this file's lake."""
    return tmp_path_factory.mktemp("as_of")


@pytest.fixture
def in_lake(home: Path, lake_home: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]) -> None:
    """Set LEEWAY_HOME to this file's lake. Outputs go to `tmp_path`, the working directory."""
    monkeypatch.setenv("LEEWAY_HOME", str(lake_home))
    fresh_settings()


@pytest.fixture(scope="module")
def unaltered_digests() -> dict[str, str]:
    """Return an empty dictionary, which the fixture `digests` fills once for this file."""
    return {}


@pytest.fixture
def digests(
    in_lake: None, unaltered_digests: dict[str, str], day_rows: Callable[[str], pa.Table], tmp_path: Path
) -> dict[str, str]:
    """Return the digests of the outputs over the unaltered days. The days are published and the steps run once."""
    if not unaltered_digests:
        publish([*WINDOW_DAYS, *FUTURE_DAYS], day_rows)
        unaltered_digests.update(run_steps())
        shutil.rmtree(tmp_path / "data")
    return unaltered_digests


@pytest.fixture
def alter(digests: dict[str, str], day_rows: Callable[[str], pa.Table]) -> Iterator[Callable[[list[dt.date]], None]]:
    """Return the function that publishes altered rows of days. The days get their own rows back after the test."""
    altered_days: list[dt.date] = []

    def alter_days(days: list[dt.date]) -> None:
        altered_days.extend(days)
        publish(days, day_rows, alter_rows)

    yield alter_days
    publish(altered_days, day_rows)


def test_days_known_later_change_no_output(digests: dict[str, str], alter: Callable[..., None]) -> None:
    snapshot.run(snapshot.SnapshotSpec(**WINDOW))
    before = {**digests, "snapshot.json": sha256(Path("data/snapshot.json"))}
    alter(FUTURE_DAYS)
    assert run_steps() == before


@pytest.mark.soak
def test_days_published_before_the_window_change_no_output(
    digests: dict[str, str],
    day_rows: Callable[[str], pa.Table],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    fresh_settings: Callable[[], None],
) -> None:
    """The days of the future are published first here. Snapshot ids are random, so snapshot.json is not compared."""
    monkeypatch.setenv("LEEWAY_HOME", str(tmp_path / "other"))
    fresh_settings()
    publish(FUTURE_DAYS, day_rows, alter_rows)
    publish(WINDOW_DAYS, day_rows)
    assert {**run_steps(), "snapshot.json": ""} == {**digests, "snapshot.json": ""}


@pytest.mark.parametrize(
    ("day", "unchanged"),
    [
        pytest.param(LAST, {"model"}, marks=pytest.mark.soak),
        pytest.param(LAST - 3 * DAY, {"model"}, marks=pytest.mark.soak),
        pytest.param(GAP, {"features", "model", "evaluation", "verdict.json"}, marks=pytest.mark.soak),
        (GAP - DAY, set()),
        pytest.param(FIRST + 2 * DAY, set(), marks=pytest.mark.soak),
    ],
    ids=["last day of the holdout", "first day of the holdout", "gap", "last training day", "third training day"],
)
def test_altered_rows_inside_the_window_change_the_outputs(
    digests: dict[str, str], alter: Callable[..., None], day: dt.date, unchanged: set[str]
) -> None:
    """This is the negative control, one edge of the window at a time. No step but `snapshot` reads the gap."""
    alter([day])
    after = run_steps()
    assert {name for name in OUTPUTS if after[name] == digests[name]} == unchanged


@pytest.mark.soak
def test_only_a_later_snapshot_reads_a_corrected_day(digests: dict[str, str], alter: Callable[..., None]) -> None:
    """A run keeps the snapshot that it pinned. A snapshot that is pinned later contains the correction."""
    snapshot.run(snapshot.SnapshotSpec(**WINDOW))
    alter([LAST])
    preprocess.run(preprocess.PreprocessSpec(validation_days=2))
    assert sha256(Path("data/features")) == digests["features"], "the snapshot is the lake before the correction"
    snapshot.run(snapshot.SnapshotSpec(**WINDOW))
    preprocess.run(preprocess.PreprocessSpec(validation_days=2))
    assert sha256(Path("data/features")) != digests["features"]
