"""Early stopping by the median rule, as SageMaker documents it for TrainingJobEarlyStoppingType Auto."""

import statistics
from collections.abc import Sequence

from drydock.tuning.plan import Objective

Series = Sequence[float | None]
"""Values of the objective that a trial has logged, oldest first; None for one that is not a finite number."""


def is_worse_than_median(
    series: Series, first_step: int, completed_series: Sequence[Series], objective: Objective
) -> bool:
    """Return whether a trial must be stopped.

    At each step, the value of the trial is compared with the median of the averages that the completed trials had up to
    the same step. A step is one value of the objective in the log; a value that is not finite is ignored.
    Source: Amazon SageMaker Developer Guide, "Stop Training Jobs Early".

    Args:
        series: The values of the trial so far.
        first_step: Number, from 1, of the first step that was not checked before.
        completed_series: The values of the trials that have completed.
        objective: The objective.
    """
    for step in range(first_step, len(series) + 1):
        value = series[step - 1]
        averages = [average for other in completed_series if (average := _average(other[:step])) is not None]
        if value is not None and averages and objective.is_better(statistics.median(averages), value):
            return True
    return False


def _average(series: Series) -> float | None:
    values = [value for value in series if value is not None]
    return statistics.fmean(values) if values else None
