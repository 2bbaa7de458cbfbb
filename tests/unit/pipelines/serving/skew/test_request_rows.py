"""Test that the stored scores of each task have the texts of those that the model gave."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from pipelines.container.inference import list_scores
from pipelines.dataset import Dataset
from pipelines.scored_rows import append_scores, list_score_fields
from pipelines.serving.skew.request_rows import format_scores, format_stored_scores

SCORES = {
    "binary": pd.Series([0.1, 1 / 3]),
    "multiclass": pd.DataFrame({"late": [0.25, 0.5], "on time": [0.75, 0.5]}),
    "regression": pd.Series([-3.5, 1e-9]),
    "quantiles": pd.DataFrame({"0.1": [1.0, 2.0], "0.5": [3.0, 4.0], "0.9": [5.0, 6.5]}),
}


@pytest.mark.parametrize("case", SCORES)
def test_stored_scores_are_those_of_the_model(case: str) -> None:
    task: Any = case if case != "quantiles" else "regression"
    dataset = Dataset(name="trips", key=("id",), label="label", task=task)
    rows = append_scores(dataset, pd.DataFrame({"label": ["late", "on time"]}), SCORES[case])
    columns = {
        field.name: pa.array(rows[field.name], field.type, from_pandas=True) for field in list_score_fields(dataset)
    }
    stored = format_stored_scores(pa.table(columns))
    assert stored == format_scores(list_scores(SCORES[case]))
    assert stored != format_scores(list_scores(SCORES[case] + 1e-12))
