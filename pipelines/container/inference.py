"""Serve a registered model in a SageMaker container. SageMaker's script mode calls these functions.

This file is code/inference.py in a model.tar.gz whose other files are MLflow's package of the version. So it imports
only the standard library, the requirements of that package and `pipelines.container.serving`, which is in code/, too.

A request has rows of features, or raw rows of the dataset. The content type says which; if it does not, the names of
the columns decide. Features of raw rows are computed by the compiled features (SQL) of the version's package, with the
same code as in the command `serve`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

if find_spec("pipelines") is None:  # an image may have only this file, in another folder
    sys.path.insert(0, "/opt/ml/model/code")

from pipelines.container.serving.compiled_features import read_compiled_features
from pipelines.container.serving.direct_model import PANDAS_TYPES, load_model
from pipelines.container.serving.feature_values import check_float32_range, list_named_values, list_unnamed_values
from pipelines.container.serving.media_types import choose_type
from pipelines.container.serving.request_ids import INFERENCE_ID, choose_id
from pipelines.container.serving.table_scorer import TableScorer
from pipelines.container.serving.tables import JSON, LINES, BadRequest, Table, parse_lines, parse_table

NAMES_FILE = "registered_version.json"
"""File in code/ with the names of the registered model and version, which `pack_model` writes."""
KEY = "key"
"""Entry of the package's metadata with the columns of the key. In rows of features with column names, these columns are
ignored."""

NO_RAW_ROWS = "; this version was registered without compiled features, so it cannot score raw rows: register a new one"


@dataclass(frozen=True)
class PackagedModel:
    """A packaged model, its registered version, and the objects that compute and score features of raw rows."""

    model: Any
    """The model as MLflow loads it, or a `DirectModel`."""
    features: Sequence[Any]
    """Name and type of the features, in the order of the model's signature."""
    score_table: Any
    """A `TableScorer`."""
    row_features: Any = None
    """A `RowFeatures`; None if the version was registered without compiled features."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while features are computed: only one thread may use DuckDB's connection."""
    names: Mapping[str, str] = field(default_factory=dict)
    """`model` and `version`; empty if the archive does not name them."""


class Prediction(NamedTuple):
    """Scores of rows, and the other values of the answer."""

    scores: Any
    names: Mapping[str, str] = MappingProxyType({})
    """`model` and `version`; empty if they are not known."""
    lookups: Mapping[str, Mapping[str, int]] | None = None
    """Maps each lookup to the number of rows by outcome; None if nothing was looked up."""
    looked_up: Mapping[str, Sequence[Any]] | None = None
    """Maps each looked-up feature to its values, one for each row; None if nothing was looked up. The answer has them,
    because the store keeps no earlier values."""
    latency_ms: float | None = None
    """Milliseconds from the parsed rows to the scores. It is in the answer, because captured requests have no times."""


class Answer(NamedTuple):
    """The answer to a request. SageMaker's inference toolkit (1.5.5 and 1.10.1) reads it as a pair."""

    body: str
    content_type: str


def model_fn(model_dir: str) -> PackagedModel:
    """Load the packaged model from a folder.

    Raises:
        ValueError: the file of the model's compiled features cannot be read. A retry cannot help.
        duckdb.Error: DuckDB cannot run the SQL of the compiled features. A retry cannot help.
    """
    model, features = _load_model(Path(model_dir))
    compiled_features, names_file = read_compiled_features(Path(model_dir)), Path(model_dir, "code", NAMES_FILE)
    names = json.loads(names_file.read_text(encoding="utf-8")) if names_file.exists() else {}
    inputs = [feature.name for feature in features]
    score_table = TableScorer(model, inputs)
    if compiled_features is None:
        return PackagedModel(model, features, score_table, names=names)
    # A version that was registered without compiled features need not have DuckDB.
    from pipelines.container.serving.feature_query import connect
    from pipelines.container.serving.row_features import open_row_features

    row_features = open_row_features(compiled_features, connect())
    with suppress(Exception):  # libraries load more code at their first call, which would slow down the first request
        score_table(row_features.warm_up(inputs))
    return PackagedModel(model, features, score_table, row_features, names=names)


def _load_model(package: Path) -> tuple[Any, Sequence[Any]]:
    """Return the model, and the name and type of its features.

    MLflow does not compare the installed versions of packages with the model's: that takes a second, and the container
    has installed code/requirements.txt.
    """
    if direct_model := load_model(package):
        return direct_model, direct_model.features
    import mlflow.pyfunc  # takes seconds and prints warnings, so not at the import of this module

    model = mlflow.pyfunc.load_model(str(package), suppress_warnings=True)
    features = model.metadata.get_input_schema().inputs
    # For such features, MLflow's check of the types changes nothing. It takes a third of the time of a request.
    if all(feature.type.name in PANDAS_TYPES for feature in features):
        model.metadata.signature = None
    return model, features


def input_fn(body: bytes | str, content_type: str) -> list[list[Any]] | Table:
    """Parse the rows of a request.

    In a body of type `LINES` (application/jsonlines), each line has the features of a row, in the order of the model's
    signature; a missing value is null.

    Raises:
        BadRequest: the content type is not supported, or the body is not of that type, is too large or has no rows.
    """
    is_lines = content_type.partition(";")[0].strip().lower() == LINES
    return parse_lines(body) if is_lines else parse_table(body, content_type, LINES)


