"""Test the steps snapshot and preprocess: equal days give byte-identical features, without known_later values."""

import datetime as dt
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pipelines.datasets.flights import DATASET
from pipelines.errors import DataError, SpecError
from pipelines.lake import Lake
from pipelines.settings import settings
from pipelines.steps.preprocess import PreprocessSpec
from pipelines.steps.preprocess import run as preprocess
from pipelines.steps.snapshot import SnapshotResult, SnapshotSpec
from pipelines.steps.snapshot import run as snapshot
from tests.tools.saved_homes import SavedHome

SMALL = {"dataset": "flights", "as_of": "2013-01-15", "train_days": 5, "holdout_days": 3, "min_train_days": 2}
FILE = Path("data/snapshot.json")


def get_day(number: int) -> dt.date:
    """Return a day of January."""
    return dt.date(2013, 1, number)


@pytest.fixture(scope="module")
def nine_days(save_home: Callable[..., SavedHome], day_rows: Callable[[str], pa.Table]) -> SavedHome:
    """Make a lake with the days of January from the 5th to the 13th, which are those of the small window."""

    def write_days() -> None:
        for number in range(5, 14):
            Lake.open().write_partition("flights", get_day(number), day_rows(get_day(number).isoformat()))

    return save_home(write_days)


@pytest.fixture
def published_window(home: Path, nine_days: SavedHome, restore_home: Callable[[SavedHome], Path]) -> Path:
    """Set LEEWAY_HOME to the lake of the small window, as it was made."""
    return restore_home(nine_days)


@pytest.fixture
def publish(home: Path, day_rows: Callable[[str], pa.Table]) -> Callable[..., None]:
    """Return the function that publishes days of January, unchanged or changed."""

    def publish_days(*numbers: int, change: Callable[[pa.Table], pa.Table] = lambda rows: rows) -> None:
        for number in numbers:
            Lake.open().write_partition("flights", get_day(number), change(day_rows(get_day(number).isoformat())))

    return publish_days


def pin_window(**fields: Any) -> SnapshotResult:
    return snapshot(SnapshotSpec(**{**SMALL, **fields}))


def drop_first_row(rows: pa.Table) -> pa.Table:
    return rows.slice(1)


@pytest.mark.usefixtures("published_window")
def test_another_dataset_of_the_same_rows_has_the_same_features_and_another_label(publish: Callable[..., None]) -> None:
    from pipelines.steps.validate import ValidateSpec
    from pipelines.steps.validate import run as validate

    publish(4, 14)
    tables = {}
    for name in ("flights", "flight_delay"):
        window = pin_window(dataset=name)
        assert (window.dataset, window.table) == (name, "flights")
        preprocess(PreprocessSpec(validation_days=1))
        tables[name] = pq.read_table("data/features/holdout/data.parquet")
    assert tables["flight_delay"].drop(["arr_delay"]).equals(tables["flights"].drop(["late"]))
    assert pc.all(pc.equal(pc.greater(tables["flight_delay"]["arr_delay"], 15), tables["flights"]["late"])).as_py()
    with pytest.raises(SpecError, match="flight_delay uses the rows of flights"):
        validate(ValidateSpec(dataset="flight_delay", partition=get_day(4)))
    with pytest.raises(DataError, match=r"flights lacks .*backfill --dataset flights --first 2013-02-"):
        pin_window(dataset="flight_delay", as_of="2013-02-15", missing="fail")


@pytest.mark.usefixtures("published_window")
def test_the_snapshot_is_of_the_window(publish: Callable[..., None]) -> None:
    publish(4, 14)
    window = pin_window()
    # Labels of the 13th are known on the 14th, so as of the 15th the 13th is the last day.
    assert (window.holdout_first, window.holdout_last) == (get_day(11), get_day(13))
    assert (window.train_first, window.train_last) == (get_day(5), get_day(9))
    assert window.rows == sum(Lake.open().count_rows_by_day("flights")[get_day(n)] for n in range(5, 14))
    assert SnapshotResult.read(FILE) == window


@pytest.mark.usefixtures("published_window")
def test_only_a_changed_day_of_the_window_changes_the_snapshot_file(publish: Callable[..., None]) -> None:
    first = pin_window()
    content = FILE.read_bytes()
    publish(2, 3, 14, 20)
    publish(6)
    pin_window()
    assert FILE.read_bytes() == content, (
        "only days outside the window are new, and one day was published again with equal rows"
    )
    publish(4, change=drop_first_row)
    pin_window()
    assert FILE.read_bytes() == content
    publish(6, change=drop_first_row)
    assert pin_window().snapshot_id != first.snapshot_id
    assert FILE.read_bytes() != content


