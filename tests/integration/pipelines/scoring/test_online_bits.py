"""Scores of an endpoint's code for a whole day of raw rows have the bits of the other ways to score the same rows."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.container import inference
from pipelines.container.serving.tables import JSON
from pipelines.dataset import load_dataset
from pipelines.features import building, engines
from pipelines.registry.package.packaging import save_package
from pipelines.serving.compilation import compile_features

# MLflow warns about its own type hints at its first import.
pytestmark = [pytest.mark.filterwarnings("ignore:.*type hint"), pytest.mark.soak]

FLIGHTS = load_dataset("flights")
DAY = "2013-01-20"
"""A day of the holdout of the fixture `trained`."""
HIDDEN = {FLIGHTS.label, *FLIGHTS.known_later}
Scores = dict[tuple[str, ...], float]


@pytest.fixture(scope="module")
def day(day_rows: Any) -> pa.Table:
    """Return the published rows of the day."""
    rows: pa.Table = day_rows(DAY)
    return rows


@pytest.fixture(scope="module")
def online_scores(trained: SimpleNamespace, day: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Scores:
    """Return the scores of all flights of the day, which were one request of raw rows. A key is texts."""
    folder = tmp_path_factory.mktemp("package") / "package"
    example = pd.read_parquet(trained.data / "features/holdout/data.parquet")[list(FLIGHTS.features)].head(3)
    compiled = compile_features(FLIGHTS, day.schema, has_lookups=False)
    save_package(FLIGHTS, trained.data / "model", example, folder, compiled)
    with pytest.MonkeyPatch.context() as patch:  # MLflow adds the package's code to Python's path
        patch.setattr(sys, "path", list(sys.path))
        model = inference.model_fn(str(folder))
    rows = day.select([name for name in day.column_names if name not in HIDDEN]).to_pylist()
    body = json.dumps(rows, default=lambda value: value.isoformat())
    prediction = inference.predict_fn(inference.input_fn(body, JSON), model)
    scores = json.loads(inference.output_fn(prediction, JSON).body)["scores"]
    return {read_key(row): score for row, score in zip(rows, scores, strict=True)}


def read_key(row: Any) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in FLIGHTS.key)


def tabulate(rows: pd.DataFrame, scores: Any) -> Scores:
    return {read_key(row): float(score) for row, score in zip(rows.to_dict("records"), scores, strict=True)}


def check_bits(online_scores: Scores, expected: Scores) -> None:
    """Check that the scores of all flights of `expected`, nearly the whole day, are equal to the last bit."""
    assert len(online_scores) >= len(expected) > 700
    assert len(set(expected.values())) > 50
    assert {key: online_scores[key] for key in expected} == expected


def test_scores_of_a_day_have_the_bits_of_the_evaluation(trained: SimpleNamespace, online_scores: Scores) -> None:
    """`trained` ran the steps that `dvc repro` runs. The rows without a label, cancelled flights, are not evaluated."""
    predictions = pd.read_parquet(trained.data / "evaluation/predictions.parquet")
    predictions = predictions[predictions["date"].astype(str) == DAY]
    check_bits(online_scores, tabulate(predictions, predictions["score"]))


@pytest.mark.slow
def test_scores_of_a_day_have_the_bits_of_features_that_spark_builds(
    java: None, trained: SimpleNamespace, day: pa.Table, online_scores: Scores, tmp_path: Path
) -> None:
    pq.write_table(day, tmp_path / "rows.parquet")
    with engines.open_engine("spark", [str(tmp_path / "rows.parquet")], day.schema) as run:
        batches = run(partial(building.build_labelled_features, FLIGHTS), None)
        building.write_features(batches, building.build_feature_schema(FLIGHTS, day.schema), tmp_path)
    features = pd.read_parquet(tmp_path / "data.parquet")
    model = FLIGHTS.load_model(trained.data / "model")
    check_bits(online_scores, tabulate(features, model.score(features)))
    # The control: with other neighbours, a day has other scores.
    changed_scores = model.score(features.assign(departures_hour=features["departures_hour"] + 9))
    assert any(online_scores[key] != score for key, score in tabulate(features, changed_scores).items())
