"""Labels joined to predictions, as they arrive."""

import datetime as dt
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from pipelines.errors import DataError, SpecError
from pipelines.lake import Lake
from pipelines.steps import outcomes

from .conftest import DAY, FLIGHTS, Publish

NEXT = DAY + dt.timedelta(1)
KEY = list(FLIGHTS.key)


def predict(rows: pa.Table, day: dt.date = DAY, version: str = "1", model: str = "made", score: float = 0.25) -> None:
    """Predictions, as the step `score` writes them."""
    told = {"model_name": model, "model_version": version}
    table = rows.select(KEY).append_column("score", pa.array([score] * rows.num_rows))
    for name, value in told.items():
        table = table.append_column(name, pa.array([value] * rows.num_rows))
    at = pa.array([dt.datetime(2013, 2, 1, tzinfo=dt.UTC)] * rows.num_rows, pa.timestamp("us", tz="UTC"))
    Lake.open().write_partition("flights_predictions", day, table.append_column("scored_at", at), KEY, part=told)


def run(day: dt.date = DAY, model: str = "made", **fields: Any) -> outcomes.OutcomesResult:
    return outcomes.run(outcomes.OutcomesSpec(**{"model_name": model, "partition": day, **fields}))


def joined(day: dt.date = DAY) -> pd.DataFrame:
    return Lake.open().read_partition("flights_outcomes", day).to_pandas()


def labels(known: Any) -> Any:
    """A change of rows: their labels."""

    def change(rows: pa.Table) -> pa.Table:
        new = pa.array([known(n, label) for n, label in enumerate(rows["late"].to_pylist())], pa.bool_())
        return rows.set_column(rows.schema.get_field_index("late"), rows.schema.field("late"), new)

    return change


def test_each_label_is_beside_its_prediction(publish: Publish) -> None:
    rows = publish()
    predict(rows)
    told = run()
    missing = rows["late"].null_count
    assert missing > 0, "cancelled flights"
    assert (told.outcomes, told.unlabelled, told.changed) == (rows.num_rows - missing, missing, True)
    made = joined()
    assert list(made.columns) == [*KEY, "label", "score", "model_name", "model_version"]
    expected = rows.to_pandas().dropna(subset="late").set_index(KEY)["late"].astype(bool).sort_index()
    assert made.set_index(KEY)["label"].sort_index().rename("late").equals(expected)
    assert not run().changed


def test_before_any_label_there_is_a_reason(publish: Publish) -> None:
    rows = publish(change=labels(lambda n, label: None))
    predict(rows)
    told = run()
    assert (told.outcomes, told.unlabelled, told.changed) == (0, rows.num_rows, False)
    assert told.reason == f"none of the {rows.num_rows} predictions has a label yet."


def test_late_and_corrected_labels_replace(publish: Publish) -> None:
    predict(publish(change=labels(lambda n, label: n % 2 == 0 if n < 100 else None)))
    assert (run().outcomes, joined()["label"].sum()) == (100, 50)
    publish(change=labels(lambda n, label: n % 4 == 0 if n < 200 else None))
    told = run()
    assert (told.outcomes, told.changed, joined()["label"].sum()) == (200, True, 50)
    publish(change=labels(lambda n, label: None))
    told = run()
    assert (told.outcomes, told.changed) == (0, True) and joined().empty, "labels that were taken back"
    assert not run().changed


def test_versions_and_other_models_and_days_are_apart(publish: Publish) -> None:
    rows, other = publish(), publish(NEXT)
    predict(rows), predict(rows, version="2", score=0.75), predict(rows, model="another")
    predict(other, NEXT)
    run(), run(model="another"), run(NEXT)
    labelled = rows.num_rows - rows["late"].null_count
    made = joined()
    counts = made.groupby(["model_name", "model_version"]).size().to_dict()
    assert counts == {("made", "1"): labelled, ("made", "2"): labelled, ("another", "1"): labelled}
    assert dict(made.groupby("model_version")["score"].max()) == {"1": 0.25, "2": 0.75}
    predict(rows.slice(0, 400), version="2", score=0.5)
    assert run().changed
    again = joined()
    assert len(again[again["model_version"] == "2"]) < 400 < labelled
    assert len(again[again["model_name"] == "another"]) == labelled
    assert not run(NEXT).changed


def test_an_error_of_the_write_is_told_and_no_other(publish: Publish, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB drops no view under an open result."""
    predict(publish())

    def full(*given: Any, **named: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(Lake, "write_partition", full)
    with pytest.raises(OSError, match="No space left"):
        run()


@pytest.mark.parametrize("other", [False, True])
def test_without_predictions_there_is_a_reason(publish: Publish, other: bool) -> None:
    rows = publish()
    if other:
        predict(rows, model="another")
    assert run().reason == "made has no predictions of 2013-02-01."
    assert run().outcomes == run().unlabelled == 0


def test_a_day_that_is_not_published(home: Any) -> None:
    with pytest.raises(DataError, match="flights has no partition 2013-02-01"):
        run()


def test_a_dataset_without_a_label(home: Any) -> None:
    with pytest.raises(SpecError, match="weather has no label"):
        run(dataset="weather")


def test_labels_that_arrive_while_they_are_join_labels_are_join_labels(
    publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = publish(change=labels(lambda n, label: True if n < 10 else None))
    predict(rows)
    at_first = outcomes._join_labels

    def overtaken(*given: Any) -> Any:
        monkeypatch.setattr(outcomes, "_join_labels", at_first)
        made = at_first(*given)
        publish(change=labels(lambda n, label: True if n < 20 else None))
        return made

    monkeypatch.setattr(outcomes, "_join_labels", overtaken)
    assert run().outcomes == len(joined()) == 20
