"""Test the join of labels to predictions, as the labels arrive."""

import datetime as dt
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from pipelines.errors import DataError, SpecError
from pipelines.lake import Lake
from pipelines.scored_rows import SCORES_TYPE
from pipelines.steps import outcomes

from .conftest import DAY, FLIGHTS, Publish

NEXT = DAY + dt.timedelta(1)
KEY = list(FLIGHTS.key)


def write_predictions(
    rows: pa.Table, day: dt.date = DAY, version: str = "1", model: str = "flights", score: float = 0.25
) -> None:
    """Write predictions as the step `score` does."""
    model_columns = {"model_name": model, "model_version": version}
    table = rows.select(KEY).append_column("score", pa.array([score] * rows.num_rows))
    for name, value in model_columns.items():
        table = table.append_column(name, pa.array([value] * rows.num_rows))
    scored_at = pa.array([dt.datetime(2013, 2, 1, tzinfo=dt.UTC)] * rows.num_rows, pa.timestamp("us", tz="UTC"))
    Lake.open().write_partition(
        "flights_predictions", day, table.append_column("scored_at", scored_at), KEY, part_values=model_columns
    )


def run(day: dt.date = DAY, model: str = "flights", **fields: Any) -> outcomes.OutcomesResult:
    return outcomes.run(outcomes.OutcomesSpec(**{"dataset": "flights", "model": model, "partition": day, **fields}))


def read_outcomes(day: dt.date = DAY) -> pd.DataFrame:
    return Lake.open().read_partition("flights_outcomes", day).to_pandas()


def change_labels(choose: Any) -> Any:
    """Return the function that replaces the labels of rows by those that `choose` gives."""

    def change(rows: pa.Table) -> pa.Table:
        values = pa.array([choose(n, label) for n, label in enumerate(rows["late"].to_pylist())], pa.bool_())
        return rows.set_column(rows.schema.get_field_index("late"), rows.schema.field("late"), values)

    return change


def test_each_prediction_gets_its_label(publish: Publish) -> None:
    rows = publish()
    write_predictions(rows)
    result = run()
    missing_count = rows["late"].null_count
    assert missing_count > 0, "cancelled flights have no label"
    assert (result.outcomes, result.unlabelled, result.changed) == (rows.num_rows - missing_count, missing_count, True)
    stored_outcomes = read_outcomes()
    assert list(stored_outcomes.columns) == [*KEY, "label", "score", "model_name", "model_version"]
    expected = rows.to_pandas().dropna(subset="late").set_index(KEY)["late"].astype(bool).sort_index()
    assert stored_outcomes.set_index(KEY)["label"].sort_index().rename("late").equals(expected)
    assert not run().changed


def test_gives_a_reason_while_no_label_is_known(publish: Publish) -> None:
    rows = publish(change=change_labels(lambda n, label: None))
    write_predictions(rows)
    result = run()
    assert (result.outcomes, result.unlabelled, result.changed) == (0, rows.num_rows, False)
    assert result.reason == f"none of the {rows.num_rows} predictions has a label yet."


def test_a_computed_label_is_joined_and_is_null_until_the_day_is_flown(publish: Publish) -> None:
    def remove_times(rows: pa.Table) -> pa.Table:
        for name in ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"):
            index = rows.schema.get_field_index(name)
            rows = rows.set_column(index, rows.schema.field(index), pa.nulls(rows.num_rows, rows[name].type))
        return rows

    rows = publish(change=remove_times)
    values = {"predicted": "late", "score": 0.5, "model_name": "flight_status", "model_version": "1"}
    predictions = rows.select(KEY)
    for name, value in values.items():
        predictions = predictions.append_column(name, pa.array([value] * rows.num_rows))
    scores = pa.array([[("cancelled", 0.2), ("late", 0.5), ("on_time", 0.3)]] * rows.num_rows, SCORES_TYPE)
    predictions = predictions.append_column("scores", scores)
    Lake.open().write_partition("flight_status_predictions", DAY, predictions, KEY)
    before = run(model="flight_status", dataset="flight_status")
    assert (before.outcomes, before.unlabelled) == (0, rows.num_rows), "no flight has arrived: none counts as cancelled"
    rows = publish()
    result = run(model="flight_status", dataset="flight_status")
    assert (result.outcomes, result.unlabelled) == (rows.num_rows, 0)
    labels = Lake.open().read_partition("flight_status_outcomes", DAY).to_pandas()["label"].value_counts()
    assert labels["cancelled"] == rows["dep_time"].null_count > 0
    assert labels["on_time"] == rows["late"].to_pylist().count(False)


