"""Score a table of features with a packaged model, without pandas where the model allows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.container.serving.feature_values import check_float32_range

if TYPE_CHECKING:  # the container of a version without compiled features need not have pyarrow
    import pyarrow as pa

MAX_ROWS = 1_000
"""Largest number of rows that are scored without MLflow and pandas."""


class TableScorer:
    """Scores tables of features with a model as MLflow loaded it.

    For one row, MLflow and pandas take longer than the model. So up to `MAX_ROWS` rows are scored by the method
    `score_columns` of the trained model, if it has one. The models of `pipelines.defaults.model` have it. The method
    `predict` of `model` scores all other tables, and every table if MLflow has to check the types of the features.

    Args:
        model: the model as MLflow loads it, or a `DirectModel`, which was loaded without MLflow. Its signature was
            removed if MLflow need not check the types.
        names: the features, in the order of the model's signature. A table may have them in another order.
    """

    def __init__(self, model: Any, names: Sequence[str]) -> None:
        self._model, self._names = model, names
        trained_model = None if model.metadata.signature else _find_trained_model(model)
        self._score_columns = getattr(trained_model, "score_columns", None)
        has_independent_rows = getattr(trained_model, "has_independent_rows", False) is True
        self.has_independent_rows = self._score_columns is not None and has_independent_rows
        """Whether a row's score has the same bits, whichever other rows are in a table of up to `MAX_ROWS` rows."""

    def __call__(self, features: pa.Table) -> Any:
        """Return one score for each row, or a frame with a column for each class or quantile.

        Raises:
            BadRequest: the model fails, and a number is too large for 32 bits. Other errors are the model's own.
        """
        if self.can_score_columns(features.num_rows):
            return self.score_columns(features.to_pydict())
        try:
            return self._model.predict(features.select(self._names).to_pandas(use_threads=False))
        except Exception:
            check_float32_range(features.select(self._names).to_pydict())
            raise

    def can_score_columns(self, count: int) -> bool:
        """Return whether this number of rows can be scored without MLflow and pandas."""
        return self._score_columns is not None and count <= MAX_ROWS

    def score_columns(self, columns: Mapping[str, Sequence[Any]]) -> Any:
        """Return the scores of features, as `__call__` does. `can_score_columns` must be true for the number of rows.

        Args:
            columns: maps each feature to its values, one for each row; None is a missing value.

        Raises:
            BadRequest: the model fails, and a number is too large for 32 bits. Other errors are the model's own.
        """
        assert self._score_columns, "see can_score_columns"
        try:
            return self._score_columns(columns)
        except Exception:
            check_float32_range({name: columns[name] for name in self._names})
            raise


def _find_trained_model(model: Any) -> Any:
    try:
        return getattr(model.unwrap_python_model(), "model", None)
    except Exception:  # MLflow's own flavors have no such model
        return None
