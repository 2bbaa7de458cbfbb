"""The model as MLflow serves it, saved as code: no pickle. MLflow runs this file when it loads the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
from mlflow.pyfunc.model import PythonModel, PythonModelContext

from pipelines.datasets.flights.model import Model, load


class FlightsModel(PythonModel):
    """Scores feature rows with the booster of the artifact `model`."""

    model: Model

    def load_context(self, context: PythonModelContext) -> None:
        """The booster is in memory."""
        self.model = load(Path(context.artifacts["model"]))

    # MLflow takes the hint of a frame for no signature, and converts nothing; without any it warns at every load.
    def predict(
        self, context: PythonModelContext, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> np.ndarray[Any, Any]:
        """Probability of a late arrival for each row (shape: rows)."""
        return self.model.score(pd.DataFrame(model_input))


mlflow.models.set_model(FlightsModel())
