"""Score a table of features with a packaged model, without pandas where the model allows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

MAX_ROWS = 1_000
"""Most rows that are scored without pandas."""


def open_table_scorer(model: Any, names: Sequence[str]) -> Callable[[pa.Table], Any]:
    """Return the function that scores tables of features with a model as MLflow loaded it.

    If the trained model has a method `score_columns`, as that of `pipelines.defaults.model`, it scores up to `MAX_ROWS`
    rows: for one row, MLflow and pandas take longer than the model. If MLflow has to check the types of the features,
    it is always called.

    Args:
        model: the model. Its signature was removed if MLflow need not check the types.
        names: the features, in the order of the model's signature. The table may have them in another order.
    """
    score_columns = None if model.metadata.signature else _find_score_columns(model)

    def score(features: pa.Table) -> Any:
        if score_columns and features.num_rows <= MAX_ROWS:
            return score_columns(features.to_pydict())
        return model.predict(features.select(names).to_pandas(use_threads=False))

    return score


def _find_score_columns(model: Any) -> Any:
    try:
        trained_model = getattr(model.unwrap_python_model(), "model", None)
    except Exception:  # MLflow's own flavors have no such model
        return None
    return getattr(trained_model, "score_columns", None)
