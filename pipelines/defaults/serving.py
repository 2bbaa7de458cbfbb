"""Define the model for MLflow as code, without a pickle: MLflow runs this file when it loads the model."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
from mlflow.pyfunc.model import PythonModel, PythonModelContext


class PackagedModel(PythonModel):
    """Score rows of features with the trained model of the artifact `model`."""

    model: Any

    def load_context(self, context: PythonModelContext) -> None:
        """Load the trained model with the module that the configuration of the MLflow model names (`module`)."""
        self.model = import_module(context.model_config["module"]).load(Path(context.artifacts["model"]))

    # MLflow derives no signature from this type hint. But without a hint, it warns at every load.
    def predict(
        self, context: PythonModelContext, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> np.ndarray[Any, Any] | pd.DataFrame:
        """Return the score of each row: see `score` of the trained model."""
        return self.model.score(pd.DataFrame(model_input))  # type: ignore[no-any-return]


mlflow.models.set_model(PackagedModel())
