"""A model of the registry in a SageMaker container, by the contract of its script mode.

Travels as code/inference.py of a model.tar.gz whose other files are MLflow's package of the version, so: what that
package says it needs, and the standard library.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

LINES = "application/jsonlines"
"""A line is a row: the features in the order of the model's signature, null where one is missing; a score, answered."""


def model_fn(model_dir: str) -> Any:
    """The packaged model of the folder."""
    import mlflow.pyfunc  # seconds, and warnings of its own: who reads this file for a name does not want them

    return mlflow.pyfunc.load_model(model_dir)


def input_fn(body: bytes | str, content_type: str) -> list[list[Any]]:
    """The rows of a request.

    Raises:
        ValueError: it is of another content type, or not JSON.
    """
    if content_type != LINES:
        raise ValueError(f"content type {content_type} is not read: send {LINES}")
    return [json.loads(line) for line in body.splitlines()]


def predict_fn(rows: Sequence[Sequence[Any]], model: Any) -> Any:
    """What the model says of each row.

    Raises:
        ValueError: a row has more or fewer values than the model has features.
    """
    wanted = model.metadata.get_input_schema().inputs
    columns = zip(wanted, zip(*rows, strict=True), strict=True)
    return model.predict(
        pd.DataFrame({one.name: pd.Series(values, dtype=one.type.to_pandas()) for one, values in columns})
    )


def output_fn(scores: Iterable[float], accept: str) -> str:
    """The scores, each to the last bit.

    Raises:
        ValueError: another content type is wanted.
    """
    if accept != LINES:
        raise ValueError(f"content type {accept} is not written: accept {LINES}")
    return "\n".join(json.dumps(float(score)) for score in scores)
