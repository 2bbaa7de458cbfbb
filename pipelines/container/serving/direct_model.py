"""Load the model of a package without MLflow, whose import takes longer than the rest of a server's start."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

MODEL_CODE = "pipelines/defaults/serving.py"
"""End of the path of the code with which MLflow would load the package: `load_model` does the same as that code."""
DEFAULT_MODULE = "pipelines.defaults.model"
"""The module of models that only need xgboost's booster."""
PANDAS_TYPES = {"double": "float64", "string": "object"}
"""Maps MLflow's types of features to pandas' types. Only the types whose values MLflow's check leaves as they are."""


class FeatureType(NamedTuple):
    """Type of a feature, with those members of MLflow's `DataType` that servers use."""

    name: str

    def to_pandas(self) -> str:
        """Return the name of pandas' type."""
        return PANDAS_TYPES[self.name]


class Feature(NamedTuple):
    """A feature of the model, with those members of MLflow's `ColSpec` that servers use."""

    name: str
    type: FeatureType


@dataclass(frozen=True)
class DirectModel:
    """A trained model, with those members of MLflow's `PyFuncModel` that servers use.

    `metadata.signature` is None, because MLflow need not check the types.
    """

    model: Any
    """The trained model, as the module that the package names has loaded it."""
    features: Sequence[Feature]
    """The features, in the order of the model's signature."""
    metadata: Any
    """An object with two members: `signature`, and `metadata`, the values that were stored with the package."""

    def predict(self, rows: Any) -> Any:
        """Return the score of each row of a frame with the features."""
        return self.model.score(rows)

    def unwrap_python_model(self) -> DirectModel:
        """Return the object whose member `model` is the trained model."""
        return self


def load_model(package: Path) -> DirectModel | None:
    """Load the model of a package; None if only MLflow can load it.

    Only MLflow can load a package that another file than `MODEL_CODE` loads, that has no signature with names, or that
    has a feature whose type is not in `PANDAS_TYPES`: MLflow has to check the values of such a feature. The folder
    `code` of the package must be on Python's path.

    Args:
        package: folder of the package.
    """
    import yaml  # a requirement of MLflow

    content = yaml.safe_load((package / "MLmodel").read_text(encoding="utf-8"))
    flavor, features = content["flavors"].get("python_function", {}), _read_features(content)
    if not features or not Path(flavor.get("model_code_path") or "").as_posix().endswith(f"/{MODEL_CODE}"):
        return None
    module_name = flavor["config"]["module"]
    if module_name == DEFAULT_MODULE:
        _import_xgboost()
    trained_model = import_module(module_name).load(package / flavor["artifacts"]["model"]["path"])
    return DirectModel(trained_model, features, SimpleNamespace(signature=None, metadata=content.get("metadata")))


def _read_features(content: Mapping[str, Any]) -> list[Feature]:
    """Return the features of the signature; empty if only MLflow can load the model, as `load_model` says."""
    inputs = json.loads((content.get("signature") or {}).get("inputs") or "[]")
    if not all(column.get("type") in PANDAS_TYPES and "name" in column for column in inputs):
        return []
    return [Feature(column["name"], FeatureType(column["type"])) for column in inputs]


def _import_xgboost() -> None:
    """Import xgboost without scikit-learn, whose import takes four times as long as the rest of xgboost.

    A booster does not need scikit-learn. xgboost's own classes for scikit-learn, such as XGBClassifier, then refuse to
    work in this process. If the process has imported either library, nothing is changed.
    """
    if sys.modules.keys().isdisjoint({"sklearn", "xgboost"}):
        sys.modules["sklearn"] = None  # type: ignore[assignment]  # so `import sklearn` raises ImportError
        try:
            import_module("xgboost")
        finally:
            del sys.modules["sklearn"]
