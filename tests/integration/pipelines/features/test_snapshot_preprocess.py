"""Pinning a window and building its features: the same days give the same bytes, and nothing known later gets in."""

import datetime as dt
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pipelines.datasets.flights import DATASET
from pipelines.errors import DataError
from pipelines.lake import Lake
from pipelines.steps.preprocess import PreprocessSpec
from pipelines.steps.preprocess import run as preprocess
from pipelines.steps.snapshot import SnapshotResult, SnapshotSpec
from pipelines.steps.snapshot import run as snapshot

SMALL = {"as_of": "2013-01-15", "train_days": 5, "holdout_days": 3, "min_train_days": 2}
FILE = Path("data/snapshot.json")


def day(number: int) -> dt.date:
    return dt.date(2013, 1, number)


@pytest.fixture
def fill(home: Path, day_rows: Callable[[str], pa.Table]) -> Callable[..., None]:
    """Publishes days of January, changed or not."""

    def filled(*numbers: int, change: Callable[[pa.Table], pa.Table] = lambda rows: rows) -> None:
        for number in numbers:
            Lake.open().write_partition("flights", day(number), change(day_rows(day(number).isoformat())))

    return filled


def pin(**changed: Any) -> SnapshotResult:
    return snapshot(SnapshotSpec(**{**SMALL, **changed}))


def without_one(rows: pa.Table) -> pa.Table:
    return rows.slice(1)


def test_what_is_pinned_is_the_window(fill: Callable[..., None]) -> None:
    fill(*range(4, 15))
    told = pin()
    # Labels of the 13th are known on the 14th, so as of the 15th the 13th is the last day.
    assert (told.holdout_first, told.holdout_last) == (day(11), day(13))
    assert (told.train_first, told.train_last) == (day(5), day(9))
    assert told.rows == sum(Lake.open().count_rows_by_day("flights")[day(n)] for n in range(5, 14))
    assert SnapshotResult.read(FILE) == told


def test_unchanged_days_give_the_same_file_and_a_changed_day_another(fill: Callable[..., None]) -> None:
    fill(*range(5, 14))
    first = pin()
    content = FILE.read_bytes()
    fill(2, 3, 14, 20)
    fill(6)
    pin()
    assert FILE.read_bytes() == content, "other days arrived, an equal one was written again"
    fill(4, change=without_one)
    pin()
    assert FILE.read_bytes() == content
    fill(6, change=without_one)
    assert pin().snapshot_id != first.snapshot_id
    assert FILE.read_bytes() != content


def test_missing_days_fail_and_are_named(fill: Callable[..., None]) -> None:
    with pytest.raises(DataError, match="flights is empty"):
        pin()
    fill(5, 6, 8, 9, 11, 12)
    with pytest.raises(DataError, match=r"lacks 3 of the 9 days .* the first 2013-01-07") as caught:
        pin()
    assert "--first 2013-01-07 --last 2013-01-13" in caught.value.hint
    assert not FILE.exists()
    assert pin(max_missing_days=3).missing_days == 3


def test_missing_days_are_ingested_where_that_is_asked_for(home: Path) -> None:
    told = pin(missing="ingest")
    assert told.missing_days == 0
    assert set(Lake.open().count_rows_by_day("flights")) == {day(n) for n in range(5, 14)}
    assert Lake.open().count_rows_by_day("flights_raw").keys() == Lake.open().count_rows_by_day("flights").keys()
    assert pin(missing="ingest") == told


def test_a_refused_day_counts_as_missing_where_days_are_ingested(
    fill: Callable[..., None], monkeypatch: pytest.MonkeyPatch, source: Any
) -> None:
    from pipelines.datasets.flights import source as module

    class Hurt:
        partitions = source.partitions

        def read(self, wanted: dt.date) -> pa.RecordBatchReader:
            rows = source.read(wanted).read_all()
            return (rows.slice(0, 5) if wanted == day(7) else rows).to_reader()

    monkeypatch.setattr(module, "open_source", lambda folder=None: Hurt())
    with pytest.raises(DataError, match=r"lacks 1 of the 9 days|2013-01-07"):
        pin(missing="ingest")
    assert pin(missing="ingest", max_missing_days=1).missing_days == 1


def test_too_few_days_are_refused_with_the_reason(fill: Callable[..., None]) -> None:
    fill(*range(8, 14))
    with pytest.raises(DataError, match="2 days, but needs 3: flights starts on 2013-01-08"):
        pin(min_train_days=3)
    assert pin(min_train_days=2).train_first == day(8)
    with pytest.raises(DataError, match="but needs 2"):
        pin(as_of="2013-01-02")


@pytest.mark.parametrize("text", ["{}", "[]", '{"table": 3}', "null", '{"oops": 1}'])
def test_a_file_that_is_no_snapshot_is_bad_data(home: Path, text: str) -> None:
    FILE.parent.mkdir()
    FILE.write_text(text)
    with pytest.raises(DataError, match="no snapshot") as caught:
        preprocess(PreprocessSpec())
    assert caught.value.exit_code == 2


def test_no_file_no_features(home: Path) -> None:
    with pytest.raises(DataError, match="`snapshot` writes it"):
        preprocess(PreprocessSpec())


