"""Serve a registered model in a SageMaker container. SageMaker's script mode calls these functions.

This file is code/inference.py in a model.tar.gz whose other files are MLflow's package of the version. So it imports
only the standard library, the requirements of that package and `pipelines.container.serving`, which is in code, too.

A request has rows of features, or raw rows of the dataset. The names of the columns decide which. Features of raw rows
are computed as the version's package says, by the same code as in `serve`.
"""

from __future__ import annotations

import json
import math
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

if find_spec("pipelines") is None:  # an image may install this file alone in another folder
    sys.path.insert(0, "/opt/ml/model/code")

from pipelines.container.serving.compiled_features import read_compiled_features
from pipelines.container.serving.tables import JSON, BadRequest, Table, parse_table

LINES = "application/jsonlines"
"""Content type of requests: each line is a JSON list with the features of a row, in the order of the model's signature;
a missing value is null. Each line of a response is a score, or a JSON list with the probability of each class."""
KEY = "key"
"""Entry of the package's metadata with the columns that name a row. A row by column name may have them, too."""

NO_RAW_ROWS = "; this version was registered without what computes features from raw rows: register a new one"


@dataclass(frozen=True)
class PackagedModel:
    """A packaged model, and what computes features from raw rows."""

    model: Any
    """The model as MLflow loads it."""
    features: Sequence[Any]
    """Name and type of the features, in the order of the model's signature."""
    row_features: Any = None
    """A `RowFeatures`; None if the version was registered without what raw rows need."""
    score_table: Any = None
    """Scores a table of features; None like `row_features`."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while features are computed: only one thread may use DuckDB's connection."""


class Prediction(NamedTuple):
    """Scores of raw rows, and what the lookups found."""

    scores: Any
    lookups: Mapping[str, Mapping[str, int]]
    """Lookup to the number of rows by outcome."""
    looked_up: Mapping[str, Sequence[Any]]
    """Looked-up feature to the value of each row. It is in the answer, because the store keeps no earlier values."""


def model_fn(model_dir: str) -> PackagedModel:
    """Load the packaged model from a folder.

    MLflow does not compare the installed versions of packages with the model's: that takes a second, and the container
    has installed code/requirements.txt.

    Raises:
        ValueError: the file of its compiled features cannot be read.
    """
    import mlflow.pyfunc  # takes seconds and prints warnings, so not at the import of this module

    model = mlflow.pyfunc.load_model(model_dir, suppress_warnings=True)
    compiled = read_compiled_features(Path(model_dir))
    features = model.metadata.get_input_schema().inputs
    # If all features are numbers of 64 bits or texts, MLflow's check of the types changes nothing. It takes a third of
    # the time of a request.
    if all(feature.type.name in ("double", "string") for feature in features):
        model.metadata.signature = None
    if compiled is None:
        return PackagedModel(model, features)
    # A version that was registered without compiled features need not have DuckDB.
    from pipelines.container.serving.feature_query import connect
    from pipelines.container.serving.row_features import open_row_features
    from pipelines.container.serving.table_scorer import TableScorer

    names = [feature.name for feature in features]
    row_features, score_table = open_row_features(compiled, connect()), TableScorer(model, names)
    with suppress(Exception):  # libraries load more code at their first call, which would slow down the first request
        score_table(row_features.warm_up(names))
    return PackagedModel(model, features, row_features, score_table)


def input_fn(body: bytes | str, content_type: str) -> list[list[Any]] | Table:
    """Parse the rows of a request.

    Raises:
        BadRequest: the content type is not supported, or the body is not of that type or too large.
        ValueError: a line of `LINES` is not JSON.
    """
    if content_type == LINES:
        return [json.loads(line) for line in body.splitlines()]
    return parse_table(body, content_type, LINES)


def predict_fn(rows: Sequence[Sequence[Any]] | Table, model: PackagedModel) -> Any:
    """Return the model's prediction for each row; for raw rows of a version with lookups, a `Prediction`.

    Raises:
        BadRequest: a row by column name lacks a feature or column, has an unknown one, or a value of another type.
        ValueError: a row of `LINES` has more or fewer values than the model has features.
    """
    features = model.features
    if isinstance(rows, Table):
        if model.row_features and model.row_features.is_raw(rows):
            return _score_raw_rows(rows, model, [feature.name for feature in features])
        rows = _list_values(rows, {feature.name: feature.type.name for feature in features}, model)
    columns = zip(features, zip(*rows, strict=True), strict=True)
    # pandas takes twice as long to build a frame from series as from arrays.
    return model.model.predict(
        pd.DataFrame({feature.name: np.array(values, feature.type.to_pandas()) for feature, values in columns})
    )


