"""An endpoint takes raw rows beside features: the names of the columns tell which, and the bits are the same."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ibis
import pandas as pd
import pyarrow as pa
import pytest
import xgboost as xgb

from pipelines.container import inference
from pipelines.container.inference import PackagedModel
from pipelines.container.serving.compiled_features import CompiledFeatures
from pipelines.container.serving.tables import CSV, JSON, LINES, BadRequest
from pipelines.datasets.flights import DATASET
from pipelines.defaults.model import Model, Schema
from pipelines.features.building import build_sorted_features
from pipelines.registry.package.packaging import save_package
from pipelines.serving.compilation import compile_features

# MLflow warns about its own type hints at its first import.
pytestmark = pytest.mark.filterwarnings("ignore:.*type hint")

HIDDEN = {DATASET.label, *DATASET.known_later}
FEATURES = list(DATASET.features)
LOOKED_UP = set(DATASET.lookups[0].features)
Load = Callable[..., PackagedModel]


@pytest.fixture(scope="module")
def flights(source: Any) -> pa.Table:
    """Return the real flights of a day, sorted by key."""
    import datetime as dt

    day: pa.Table = source.read(dt.date(2013, 2, 1)).read_all()
    return day.sort_by([(name, "ascending") for name in DATASET.key])


@pytest.fixture(scope="module")
def features(flights: pa.Table) -> pd.DataFrame:
    """Return key and features of the flights, as `score` computes them."""
    frame: pd.DataFrame = build_sorted_features(DATASET, ibis.memtable(flights)).to_pyarrow().to_pandas()
    return frame


@pytest.fixture(scope="module")
def model(flights: pa.Table, features: pd.DataFrame) -> Model:
    frame = features[FEATURES].assign(late=flights["arr_delay"].to_pandas().fillna(0) > 15)
    schema = Schema.fit(frame, {"features": dict(DATASET.features), "label": "late"})
    return Model(xgb.train({"objective": "binary:logistic", "max_depth": 4}, schema.to_matrix(frame), 10), schema)


@pytest.fixture(scope="module")
def load(
    model: Model, features: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[CompiledFeatures | None], PackagedModel]:
    """Return the function that packages the model and loads it as a container does."""

    def load_package(compiled: CompiledFeatures | None) -> PackagedModel:
        folder = tmp_path_factory.mktemp("model")
        model.save(folder / "model")
        example = (
            features[FEATURES]
            .head(3)
            .astype({name: float for name, kind in DATASET.features.items() if kind == "number"})
        )
        save_package(DATASET, folder / "model", example, folder / "package", compiled)
        with pytest.MonkeyPatch.context() as patch:  # MLflow adds the package's code to Python's path
            patch.setattr(sys, "path", list(sys.path))
            return inference.model_fn(str(folder / "package"))

    return load_package


@pytest.fixture(scope="module")
def computed(load: Load, flights: pa.Table) -> PackagedModel:
    """Return a version whose features are all computed from the rows."""
    return load(compile_features(DATASET, flights.schema, has_lookups=False))


@pytest.fixture
def rows(flights: pa.Table) -> list[dict[str, Any]]:
    names = [name for name in flights.column_names if name not in HIDDEN]
    return json.loads(json.dumps(flights.select(names).to_pylist(), default=str))


def answer(model: PackagedModel, content: Any, content_type: str = JSON) -> dict[str, Any]:
    body = content if isinstance(content, str) else json.dumps(content)
    prediction = inference.predict_fn(inference.input_fn(body, content_type), model)
    response: dict[str, Any] = json.loads(inference.output_fn(prediction, JSON).body)
    assert response.pop("request_id") and response.pop("latency_ms") > 0
    return response


def check_lines(model: PackagedModel, rows: Any, content: dict[str, Any]) -> None:
    """Check that JSON lines have the scores and looked-up values of the JSON answer, row by row."""
    prediction = inference.predict_fn(inference.input_fn(json.dumps(rows), JSON), model)
    lines = [json.loads(line) for line in inference.output_fn(prediction, LINES).body.splitlines()]
    assert [line["score"] for line in lines] == content["scores"]
    looked_up = {name: [line["looked_up"][name] for line in lines] for name in content["looked_up"]}
    assert looked_up == content["looked_up"] and set(lines[0]) == {"score", "looked_up"}


def list_features(features: pd.DataFrame) -> list[dict[str, Any]]:
    frame = features[FEATURES].astype(object)
    records = frame.where(frame.notna(), None).to_dict("records")
    return json.loads(json.dumps(records))


def test_a_day_of_raw_rows_has_the_scores_of_its_features(
    computed: PackagedModel, model: Model, features: pd.DataFrame, rows: Any
) -> None:
    scores = answer(computed, rows)
    assert scores == {"scores": [float(score) for score in model.score(features[FEATURES])]}
    assert len(set(scores["scores"])) > 100
    assert answer(computed, list_features(features)) == scores, "ready features are accepted as before"
    text = pd.DataFrame(rows[:50]).to_csv(index=False)
    assert answer(computed, text, CSV) == answer(computed, rows[:50])
    assert answer(computed, rows[:1]) != {"scores": scores["scores"][:1]}, (
        "the control: a flight without its neighbours"
    )
    lines = inference.output_fn(inference.predict_fn(inference.input_fn(json.dumps(rows), JSON), computed), LINES).body
    assert [json.loads(line) for line in lines.splitlines()] == scores["scores"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"distance": "far"}, r"row 2, column distance: 'far' is not a whole number \(int32\)"),
        ({"date": None}, "row 2, column date: a value of the key must not be missing"),
        ({"gate": 4}, "row 2 has unknown columns: gate"),
        ({"arr_delay": 4}, "row 2 has columns that are not known before the prediction: arr_delay"),
        (
            {"weekday": 1},
            r"have columns of features \(weekday\) and of raw rows \(plane_year, .*\): send every feature",
        ),
    ],
)
def test_a_wrong_row_is_one_line(computed: PackagedModel, rows: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest, match=message) as error:
        answer(computed, [rows[0], {**rows[1], **change}])
    assert (error.value.status_code, "\n" in str(error.value)) == (400, False)
    assert answer(computed, rows[:2])


def test_a_version_that_was_registered_without_compiled_features_takes_features_only(
    load: Load, computed: PackagedModel, features: pd.DataFrame, rows: Any
) -> None:
    old = load(None)
    ready = list_features(features)[:5]
    assert answer(old, ready) == answer(computed, ready)
    for content, content_type in ((rows[:5], JSON), (ready, f"{JSON}; rows=raw")):
        with pytest.raises(
            BadRequest, match="registered without compiled features, so it cannot score raw rows: register a new one"
        ):
            answer(old, content, content_type)


def test_ambiguous_names_are_refused_without_rows_in_the_content_type(
    load: Load, flights: pa.Table, monkeypatch: pytest.MonkeyPatch, computed: PackagedModel, rows: Any
) -> None:
    """Features can have the names of columns. If they also have their values, nothing is unclear."""
    names = ["distance", "dest"]
    kinds = {"distance": "number", "dest": "category"}
    row_features = computed.row_features
    same = replace(row_features.compiled, features=kinds, changed_features=())
    table: Any = inference.input_fn(json.dumps([{name: row[name] for name in names} for row in rows[:2]]), JSON)
    monkeypatch.setattr(row_features, "compiled", same)
    assert not row_features.is_raw(table)
    assert row_features.is_raw(inference.input_fn(json.dumps({**dict.fromkeys(names), "plane_year": 1}), JSON))
    monkeypatch.setattr(row_features, "compiled", replace(same, changed_features=["distance"]))
    with pytest.raises(BadRequest, match=r"whose values differ \(distance\): add rows=raw or rows=features"):
        row_features.is_raw(table)
    for kind in ("raw", "features"):
        assert row_features.is_raw(table._replace(kind=kind)) == (kind == "raw")
    with pytest.raises(BadRequest, match="the content type has rows=other") as error:
        inference.input_fn("{}", f"{JSON}; rows=other")
    assert error.value.status_code == 415


def test_without_a_store_the_defaults_are_used_and_counted(
    load: Load,
    flights: pa.Table,
    computed: PackagedModel,
    rows: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """A container without region: each looked-up feature is its default, and one line of the log says why."""
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    model = load(compile_features(DATASET, flights.schema, has_lookups=True))
    without_weather = [{name: value for name, value in row.items() if name not in LOOKED_UP} for row in rows[:20]]
    content = answer(model, without_weather)
    assert content["lookups"] == {"hour": {"unreachable": 20}}
    assert content["looked_up"]["departures_hour"] == [21.0] * 20
    assert set(content["looked_up"]) == LOOKED_UP and content["looked_up"]["weather_temp"] == [None] * 20
    assert answer(model, without_weather)["scores"] == content["scores"]
    check_lines(model, without_weather, content)
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1 and "defaults are used instead of looked-up features" in errors[0]
    with pytest.raises(BadRequest, match=r"row 1 lacks the columns .*sched_dep_time"):
        answer(model, {name: value for name, value in without_weather[0].items() if name != "sched_dep_time"})
