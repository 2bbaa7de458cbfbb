"""Define the policy of the guards: key `policy` in the section `guard` of params.yaml."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pipelines.parameters import Parameters

Count = Annotated[int, Field(ge=1)]
Days = Annotated[int, Field(ge=0, le=3_660)]


class Policy(Parameters):
    """Bounds of the guards. An unknown key is refused, since otherwise a misspelt bound would have no effect."""

    cooldown_days: Days = 14
    """Smallest number of days between the as_of of a training with the trigger `drift` and that of any other training,
    except backfills. 0: no pause."""
    per_week: Count = 1
    """Largest number of trainings within seven days, by their as_of. Trainings that a person or the schedule started
    count, too; backfills do not."""
    breaker_after: Count = 3
    """Number of trainings in a row with the trigger `drift` that did not pass the gate, after which the breaker holds
    back further ones."""
    breaker_days: Days = 28
    """Number of days from the last of these trainings until the breaker allows one training again. 0: the breaker waits
    for `loop reset`. Normally this is the length of the holdout, so that the new holdout has only days on which no
    earlier candidate was judged."""
    max_age_days: Days = 0
    """Number of days after the as_of of the last training at which the model is trained again, even without drift; if
    the last training used data of fewer days than this, that smaller number is used. If this is set, a run of the
    schedule trains only if the last training is at least `max_age_days` old. 0: no limit."""
    in_flight_h: Annotated[float, Field(gt=0, le=8_784, allow_inf_nan=False)] = 96.0
    """Number of hours after which a training without a recorded end is treated as dead. Choose more than an approval
    may take."""
    quality_days: Days | None = None
    """Number of days before `as_of` whose validations the guard examines. Empty: the days that the drift step compares
    (`window_days` in section drift of params.yaml). A number from 1 to `window_days` has the same effect as empty.
    0: validations are not examined."""