def _score_raw_rows(table: Table, model: PackagedModel, names: Sequence[str]) -> Any:
    row_features = model.row_features
    with model.lock:
        rows = row_features.compute(table)
    looked_up = row_features.look_up(rows)
    scores = model.score_table(row_features.join(rows, looked_up, names))
    if looked_up is None:
        return scores
    values = {name: column.to_pylist() for name, column in looked_up.columns.items()}
    return Prediction(scores, looked_up.count(), values)


def _list_values(table: Table, types: Mapping[str, str], model: PackagedModel) -> list[list[Any]]:
    """Return the checked values of each row in the order of the features. Other columns of the key are not read."""
    key = (model.model.metadata.metadata or {}).get(KEY, ())
    hint = "" if model.row_features else NO_RAW_ROWS
    if table.kind == "raw" and hint:
        raise BadRequest(f"the content type has rows=raw{hint}")
    values = []
    for number, row in enumerate(table.rows, 1):
        if missing_names := [name for name in types if name not in row]:
            problem = f"row {number} lacks the columns {', '.join(missing_names)}: send every feature of the model"
            raise BadRequest(problem + hint)
        if unknown_names := [name for name in row if name not in types and name not in key]:
            raise BadRequest(
                f"row {number} has columns that are no features of the model: {', '.join(unknown_names)}" + hint
            )
        values.append([_convert(row[name], types[name], name, number, table.is_text) for name in types])
    return values


def _convert(value: Any, type_name: str, column: str, number: int, is_text: bool) -> Any:
    if value is None or (is_text and value == ""):
        if type_name in ("double", "float", "string"):
            return None
        raise BadRequest(f"row {number}, column {column}: a {type_name} must not be missing")
    try:
        return _CONVERTERS[type_name](_parse_text(value, type_name) if is_text else value)
    except (ValueError, OverflowError) as error:
        raise BadRequest(f"row {number}, column {column}: {str(value)[:50]!r} is not a {type_name}") from error


def _parse_text(text: str, type_name: str) -> Any:
    if type_name in ("double", "float"):
        return float(text)
    if type_name in ("long", "integer"):
        return int(text)
    return {"true": True, "false": False}.get(text.lower(), text) if type_name == "boolean" else text


def _to_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("no finite number")
    return float(value)


def _to_integer(value: Any, bits: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError("no integer in the range")
    return value


def _keep_type(value: Any, expected: type) -> Any:
    if not isinstance(value, expected):
        raise ValueError("another type")
    return value


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "double": _to_float,
    "float": _to_float,
    "long": lambda value: _to_integer(value, 64),
    "integer": lambda value: _to_integer(value, 32),
    "boolean": lambda value: _keep_type(value, bool),
    "string": lambda value: _keep_type(value, str),
}


def output_fn(scores: Iterable[float] | pd.DataFrame | Prediction, accept: str) -> str:
    """Format the scores without loss of precision.

    `LINES` has a score on each line, or a list on each line for a multiclass model. `JSON` is an object whose `scores`
    are a list of numbers, or of objects by class or quantile. For a `Prediction` it has `lookups` and `looked_up`, too.

    Raises:
        BadRequest: the request accepts neither `LINES` nor `JSON`.
    """
    if isinstance(scores, Prediction):
        content = {**scores._asdict(), "scores": list_scores(scores.scores)}
        return json.dumps(content) if accept == JSON else output_fn(scores.scores, accept)
    if accept == JSON:
        return json.dumps({"scores": list_scores(scores)})
    if accept != LINES:
        raise BadRequest(f"content type {accept} is not supported: accept {LINES} or {JSON}", 406)
    if isinstance(scores, pd.DataFrame):
        return "\n".join(json.dumps([float(score) for score in row]) for row in scores.to_numpy())
    return "\n".join(json.dumps(float(score)) for score in scores)


def list_scores(scores: Iterable[float] | pd.DataFrame) -> list[Any]:
    """Return the scores as JSON values: a list of numbers, or of objects by class or quantile."""
    if isinstance(scores, pd.DataFrame):
        names = [str(name) for name in scores.columns]
        return [dict(zip(names, map(float, row), strict=True)) for row in scores.to_numpy()]
    return [float(score) for score in scores]
