"""Test the trained model: its scores do not depend on the number of threads or rows of a call."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xgboost as xgb

from pipelines.defaults.model import SERIAL_ROWS, Model, Schema, load

DESCRIPTION = {"features": {"distance": "number", "carrier": "category"}, "label": "late"}


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    random = np.random.default_rng(1)
    count = 4 * SERIAL_ROWS
    carrier = random.choice(["AA", "NA", "null", "Île", None], count)
    frame = pd.DataFrame({"distance": random.normal(size=count), "carrier": carrier})
    return frame.assign(late=random.random(count) < 0.2 + 0.3 * (frame.carrier == "NA") + 0.1 * (frame.distance > 0))


@pytest.fixture(scope="module")
def model(rows: pd.DataFrame) -> Model:
    schema = Schema.fit(rows, DESCRIPTION)
    return Model(xgb.train({"objective": "binary:logistic"}, schema.to_matrix(rows), 20), schema)


def test_few_rows_and_many_have_the_same_scores(model: Model, rows: pd.DataFrame) -> None:
    all_scores = model.booster.predict(model.schema.to_matrix(rows))
    assert len(np.unique(all_scores)) > 10
    for count in (1, 7, SERIAL_ROWS, SERIAL_ROWS + 1, len(rows)):
        assert model.score(rows.head(count)).tobytes() == all_scores[:count].tobytes(), count


@pytest.mark.parametrize("task", ["binary", "quantiles", "multiclass"])
def test_columns_of_values_have_the_scores_of_a_frame(rows: pd.DataFrame, task: str) -> None:
    frame = rows.head(50).copy()
    frame.loc[3:9, "distance"] = np.nan
    frame.loc[20, "carrier"] = "new"
    schema, options = Schema.fit(rows, DESCRIPTION), {"objective": "binary:logistic"}
    if task == "quantiles":
        schema, options = (
            replace(schema, quantiles=[0.1, 0.9]),
            {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.9]},
        )
    if task == "multiclass":
        rows = rows.assign(late=np.where(rows.late, "late", np.where(rows.distance > 1, "far", "no")))
        schema = Schema.fit(rows, {**DESCRIPTION, "task": "multiclass"})
        options = {"objective": "multi:softprob", "num_class": 3}
    model = Model(xgb.train(options, schema.to_matrix(rows), 5), schema)
    columns = pa.Table.from_pandas(frame[["carrier", "distance"]], preserve_index=False).to_pydict()
    assert None in columns["carrier"] and None in columns["distance"]
    expected, scores = model.score(frame), model.score_columns(columns)
    assert type(scores) is type(expected) and np.asarray(scores).tobytes() == np.asarray(expected).tobytes()
    assert list(getattr(scores, "columns", [])) == list(getattr(expected, "columns", []))
    one_row = {name: values[:1] for name, values in columns.items()}
    assert np.asarray(model.score_columns(one_row)).tobytes() == np.asarray(expected[:1]).tobytes()


def test_columns_that_are_missing_or_infinite_are_refused(model: Model) -> None:
    assert len(model.score_columns({"distance": [3e38], "carrier": ["AA"]})) == 1
    with pytest.raises(ValueError, match="infinite, or too large"):
        model.score_columns({"distance": [1e300], "carrier": ["AA"]})
    with pytest.raises(KeyError, match="carrier"):
        model.score_columns({"distance": [1.0]})


def test_a_category_with_the_text_of_a_missing_value_is_a_category(
    model: Model, rows: pd.DataFrame, tmp_path: Path
) -> None:
    model.save(tmp_path)
    assert load(tmp_path).schema.categories["carrier"] == ["AA", "NA", "null", "Île"]
    carrier_scores = [model.score(pd.DataFrame({"distance": [0.0], "carrier": [name]})) for name in ("NA", "AA", None)]
    assert len(np.unique(carrier_scores)) > 1
    assert load(tmp_path).score(rows).tobytes() == model.score(rows).tobytes()


def test_few_rows_are_scored_by_one_thread(model: Model, rows: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting threads use the CPU, which other processes then lack. The control: many rows may have more threads."""
    threads: list[tuple[str, str]] = []
    matrix_class, predict, inplace_predict = xgb.DMatrix, xgb.Booster.predict, xgb.Booster.inplace_predict

    def record_matrix(*args: Any, **options: Any) -> xgb.DMatrix:
        threads.append(("matrix", str(options.get("nthread"))))
        return matrix_class(*args, **options)

    def record_booster(booster: xgb.Booster, *args: Any) -> Any:
        threads.append(("booster", json.loads(booster.save_config())["learner"]["generic_param"]["nthread"]))
        return predict(booster, *args)

    def record_serial_booster(booster: xgb.Booster, *args: Any) -> Any:
        threads.append(("in place", json.loads(booster.save_config())["learner"]["generic_param"]["nthread"]))
        return inplace_predict(booster, *args)

    monkeypatch.setattr(xgb, "DMatrix", record_matrix)
    monkeypatch.setattr(xgb.Booster, "predict", record_booster)
    monkeypatch.setattr(xgb.Booster, "inplace_predict", record_serial_booster)
    model.score(rows.head(SERIAL_ROWS))
    assert threads == [("in place", "1")]
    threads.clear()
    model.score(rows.head(SERIAL_ROWS + 1))
    assert threads == [("matrix", "1"), ("booster", "0")]


@pytest.mark.parametrize("count", [1, SERIAL_ROWS + 1])
@pytest.mark.parametrize("number", [np.inf, 1e300])
def test_a_number_that_is_infinite_for_the_trees_is_refused(
    model: Model, rows: pd.DataFrame, count: int, number: float
) -> None:
    few_rows = rows.head(count).assign(distance=3e38)
    assert len(model.score(few_rows)) == count
    few_rows.loc[0, "distance"] = number
    with pytest.raises((ValueError, xgb.core.XGBoostError), match=r"inf.*too large"):
        model.score(few_rows)