def test_missing_days_are_refused_and_named(publish: Callable[..., None]) -> None:
    with pytest.raises(DataError, match="flights is empty"):
        pin_window()
    publish(5, 6, 8, 9, 11, 12)
    with pytest.raises(DataError, match=r"lacks 3 of the 9 days .* the first 2013-01-07") as error:
        pin_window()
    assert "--first 2013-01-07 --last 2013-01-13" in error.value.hint
    assert not FILE.exists()
    assert pin_window(max_missing_days=3).missing_days == 3


def test_missing_days_are_ingested_on_request(home: Path) -> None:
    window = pin_window(missing="ingest")
    assert window.missing_days == 0
    assert set(Lake.open().count_rows_by_day("flights")) == {get_day(n) for n in range(5, 14)}
    assert Lake.open().count_rows_by_day("flights_raw").keys() == Lake.open().count_rows_by_day("flights").keys()
    assert pin_window(missing="ingest") == window


@pytest.mark.soak
def test_a_day_that_fails_validation_counts_as_missing(
    home: Path, monkeypatch: pytest.MonkeyPatch, source: Any
) -> None:
    from pipelines.datasets.flights import source as flights_source

    class SourceWithShortDay:
        list_partitions = source.list_partitions

        def read(self, partition: dt.date) -> pa.RecordBatchReader:
            rows = source.read(partition).read_all()
            return (rows.slice(0, 5) if partition == get_day(7) else rows).to_reader()

    monkeypatch.setattr(flights_source, "open_source", lambda folder=None: SourceWithShortDay())
    with pytest.raises(DataError, match=r"lacks 1 of the 9 days|2013-01-07"):
        pin_window(missing="ingest")
    assert pin_window(missing="ingest", max_missing_days=1).missing_days == 1


def test_a_window_with_too_few_days_is_refused(publish: Callable[..., None]) -> None:
    publish(*range(8, 14))
    with pytest.raises(DataError, match="2 days, but needs 3: flights starts on 2013-01-08"):
        pin_window(min_train_days=3)
    assert pin_window(min_train_days=2).train_first == get_day(8)
    with pytest.raises(DataError, match="but needs 2"):
        pin_window(as_of="2013-01-02")


@pytest.mark.parametrize("text", ["{}", "[]", '{"table": 3}', "null", '{"oops": 1}'])
def test_preprocess_refuses_a_file_that_is_no_snapshot(home: Path, text: str) -> None:
    FILE.parent.mkdir()
    FILE.write_text(text)
    with pytest.raises(DataError, match="is not a snapshot") as error:
        preprocess(PreprocessSpec())
    assert error.value.exit_code == 2


def test_preprocess_names_the_step_that_writes_the_missing_file(home: Path) -> None:
    with pytest.raises(DataError, match="`snapshot` writes it"):
        preprocess(PreprocessSpec())