def test_a_snapshot_of_another_lake(fill: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fill(*range(5, 14))
    pin()
    Lake.open().catalog.drop_table(("leeway", "flights"))
    with pytest.raises(DataError, match="no table"):
        preprocess(PreprocessSpec(validation_days=1))
    fill(5)
    with pytest.raises(DataError, match="has no snapshot"):
        preprocess(PreprocessSpec(validation_days=1))


def test_the_same_bytes_twice_and_after_other_days_arrived(fill: Callable[..., None]) -> None:
    fill(*range(5, 14))
    pin()
    one = preprocess(PreprocessSpec(validation_days=1, features="one"))
    fill(3, 14)
    fill(6, change=without_one)
    two = preprocess(PreprocessSpec(validation_days=1, features="two"))
    assert one.digest == two.digest, "the snapshot is pinned"
    for split in ("train", "validation", "holdout"):
        assert Path(f"one/{split}/data.parquet").read_bytes() == Path(f"two/{split}/data.parquet").read_bytes()
    pin()
    assert preprocess(PreprocessSpec(validation_days=1, features="three")).digest != one.digest


def test_the_splits_are_the_days_in_order_and_labelled(fill: Callable[..., None]) -> None:
    fill(*range(5, 14))
    pin()
    told = preprocess(PreprocessSpec(validation_days=2))
    tables = {name: pq.read_table(f"data/features/{name}/data.parquet") for name in ("train", "validation", "holdout")}
    days = {name: sorted(set(table["date"].to_pylist())) for name, table in tables.items()}
    assert days == {
        "train": [day(5), day(6), day(7)], "validation": [day(8), day(9)], "holdout": [day(11), day(12), day(13)],
    }  # fmt: skip
    assert all(table["late"].null_count == 0 for table in tables.values())
    lake = Lake.open().read_window("flights", day(11), day(13), told and SnapshotResult.read(FILE).snapshot_id)
    assert told.rows_holdout == lake.num_rows - lake["late"].null_count < lake.num_rows
    assert told.rows_train == tables["train"].num_rows


def test_what_was_built_before_stays_where_it_fails(fill: Callable[..., None]) -> None:
    fill(*range(5, 14))
    pin()
    before = preprocess(PreprocessSpec(validation_days=1)).digest
    with pytest.raises(DataError, match="leave nothing of the 5 days"):
        preprocess(PreprocessSpec(validation_days=5))
    from pipelines.system.files import sha256

    assert sha256(Path("data/features")) == before


def test_days_without_a_label_are_refused(fill: Callable[..., None]) -> None:
    def cancelled(rows: pa.Table) -> pa.Table:
        field = rows.schema.field("late")
        return rows.set_column(rows.schema.get_field_index("late"), field, pa.nulls(rows.num_rows, field.type))

    fill(*range(5, 11))
    fill(11, 12, 13, change=cancelled)
    pin()
    with pytest.raises(DataError, match="holdout would be empty"):
        preprocess(PreprocessSpec(validation_days=1))
    assert not Path("data/features").exists()


def shuffled_later_known(rows: pa.Table) -> pa.Table:
    """Among the labelled rows, every column that is known later has its values in another order."""
    labelled = pc.indices_nonzero(rows["late"].is_valid()).to_pylist()
    for n, name in enumerate(DATASET.later_known):
        values, order = rows[name].to_pylist(), labelled.copy()
        random.Random(n).shuffle(order)
        for target, origin in zip(labelled, order, strict=True):
            values[target] = rows[name][origin].as_py()
        field = rows.schema.field(name)
        rows = rows.set_column(rows.schema.get_field_index(name), field, pa.array(values, field.type))
    return rows


def features_without_label(folder: str) -> list[bytes]:
    found = []
    for split in ("train", "validation", "holdout"):
        table = pq.read_table(f"{folder}/{split}/data.parquet").drop_columns(["late"])
        pq.write_table(table, "without_label")
        found.append(Path("without_label").read_bytes())
    return found


def test_permuting_all_that_is_known_later_changes_no_byte_of_the_whole_step(fill: Callable[..., None]) -> None:
    fill(*range(5, 14))
    pin()
    one = preprocess(PreprocessSpec(validation_days=1, features="one"))
    fill(*range(5, 14), change=shuffled_later_known)
    pin()
    two = preprocess(PreprocessSpec(validation_days=1, features="two"))
    assert one.digest != two.digest, "the labels are in other places"
    assert features_without_label("one") == features_without_label("two")


def test_the_same_check_catches_a_leak(fill: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.datasets.flights import features as module

    def leaking(rows: Any) -> Any:
        return module.features(rows).mutate(distance=rows.dep_delay.cast("int32").fill_null(0))

    monkeypatch.setattr("pipelines.dataset.Dataset.load_features", lambda self: leaking)
    # Else the column is not there to leak.
    blind = replace(DATASET, later_known=[name for name in DATASET.later_known if name != "dep_delay"])
    monkeypatch.setattr("pipelines.datasets.flights.DATASET", blind)
    fill(*range(5, 14))
    pin()
    preprocess(PreprocessSpec(validation_days=1, features="one"))
    fill(*range(5, 14), change=shuffled_later_known)
    pin()
    preprocess(PreprocessSpec(validation_days=1, features="two"))
    assert features_without_label("one") != features_without_label("two")