def predict_fn(rows: Sequence[Sequence[Any]] | Table, model: PackagedModel) -> Prediction:
    """Return the model's prediction for each row, with the time that it took.

    Raises:
        BadRequest: a row lacks a feature or column, has an unknown one, or a value of another type.
    """
    started_at = time.perf_counter()
    prediction = _predict(rows, model)
    return prediction._replace(latency_ms=round(1e3 * (time.perf_counter() - started_at), 3))


def _predict(rows: Sequence[Sequence[Any]] | Table, model: PackagedModel) -> Prediction:
    types = {feature.name: feature.type.name for feature in model.features}
    if not isinstance(rows, Table):
        return _score_values(list_unnamed_values(rows, types), model)
    if model.row_features and model.row_features.is_raw(rows):
        return _score_raw_rows(rows, model, list(types))
    key = (model.model.metadata.metadata or {}).get(KEY, ())
    hint = "" if model.row_features else NO_RAW_ROWS
    if rows.kind == "raw" and hint:
        raise BadRequest(f"the content type has rows=raw{hint}")
    return _score_values(list_named_values(rows, types, key, hint), model)


def _score_values(rows: Sequence[Sequence[Any]], model: PackagedModel) -> Prediction:
    """Return the model's prediction for rows of features whose values have been checked."""
    features, score_table = model.features, model.score_table
    columns = {feature.name: values for feature, values in zip(features, zip(*rows, strict=True), strict=True)}
    if score_table.can_score_columns(len(rows)):
        return Prediction(score_table.score_columns(columns), model.names)
    # pandas takes twice as long to build a frame from series as from arrays.
    frame = pd.DataFrame(
        {feature.name: np.array(columns[feature.name], feature.type.to_pandas()) for feature in features}
    )
    try:
        return Prediction(model.model.predict(frame), model.names)
    except Exception:
        check_float32_range(columns)
        raise


def _score_raw_rows(table: Table, model: PackagedModel, feature_names: Sequence[str]) -> Prediction:
    row_features = model.row_features
    with model.lock:
        rows = row_features.compute(table)
    lookup_result, score_table = row_features.look_up(rows), model.score_table
    if score_table.can_score_columns(len(table.rows)):
        scores = score_table.score_columns(row_features.list_columns(rows, lookup_result, feature_names))
    else:
        scores = score_table(row_features.join(rows, lookup_result, feature_names))
    if lookup_result is None:
        return Prediction(scores, model.names)
    return Prediction(scores, model.names, lookup_result.count(), lookup_result.columns)


def output_fn(prediction: Prediction, accept: str, context: Any = None) -> Answer:
    """Format the scores without loss of precision, in the content type that the request prefers.

    An answer of type `LINES` (application/jsonlines) has on each line the score of a row, or a list of scores if the
    model predicts several classes or quantiles. If features of raw rows were looked up, each line is an object with
    this `score` and the row's values in `looked_up`. An answer of type `JSON` is an object whose `scores` are a list of
    numbers, or of objects by class or quantile. It also has the model, the version, the id of the request, what was
    looked up, and the time that the scores took.

    Args:
        prediction: what `predict_fn` returned.
        accept: header Accept of the request. SageMaker's inference toolkit passes its default type instead of an empty
            header or `*/*`.
        context: the context of the request. Version 1.10.1 of SageMaker's inference toolkit passes one, and version
            1.5.5 does not.

    Raises:
        BadRequest: the request accepts neither `LINES` nor `JSON`.
    """
    content_type = choose_type(accept, JSON, LINES)
    body = _format_json(prediction, context) if content_type == JSON else _format_lines(prediction)
    return Answer(body, content_type)


def _format_json(prediction: Prediction, context: Any) -> str:
    optional_values = {name: getattr(prediction, name) for name in ("lookups", "looked_up", "latency_ms")}
    content = {**prediction.names, "request_id": _find_id(context), "scores": list_scores(prediction.scores)}
    return json.dumps(content | {name: value for name, value in optional_values.items() if value is not None})


def _format_lines(prediction: Prediction) -> str:
    scores, looked_up = prediction.scores, prediction.looked_up
    is_frame = isinstance(scores, pd.DataFrame)
    lines: list[Any] = [list(map(float, row)) for row in scores.to_numpy()] if is_frame else list(map(float, scores))
    if looked_up is not None:
        lines = [
            {"score": score, "looked_up": {name: values[number] for name, values in looked_up.items()}}
            for number, score in enumerate(lines)
        ]
    return "\n".join(map(json.dumps, lines))


def _find_id(context: Any) -> str:
    """Return the InferenceId of the request; a new id if it has none, or if the server passes no context."""
    headers = context.get_all_request_header(0) if context else {}
    return choose_id(value for name, value in headers.items() if name.lower() == INFERENCE_ID.lower())


def list_scores(scores: Iterable[float] | pd.DataFrame) -> list[Any]:
    """Return the scores as JSON values: a list of numbers, or of objects by class or quantile."""
    if isinstance(scores, pd.DataFrame):
        names = [str(name) for name in scores.columns]
        return [dict(zip(names, map(float, row), strict=True)) for row in scores.to_numpy()]
    return [float(score) for score in scores]
