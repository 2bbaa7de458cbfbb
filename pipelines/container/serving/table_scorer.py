"""Score a table of features with a packaged model, without pandas where the model allows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

MAX_ROWS = 1_000
"""Most rows that are scored without pandas."""


class TableScorer:
    """Scores tables of features with a model as MLflow loaded it.

    If the trained model has a method `score_columns`, as that of `pipelines.defaults.model`, it scores up to `MAX_ROWS`
    rows: for one row, MLflow and pandas take longer than the model. If MLflow has to check the types of the features,
    it is always called.

    Args:
        model: the model. Its signature was removed if MLflow need not check the types.
        names: the features, in the order of the model's signature. A table may have them in another order.
    """

    def __init__(self, model: Any, names: Sequence[str]) -> None:
        self._model, self._names = model, names
        trained_model = None if model.metadata.signature else _find_trained_model(model)
        self._score_columns = getattr(trained_model, "score_columns", None)
        is_promised = getattr(trained_model, "has_independent_rows", False) is True
        self.has_independent_rows = self._score_columns is not None and is_promised
        """Whether the score of a row has the same bits for whichever other rows are in a table of up to `MAX_ROWS`."""

    def __call__(self, features: pa.Table) -> Any:
        """Return one score for each row, or a frame with a column for each class or quantile."""
        if self._score_columns and features.num_rows <= MAX_ROWS:
            return self._score_columns(features.to_pydict())
        return self._model.predict(features.select(self._names).to_pandas(use_threads=False))


def _find_trained_model(model: Any) -> Any:
    try:
        return getattr(model.unwrap_python_model(), "model", None)
    except Exception:  # MLflow's own flavors have no such model
        return None
