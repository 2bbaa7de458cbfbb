"""Test the signature of packaged models of each task: the names and types of inputs and scores, and what it refuses."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

from pipelines.datasets.flights import DATASET
from pipelines.defaults.model import Model, Schema
from pipelines.registry.package.packaging import save_package

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # MLflow 3.17 warns of its own type hints when it is imported
    import mlflow.pyfunc
    from mlflow.exceptions import MlflowException

FEATURES = {"distance": "number", "origin": "category", "manufacturer": "category"}
ROWS = 300
CASES: dict[str, tuple[str, list[float], list[str]]] = {
    "binary": ("binary", [], ["score"]),
    "multiclass": ("multiclass", [], ["early", "late", "on"]),
    "regression": ("regression", [], ["score"]),
    "quantiles": ("regression", [0.1, 0.5, 0.9], ["0.1", "0.5", "0.9"]),
}
"""Name of a case to the task, the quantiles and the names of the scores."""


def train(task: str, quantiles: list[float]) -> tuple[Model, pd.DataFrame]:
    """Train a small model of the task; return it with its rows. The first rows have missing values."""
    random = np.random.default_rng(3)
    frame = pd.DataFrame({"distance": random.uniform(100.0, 2_500.0, ROWS)})
    for name in ("origin", "manufacturer"):
        frame[name] = random.choice(["a", "b", "c"], ROWS)
    delay = frame["distance"] / 100 + random.normal(0.0, 5.0, ROWS)
    labels: dict[str, Any] = {
        "binary": delay > 15,
        "multiclass": np.select([delay > 20, delay < 8], ["late", "early"], "on"),
        "regression": delay,
    }
    frame["label"] = labels[task]
    frame.loc[:9, "manufacturer"] = None
    frame.loc[1, "distance"] = np.nan
    objectives: dict[str, dict[str, Any]] = {
        "binary": {"objective": "binary:logistic"},
        "multiclass": {"objective": "multi:softprob", "num_class": 3},
        "regression": {"objective": "reg:squarederror"},
    }
    parameters = {"objective": "reg:quantileerror", "quantile_alpha": quantiles} if quantiles else objectives[task]
    schema = Schema.fit(frame, {"features": FEATURES, "label": "label", "task": task}, quantiles)
    booster = xgb.train({**parameters, "max_depth": 3, "nthread": 1}, schema.to_matrix(frame), 5)
    return Model(booster, schema), frame.drop(columns="label")


@pytest.mark.parametrize("case", CASES)
def test_names_and_types_are_those_of_the_features_and_scores(case: str, tmp_path: Path) -> None:
    """They do not depend on the rows of the example, whose first ten have no manufacturer."""
    task, quantiles, names = CASES[case]
    model, rows = train(task, quantiles)
    model.save(tmp_path / "model")
    dataset: Any = replace(DATASET, task=task, features=FEATURES)
    save_package(dataset, tmp_path / "model", rows.head(3), tmp_path / "package")
    signature = mlflow.models.get_model_info(str(tmp_path / "package")).signature
    assert [(column.name, column.type.name, column.required) for column in signature.inputs.inputs] == [
        ("distance", "double", True), ("origin", "string", True), ("manufacturer", "string", True),
    ]  # fmt: skip
    assert [(column.name, column.type.name) for column in signature.outputs.inputs] == [
        (name, "float") for name in names
    ]
    package = mlflow.pyfunc.load_model(str(tmp_path / "package"))
    scores = package.predict(rows.head(20))
    assert np.array_equal(np.asarray(scores), np.asarray(model.score(rows.head(20)))), "missing values are accepted"
    assert np.asarray(scores).dtype == np.float32, "the type that the signature names"
    no_manufacturer = rows.head(20).assign(manufacturer=pd.Series([None] * 20, dtype=object))
    assert np.isfinite(np.asarray(package.predict(no_manufacturer))).all()
    check_refusals(package, rows.head(20))


def check_refusals(package: mlflow.pyfunc.PyFuncModel, rows: pd.DataFrame) -> None:
    """Check that rows which do not fit the signature are refused, whatever the model would do with them."""
    for name in FEATURES:
        with pytest.raises(MlflowException, match=rf"missing inputs \['{name}'\]"):
            package.predict(rows.drop(columns=name))
    with pytest.raises(MlflowException, match=r"(?s)Incompatible input types for column distance"):
        package.predict(rows.assign(distance="far"))
    with pytest.raises(MlflowException, match=r"(?s)Incompatible input types for column origin"):
        package.predict(rows.assign(origin=1.5))
