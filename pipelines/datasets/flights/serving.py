"""The model for MLflow, saved as code instead of a pickle: MLflow runs this file when it loads the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
from mlflow.pyfunc.model import PythonModel, PythonModelContext

from pipelines.datasets.flights.model import Model, load


class FlightsModel(PythonModel):
    """Scores rows of features with the booster of the artifact `model`."""

    model: Model

    def load_context(self, context: PythonModelContext) -> None:
        """Load the booster."""
        self.model = load(Path(context.artifacts["model"]))

    # MLflow derives no signature from the type hint of a frame; without any hint it warns at every load.
    def predict(
        self, context: PythonModelContext, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> np.ndarray[Any, Any]:
        """Return the probability of a late arrival for each row (shape: rows)."""
        return self.model.score(pd.DataFrame(model_input))


mlflow.models.set_model(FlightsModel())
