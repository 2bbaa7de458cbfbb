"""What the guards hold to: a section of params.yaml."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1)]
Days = Annotated[int, Field(ge=0, le=3_660)]


class Policy(BaseModel):
    """What the guards hold to. What it does not know is refused: a misspelt bound would guard nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    cooldown_days: Days = 14
    """Days between the moment of one training and the next that drift may start; 0: none."""
    per_week: Count = 1
    """Most trainings, whoever started them, whose moments may lie within seven days."""
    breaker_after: Count = 3
    """So many trainings in a row that drift started and that did not pass the gate stop the loop."""
    in_flight_h: Annotated[float, Field(gt=0, le=8_784, allow_inf_nan=False)] = 96.0
    """Hours after which a training that never told its end counts as dead; longer than an approval may take."""
    quality_days: Days = 7
    """Days before `as_of` whose validations are looked at: the window in which drift was seen; 0: none."""
