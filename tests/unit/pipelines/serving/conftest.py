"""Provide a small real model of flights, and the app that serves it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
import xgboost as xgb
from starlette.applications import Starlette

from pipelines.container.serving.compiled_features import CompiledFeatures
from pipelines.container.serving.feature_query import FeatureQuery, connect
from pipelines.container.serving.row_features import RowFeatures
from pipelines.datasets.flights import DATASET
from pipelines.defaults.model import Model, Schema
from pipelines.serving.app import build_app
from pipelines.serving.compilation import compile_features
from pipelines.serving.served_model import ServedModel

HIDDEN = {DATASET.label, *DATASET.known_later}


@pytest.fixture
def day(day_rows: Callable[[str], pa.Table]) -> pa.Table:
    """Return the real flights of a day."""
    return day_rows("2013-02-01")


@pytest.fixture(scope="session")
def compiled(day_rows: Callable[[str], pa.Table]) -> CompiledFeatures:
    """Return how the rows of flights become features, all of them computed from the rows."""
    return compile_features(DATASET, day_rows("2013-02-01").schema, has_lookups=False)


@pytest.fixture
def row_features(compiled: CompiledFeatures) -> Iterator[RowFeatures]:
    """Return what computes the features of flights, all of them from the rows."""
    with closing(connect()) as connection:
        yield RowFeatures(compiled, connection)


@pytest.fixture
def query(compiled: CompiledFeatures, day: pa.Table) -> Iterator[FeatureQuery]:
    """Return the compiled features of flights."""
    with closing(connect()) as connection:
        yield FeatureQuery(compiled.query, day.schema, connection)


@pytest.fixture(scope="session")
def tiny_model() -> Callable[[pa.Table, pa.Table], Model]:
    """Return the function that trains a small model of features and rows; it trains once."""
    models: list[Model] = []

    def train(features: pa.Table, rows: pa.Table) -> Model:
        if not models:
            frame = features.to_pandas().assign(late=rows["arr_delay"].to_pandas().fillna(0) > 15)
            schema = Schema.fit(frame, {"features": dict(DATASET.features), "label": "late"})
            options = {"objective": "binary:logistic", "max_depth": 4, "nthread": 1}
            models.append(Model(xgb.train(options, schema.to_matrix(frame), 10), schema))
        return models[0]

    return train


@pytest.fixture(scope="session")
def features_of_day(compiled: CompiledFeatures, day_rows: Callable[[str], pa.Table]) -> pa.Table:
    """Return the features of the day, as training computes them."""
    day = day_rows("2013-02-01")
    with closing(connect()) as connection:
        query = FeatureQuery(compiled.query, day.schema, connection)
        return query.compute({name: day[name].to_pylist() for name in query.columns}, day.num_rows)


@pytest.fixture
def served_model(features_of_day: pa.Table, row_features: RowFeatures, day: pa.Table, tiny_model: Any) -> ServedModel:
    """Return the served model."""
    model = tiny_model(features_of_day, day)
    return ServedModel("flights", "7", row_features, lambda table: model.score_columns(table.to_pydict()))


class Client:
    """Sends requests to an app, without a server."""

    def __init__(self, app: Starlette) -> None:
        self._app = app

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request, and return the response."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
                return await client.request(method, path, **options)

        return asyncio.run(send())

    def invoke(self, content: Any, content_type: str = "application/json", **headers: str) -> httpx.Response:
        """Send rows to be scored; bytes and iterators are sent unchanged, other values as JSON."""
        if isinstance(content, dict | list):
            content = json.dumps(content).encode()
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.request("POST", "/invocations", content=content, headers={"content-type": content_type, **headers})


@pytest.fixture
def make_client(served_model: ServedModel) -> Callable[..., Client]:
    """Return the function that makes a client of the app, with changes of the model."""
    return lambda **changes: Client(build_app(replace(served_model, **changes)))


@pytest.fixture
def client(make_client: Callable[..., Client]) -> Client:
    """Return a client of the app."""
    return make_client()


@pytest.fixture(scope="session")
def text_of_rows(day_rows: Callable[[str], pa.Table]) -> str:
    """Return the rows of the day as JSON, with all columns that are known before the prediction."""
    day = day_rows("2013-02-01")
    names = [name for name in day.column_names if name not in HIDDEN]
    return json.dumps(day.select(names).to_pylist(), default=lambda value: value.isoformat())


@pytest.fixture
def rows(text_of_rows: str) -> list[dict[str, Any]]:
    """Return the rows of the day as JSON values. A test may change them."""
    return json.loads(text_of_rows)


@pytest.fixture
def scores_of_day(served_model: ServedModel, features_of_day: pa.Table) -> np.ndarray[Any, Any]:
    """Return the scores of the day, which no request was needed for."""
    return np.asarray(served_model.scorer(features_of_day))