@pytest.mark.usefixtures("published_window")
def test_preprocess_refuses_a_snapshot_of_another_lake(
    publish: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pin_window()
    Lake.open().catalog.drop_table(("leeway", "flights"))
    shutil.rmtree(settings().home / "lake/leeway/flights")  # no table is created beside the files of one of its name
    with pytest.raises(DataError, match="no table"):
        preprocess(PreprocessSpec(validation_days=1))
    publish(5)
    with pytest.raises(DataError, match="has no snapshot"):
        preprocess(PreprocessSpec(validation_days=1))


@pytest.mark.usefixtures("published_window")
def test_a_pinned_window_gives_identical_features_after_the_lake_changed(publish: Callable[..., None]) -> None:
    pin_window()
    first = preprocess(PreprocessSpec(validation_days=1, features="one"))
    publish(3, 14)
    publish(6, change=drop_first_row)
    second = preprocess(PreprocessSpec(validation_days=1, features="two"))
    assert first.digest == second.digest, "the snapshot is pinned"
    for split in ("train", "validation", "holdout"):
        assert Path(f"one/{split}/data.parquet").read_bytes() == Path(f"two/{split}/data.parquet").read_bytes()
    pin_window()
    assert preprocess(PreprocessSpec(validation_days=1, features="three")).digest != first.digest


@pytest.mark.usefixtures("published_window")
def test_the_splits_have_labelled_rows_of_consecutive_days() -> None:
    pin_window()
    result = preprocess(PreprocessSpec(validation_days=2))
    tables = {name: pq.read_table(f"data/features/{name}/data.parquet") for name in ("train", "validation", "holdout")}
    days = {name: sorted(set(table["date"].to_pylist())) for name, table in tables.items()}
    assert days == {
        "train": [get_day(5), get_day(6), get_day(7)],
        "validation": [get_day(8), get_day(9)],
        "holdout": [get_day(11), get_day(12), get_day(13)],
    }
    assert all(table["late"].null_count == 0 for table in tables.values())
    holdout = Lake.open().read_window(
        "flights", get_day(11), get_day(13), result and SnapshotResult.read(FILE).snapshot_id
    )
    assert result.rows_holdout == holdout.num_rows - holdout["late"].null_count < holdout.num_rows
    assert result.rows_train == tables["train"].num_rows


@pytest.mark.usefixtures("published_window")
def test_a_failed_preprocess_keeps_the_features_that_were_built_before() -> None:
    pin_window()
    before = preprocess(PreprocessSpec(validation_days=1)).digest
    with pytest.raises(DataError, match="leave nothing of the 5 days"):
        preprocess(PreprocessSpec(validation_days=5))
    from pipelines.system.files import sha256

    assert sha256(Path("data/features")) == before


@pytest.mark.usefixtures("published_window")
def test_a_holdout_without_labels_is_refused(publish: Callable[..., None]) -> None:
    def remove_labels(rows: pa.Table) -> pa.Table:
        field = rows.schema.field("late")
        return rows.set_column(rows.schema.get_field_index("late"), field, pa.nulls(rows.num_rows, field.type))

    publish(11, 12, 13, change=remove_labels)
    pin_window()
    with pytest.raises(DataError, match="holdout would be empty"):
        preprocess(PreprocessSpec(validation_days=1))
    assert not Path("data/features").exists()


def shuffle_known_later(rows: pa.Table) -> pa.Table:
    """Shuffle the values of every known_later column among the labelled rows."""
    labelled_positions = pc.indices_nonzero(rows["late"].is_valid()).to_pylist()
    for n, name in enumerate(DATASET.known_later):
        values, origins = rows[name].to_pylist(), labelled_positions.copy()
        random.Random(n).shuffle(origins)
        for target, origin in zip(labelled_positions, origins, strict=True):
            values[target] = rows[name][origin].as_py()
        field = rows.schema.field(name)
        rows = rows.set_column(rows.schema.get_field_index(name), field, pa.array(values, field.type))
    return rows


def read_features_without_label(folder: str) -> list[bytes]:
    """Return the bytes of each split without its label."""
    contents = []
    for split in ("train", "validation", "holdout"):
        table = pq.read_table(f"{folder}/{split}/data.parquet").drop_columns(["late"])
        pq.write_table(table, "without_label")
        contents.append(Path("without_label").read_bytes())
    return contents


@pytest.mark.usefixtures("published_window")
def test_shuffled_known_later_columns_change_no_feature(publish: Callable[..., None]) -> None:
    pin_window()
    first = preprocess(PreprocessSpec(validation_days=1, features="one"))
    publish(*range(5, 14), change=shuffle_known_later)
    pin_window()
    second = preprocess(PreprocessSpec(validation_days=1, features="two"))
    assert first.digest != second.digest, "the negative control: the shuffled labels change the digest"
    assert read_features_without_label("one") == read_features_without_label("two")


@pytest.mark.soak
@pytest.mark.usefixtures("published_window")
def test_shuffled_known_later_columns_change_a_leaking_feature(
    publish: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is the negative control."""
    from pipelines.datasets.flights import features as module

    def leak_departure_delay(rows: Any) -> Any:
        return module.features(rows).mutate(distance=rows.dep_delay.cast("int32").fill_null(0))

    monkeypatch.setattr("pipelines.dataset.Dataset.load_feature_function", lambda self: leak_departure_delay)
    # The rows that features read contain no known_later column, so dep_delay must not be one.
    permissive_dataset = replace(DATASET, known_later=[name for name in DATASET.known_later if name != "dep_delay"])
    monkeypatch.setattr("pipelines.datasets.flights.DATASET", permissive_dataset)
    pin_window()
    preprocess(PreprocessSpec(validation_days=1, features="one"))
    publish(*range(5, 14), change=shuffle_known_later)
    pin_window()
    preprocess(PreprocessSpec(validation_days=1, features="two"))
    assert read_features_without_label("one") != read_features_without_label("two")