def test_late_and_corrected_labels_replace_the_outcomes(publish: Publish) -> None:
    write_predictions(publish(change=change_labels(lambda n, label: n % 2 == 0 if n < 100 else None)))
    assert (run().outcomes, read_outcomes()["label"].sum()) == (100, 50)
    publish(change=change_labels(lambda n, label: n % 4 == 0 if n < 200 else None))
    result = run()
    assert (result.outcomes, result.changed, read_outcomes()["label"].sum()) == (200, True, 50)
    publish(change=change_labels(lambda n, label: None))
    result = run()
    assert (result.outcomes, result.changed) == (0, True) and read_outcomes().empty, "the labels were withdrawn"
    assert not run().changed


def test_each_version_model_and_day_has_its_own_outcomes(publish: Publish) -> None:
    rows, next_rows = publish(), publish(NEXT)
    write_predictions(rows), write_predictions(rows, version="2", score=0.75), write_predictions(rows, model="another")
    write_predictions(next_rows, NEXT)
    run(), run(model="another"), run(NEXT)
    labelled_count = rows.num_rows - rows["late"].null_count
    stored_outcomes = read_outcomes()
    counts = stored_outcomes.groupby(["model_name", "model_version"]).size().to_dict()
    assert counts == {
        ("flights", "1"): labelled_count,
        ("flights", "2"): labelled_count,
        ("another", "1"): labelled_count,
    }
    assert dict(stored_outcomes.groupby("model_version")["score"].max()) == {"1": 0.25, "2": 0.75}
    write_predictions(rows.slice(0, 400), version="2", score=0.5)
    assert run().changed
    new_outcomes = read_outcomes()
    assert len(new_outcomes[new_outcomes["model_version"] == "2"]) < 400 < labelled_count
    assert len(new_outcomes[new_outcomes["model_name"] == "another"]) == labelled_count
    assert not run(NEXT).changed


def test_reports_the_error_of_the_write_and_no_other(publish: Publish, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB drops no view under an open result: its error must not hide the error of the write."""
    write_predictions(publish())

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(Lake, "write_partition", fail)
    with pytest.raises(OSError, match="No space left"):
        run()


@pytest.mark.parametrize("other_model", [False, True])
def test_gives_a_reason_without_predictions(publish: Publish, other_model: bool) -> None:
    rows = publish()
    if other_model:
        write_predictions(rows, model="another")
    assert run().reason == "flights has no predictions of 2013-02-01."
    assert run().outcomes == run().unlabelled == 0


def test_refuses_a_day_that_is_not_published(home: Any) -> None:
    with pytest.raises(DataError, match="flights has no partition 2013-02-01"):
        run()


def test_refuses_a_dataset_without_a_label(home: Any) -> None:
    with pytest.raises(SpecError, match="weather has no label"):
        run(dataset="weather")


def test_labels_that_arrive_during_the_join_are_joined(publish: Publish, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = publish(change=change_labels(lambda n, label: True if n < 10 else None))
    write_predictions(rows)
    join = outcomes._join_labels

    def join_and_publish(*arguments: Any) -> Any:
        monkeypatch.setattr(outcomes, "_join_labels", join)
        result = join(*arguments)
        publish(change=change_labels(lambda n, label: True if n < 20 else None))
        return result

    monkeypatch.setattr(outcomes, "_join_labels", join_and_publish)
    assert run().outcomes == len(read_outcomes()) == 20
