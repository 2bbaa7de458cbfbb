"""Serve a registered model in a SageMaker container. SageMaker's script mode calls these functions.

This file is code/inference.py in a model.tar.gz whose other files are MLflow's package of the version. So it imports
only the standard library and the requirements of that package.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

LINES = "application/jsonlines"
"""Content type of requests and responses.

Each line of a request is a JSON list with the features of a row, in the order of the model's signature; a missing value
is null. Each line of a response is a score, or a JSON list with the probability of each class.
"""


def model_fn(model_dir: str) -> Any:
    """Load the packaged model from a folder."""
    import mlflow.pyfunc  # takes seconds and prints warnings, so not at the import of this module

    return mlflow.pyfunc.load_model(model_dir)


def input_fn(body: bytes | str, content_type: str) -> list[list[Any]]:
    """Parse the rows of a request.

    Raises:
        ValueError: the content type is not `LINES`, or a line is not JSON.
    """
    if content_type != LINES:
        raise ValueError(f"content type {content_type} is not supported: send {LINES}")
    return [json.loads(line) for line in body.splitlines()]


def predict_fn(rows: Sequence[Sequence[Any]], model: Any) -> Any:
    """Return the model's prediction for each row.

    Raises:
        ValueError: a row has more or fewer values than the model has features.
    """
    features = model.metadata.get_input_schema().inputs
    columns = zip(features, zip(*rows, strict=True), strict=True)
    return model.predict(
        pd.DataFrame({feature.name: pd.Series(values, dtype=feature.type.to_pandas()) for feature, values in columns})
    )


def output_fn(scores: Iterable[float] | pd.DataFrame, accept: str) -> str:
    """Format the scores without loss of precision: one on each line, or a list on each line for a multiclass model.

    Raises:
        ValueError: the request does not accept `LINES`.
    """
    if accept != LINES:
        raise ValueError(f"content type {accept} is not supported: accept {LINES}")
    if isinstance(scores, pd.DataFrame):
        return "\n".join(json.dumps([float(score) for score in row]) for row in scores.to_numpy())
    return "\n".join(json.dumps(float(score)) for score in scores)
