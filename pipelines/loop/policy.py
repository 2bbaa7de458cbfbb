"""The policy of the guards: key `policy` in the section `guard` of params.yaml."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pipelines.parameters import Parameters

Count = Annotated[int, Field(ge=1)]
Days = Annotated[int, Field(ge=0, le=3_660)]


class Policy(Parameters):
    """Bounds of the guards. An unknown key is refused, since otherwise a misspelt bound would have no effect."""

    cooldown_days: Days = 14
    """Smallest distance (days) between the as_of of a training that drift starts and that of any other; 0: no pause."""
    per_week: Count = 1
    """Largest number of trainings, whatever started them, whose as_of may lie within the same seven days."""
    breaker_after: Count = 3
    """The loop stops after this number of trainings in a row that drift started and that did not pass the gate."""
    breaker_days: Days = 28
    """Days after the last of them until the loop tries one training again; 0: it waits for `loop reset`. Normally the
    length of the holdout: then no earlier candidate was judged on the days of the new holdout."""
    max_age_days: Days = 0
    """Days after the last training at which the model is trained again, also without drift; 0: only drift, a person or
    the schedule trains it. If it is set, a run of the schedule trains only if the last training is that old."""
    in_flight_h: Annotated[float, Field(gt=0, le=8_784, allow_inf_nan=False)] = 96.0
    """Hours after which a training without a recorded end counts as dead. Set it longer than an approval may take."""
    quality_days: Days | None = None
    """Number of days before `as_of` whose validations must have passed; empty: those of the window of the
    drift step, `window_days` in section drift of params.yaml. A smaller number counts as `window_days`; 0 turns this
    guard off."""
