"""Define what is known about a job before it starts: its data, why its type was chosen, its predicted time and cost."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

PREDICTIONS = ("predicted_s", "predicted_usd", "uncorrected_s", "uncorrected_usd")
"""Fields of a job with the prediction of its training time and cost: corrected by past jobs, and not corrected."""


class Prediction(BaseModel):
    """The size of the data, and the choice of an instance type with the predicted time and cost.

    The fields of the choice and of the prediction are null if the task named the type itself.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    input_bytes: int | None = Field(None, ge=0, lt=2**63)
    """Bytes of the objects in the channels of a training job when it was created; null if they are not known."""
    instance_choice: str | None = None
    """Why the instance type was chosen; null if the task named it itself."""
    predicted_s: float | None = Field(None, gt=0, allow_inf_nan=False)
    """Predicted training time, seconds."""
    predicted_usd: float | None = Field(None, ge=0, allow_inf_nan=False)
    """Predicted cost, USD."""
    uncorrected_s: float | None = Field(None, gt=0, allow_inf_nan=False)
    """Predicted training time before past jobs corrected it, without work that interruptions repeat, seconds."""
    uncorrected_usd: float | None = Field(None, ge=0, allow_inf_nan=False)
    """Predicted cost before past jobs corrected it, USD."""
    prediction_basis: str | None = None
    """Origin of the prediction: `formula`; past jobs on the same machines, without (`measured`) or with the size of
    their data (`sized`); or past jobs on other machines (`scaled`)."""
