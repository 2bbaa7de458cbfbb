"""Score rows with a trained model, which is a booster and the schema of its features; save and load the model.

The module is part of the training job's source bundle and of the MLflow model, so it imports only xgboost, pandas,
numpy, the standard library and files of the bundle.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xgboost as xgb

from pipelines.classes import encode_labels, list_classes

BOOSTER_FILE = "model.ubj"
SCHEMA_FILE = "schema.json"
SERIAL_ROWS = 1_000
"""Largest number of rows that one thread scores alone. For so few rows, more threads would take longer."""


@dataclass(frozen=True)
class Schema:
    """The columns that the model reads, and their categories in the training data."""

    features: dict[str, str]
    """Maps each feature name to its kind: 'number' or 'category'."""
    label: str
    """Name of the label's column."""
    categories: dict[str, list[str]]
    """Maps each feature to its categories in the training data, for each feature of kind 'category'."""
    classes: list[str] = field(default_factory=list)
    """Names of the classes of a multiclass model, in the order of its scores; empty for other models."""
    quantiles: list[float] = field(default_factory=list)
    """Quantiles that a regression predicts, ascending; empty if it predicts the mean, and for other models."""

    @classmethod
    def fit(cls, frame: pd.DataFrame, description: dict[str, Any], quantiles: Sequence[float] = ()) -> Schema:
        """Return the schema of training features, with the sorted categories and classes of all training rows.

        Args:
            frame: the training features that this host has.
            description: has `features`, which maps each name to its kind; `label`, the name of the label's column; and
                `task`, which is binary if it is missing. `parts` has the categories and classes of all rows, if `frame`
                may have only a share of them. Without `parts`, they are those of `frame`.
            quantiles: quantiles that the model predicts, ascending.
        """
        kinds, label = description["features"], description["label"]
        parts = description.get("parts")
        if parts:
            return cls(kinds, label, parts["categories"], parts["classes"], list(quantiles))
        categories = {
            name: sorted(frame[name].dropna().unique().tolist()) for name, kind in kinds.items() if kind == "category"
        }
        classes = list_classes(frame[label]) if description.get("task") == "multiclass" else []
        return cls(kinds, label, categories, classes, list(quantiles))

    def to_matrix(self, frame: pd.DataFrame, bins_of: xgb.DMatrix | None = None) -> xgb.DMatrix:
        """Convert the features to xgboost's matrix. A category that is not in the training data counts as missing.

        Args:
            frame: has the feature columns; other columns are ignored. With the label column, the matrix has labels.
            bins_of: matrix whose bins of the features the new matrix uses; None: xgboost makes them in the training.

        Raises:
            KeyError: a feature column is missing.
            ValueError: a label is a class that training did not see.
        """
        columns = {name: self._convert_column(frame[name], kind) for name, kind in self.features.items()}
        label = self._convert_label(frame[self.label]) if self.label in frame else None
        # The columns go into a new frame with its own index. `frame`, which may be a slice, is not changed.
        # One thread: idle threads would spin, and take CPU time from other processes.
        data, options = pd.DataFrame(columns), {"label": label, "enable_categorical": True, "nthread": 1}
        if bins_of is None:
            return xgb.DMatrix(data, **options)
        return xgb.QuantileDMatrix(data, ref=bins_of, **options)

    def to_array(self, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
        """Convert the features to an array for `inplace_predict`, with the same values as `to_matrix`.

        The array holds the code of each category. Missing values, and categories that are not in the training data,
        are NaN. For 100 rows, this takes a twentieth of the time of `to_matrix`.

        Raises:
            KeyError: a feature column is missing.
            ValueError: a number is infinite, or too large for 32 bits.
        """
        # In pandas, to select the columns takes as long as to score the rows, and to read them one by one takes longer.
        names = list(self.features)
        frame = frame if list(frame.columns) == names else frame[names]
        values = frame.to_numpy(object, na_value=np.nan)
        for column, (name, kind) in enumerate(self.features.items()):
            if kind != "number":
                codes = self._codes[name]
                values[:, column] = [codes.get(value, np.nan) for value in values[:, column]]
        return _convert_to_32_bits(values.astype(np.float64))

    def build_array(self, columns: Mapping[str, Sequence[Any]]) -> np.ndarray[Any, Any]:
        """Convert the features, given as lists of Python values by name, to the array of `to_array`.

        For one row, this takes a tenth of the time of making a frame and calling `to_array`.

        Raises:
            KeyError: a feature is missing.
            ValueError: a number is infinite, or too large for 32 bits.
        """
        rows = [
            [np.nan if value is None else value for value in columns[name]]
            if kind == "number"
            else [self._codes[name].get(value, np.nan) for value in columns[name]]
            for name, kind in self.features.items()
        ]
        return _convert_to_32_bits(np.array(rows, np.float64).T)

    def _convert_label(self, labels: pd.Series[Any]) -> Any:
        return encode_labels(labels, self.classes) if self.classes else labels.to_numpy(dtype=np.float32)

    def _convert_column(self, values: pd.Series[Any], kind: str) -> Any:
        if kind == "number":
            return values.to_numpy(dtype=np.float64, na_value=np.nan)
        categories = self._category_indexes[str(values.name)]
        # Built from codes, so that the categories have the same dtype when the column is empty.
        return pd.Categorical.from_codes(categories.get_indexer(values.astype(object)), categories=categories)  # type: ignore[arg-type]

    @cached_property
    def _codes(self) -> dict[str, dict[str, int]]:
        """Maps each feature to its categories, and each category to its code."""
        return {name: {value: code for code, value in enumerate(values)} for name, values in self.categories.items()}

    @cached_property
    def _category_indexes(self) -> dict[str, pd.Index[Any]]:
        """Maps each feature to the index of its categories. Built once: to build it for each request would be slow."""
        return {name: pd.Index(values) for name, values in self.categories.items()}


def _convert_to_32_bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    with np.errstate(over="ignore"):
        array = array.astype(np.float32)
    if np.isinf(array).any():
        raise ValueError("a feature is infinite, or too large for 32 bits")
    return array


@dataclass(frozen=True)
class Model:
    """A booster and its schema."""

    booster: xgb.Booster
    schema: Schema
    has_independent_rows: ClassVar = True
    """Promise: in `score_columns`, other rows do not change the score of a row, not even its last bit. So servers may
    score the rows of several requests together."""

    def score(self, frame: pd.DataFrame) -> np.ndarray[Any, Any] | pd.DataFrame:
        """Score each row of `frame`.

        Returns:
            The probability that the label is 1, or in a regression the predicted number; shape (rows,). For a
            multiclass model, a frame with the probability of each class in a column of its name. For a model of
            quantiles, a frame with a column for each quantile. The quantiles of a row are sorted, because those of the
            trees may cross. Sorted quantiles are never farther from the true quantiles (Chernozhukov, Fernandez-Val &
            Galichon 2010, Econometrica 78).
        """
        if len(frame) <= SERIAL_ROWS:
            scores = self._serial_booster.inplace_predict(self.schema.to_array(frame))
        else:
            features = frame.drop(columns=self.schema.label, errors="ignore")
            scores = self.booster.predict(self.schema.to_matrix(features))
        return self._name_scores(np.asarray(scores), frame.index)

    def score_columns(self, columns: Mapping[str, Sequence[Any]]) -> np.ndarray[Any, Any] | pd.DataFrame:
        """Score a few rows that are not in a DataFrame. Return the same as `score`, to the last bit.

        For one row, pandas would take longer than the model.

        Args:
            columns: maps each feature to its values, one for each row; None or NaN is a missing value.
        """
        scores = np.asarray(self._serial_booster.inplace_predict(self.schema.build_array(columns)))
        return self._name_scores(scores, pd.RangeIndex(len(scores)))

    def _name_scores(self, scores: np.ndarray[Any, Any], index: pd.Index[Any]) -> np.ndarray[Any, Any] | pd.DataFrame:
        """Return the booster's scores as `score` does: for classes or quantiles, with a column for each."""
        if self.schema.quantiles:
            names = [f"{quantile:g}" for quantile in self.schema.quantiles]
            return pd.DataFrame(np.sort(scores.reshape(len(index), -1), axis=1), index, names)
        return pd.DataFrame(scores, index, self.schema.classes) if self.schema.classes else scores

    @cached_property
    def _serial_booster(self) -> xgb.Booster:
        """A copy of the booster that uses one thread. Its scores are byte-identical to those of the booster."""
        booster: xgb.Booster = self.booster.copy()
        booster.set_param({"nthread": 1})
        return booster

    def importance(self) -> dict[str, float]:
        """Return each feature's share of the total gain, largest first."""
        gains = {
            name: float(np.mean(gain)) for name, gain in self.booster.get_score(importance_type="total_gain").items()
        }
        total = sum(gains.values()) or 1.0
        shares = {name: gains.get(name, 0.0) / total for name in self.schema.features}
        return dict(sorted(shares.items(), key=lambda item: -item[1]))

    def save(self, folder: Path) -> None:
        """Write the model to `folder`: model.ubj and schema.json, without pickle."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / BOOSTER_FILE).write_bytes(self.booster.save_raw("ubj"))
        optional_fields = {"classes", "quantiles"}
        values = {name: value for name, value in asdict(self.schema).items() if value or name not in optional_fields}
        text = json.dumps(values, indent=2)
        (folder / SCHEMA_FILE).write_text(text + "\n", encoding="utf-8")


def load(folder: Path) -> Model:
    """Load the model that `Model.save` wrote to `folder`.

    Raises:
        FileNotFoundError: a file of the model is missing.
        xgboost.core.XGBoostError: the booster cannot be read.
    """
    schema = Schema(**json.loads((folder / SCHEMA_FILE).read_text(encoding="utf-8")))
    if not (folder / BOOSTER_FILE).exists():
        raise FileNotFoundError(folder / BOOSTER_FILE)
    return Model(xgb.Booster(model_file=folder / BOOSTER_FILE), schema)
