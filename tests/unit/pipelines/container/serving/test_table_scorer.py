"""Test which models score a table of features without MLflow and pandas."""

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from pipelines.container.serving.table_scorer import MAX_ROWS, TableScorer


class PackagedModel:
    """A model as MLflow loads it. It returns the way in which it was called."""

    def __init__(self, *, signature: Any = None, trained_model: Any = None, is_python: bool = True) -> None:
        self.metadata, self._trained_model, self._is_python = (
            SimpleNamespace(signature=signature),
            trained_model,
            is_python,
        )

    def predict(self, frame: pd.DataFrame) -> tuple[str, list[str], int]:
        return "MLflow", list(frame.columns), len(frame)

    def unwrap_python_model(self) -> Any:
        if not self._is_python:
            raise ValueError("it has no Python model")
        return SimpleNamespace(model=self._trained_model)


class TrainedModel:
    """A model that can score columns."""

    def score_columns(self, columns: dict[str, list[Any]]) -> tuple[str, dict[str, list[Any]]]:
        return "columns", columns


TABLE = pa.table({"b": ["x"], "a": [1.0]})


def test_model_that_can_score_columns_gets_them() -> None:
    score = TableScorer(PackagedModel(trained_model=TrainedModel()), ["a", "b"])
    assert score(TABLE) == ("columns", {"a": [1.0], "b": ["x"]})


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"trained_model": TrainedModel(), "signature": "to check"}, 1),
        ({"trained_model": TrainedModel()}, MAX_ROWS + 1),
        ({"trained_model": object()}, 1),
        ({"is_python": False}, 1),
    ],
)
def test_others_are_called_by_mlflow_with_the_features_in_their_order(options: dict[str, Any], rows: int) -> None:
    table = pa.table({"b": ["x"] * rows, "a": [1.0] * rows})
    assert TableScorer(PackagedModel(**options), ["a", "b"])(table) == ("MLflow", ["a", "b"], rows)
