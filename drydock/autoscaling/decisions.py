"""Decide how many instances a variant should have, from a metric and its target, or from an alarm and its steps."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

SCALE_OUT_PERIODS, SCALE_IN_PERIODS = 3, 15
"""Number of periods in a row in which the metric must be above the target before instances are added, and below
`SCALE_IN_SHARE` of the target before some are removed. The alarms that AWS creates have the same numbers."""
SCALE_IN_SHARE = 0.9
"""Share of the target below which the metric must be before instances are removed."""


class TargetTracking:
    """The last values of the metric of one target tracking policy.

    Args:
        target: TargetValue.
    """

    def __init__(self, target: float) -> None:
        self._target = target
        self._values: deque[float] = deque(maxlen=SCALE_IN_PERIODS)

    def add(self, value: float) -> None:
        """Add the value of one period."""
        self._values.append(value)

    def clear(self) -> None:
        """Remove all values. Call this when the number of instances has changed."""
        self._values.clear()

    def decide(self, count: int) -> int:
        """Return how many instances there should be.

        The number changes only if the values were above or below the target for enough periods in a row.

        Args:
            count: Number of instances now.
        """
        values = list(self._values)
        last_values = values[-SCALE_OUT_PERIODS:]
        if len(last_values) == SCALE_OUT_PERIODS and min(last_values) > self._target:
            return max(math.ceil(count * values[-1] / self._target), count + 1)
        if len(values) == SCALE_IN_PERIODS and max(values) < SCALE_IN_SHARE * self._target:
            return min(math.ceil(count * max(values) / self._target), count)
        return count


def apply_steps(policy: Mapping[str, Any], count: int, breach: float) -> int:
    """Return how many instances a step scaling policy wants after its alarm. The number can be negative.

    If no step contains `breach`, the number does not change.

    Args:
        policy: StepScalingPolicyConfiguration.
        count: Number of instances now.
        breach: Value of the metric minus the alarm's threshold.
    """
    adjustment = _find_adjustment(policy.get("StepAdjustments", ()), breach)
    if adjustment is None:
        return count
    kind = policy.get("AdjustmentType", "ChangeInCapacity")
    if kind == "ExactCapacity":
        return adjustment
    if kind == "PercentChangeInCapacity" and adjustment:
        change = count * adjustment / 100
        size = max(math.floor(abs(change)), 1, int(policy.get("MinAdjustmentMagnitude", 1)))
        return count + (size if adjustment > 0 else -size)
    return count + adjustment


def _find_adjustment(steps: Sequence[Mapping[str, Any]], breach: float) -> int | None:
    """Return the adjustment of the step whose interval contains the breach; None if there is no such step.

    As on AWS, a step contains its bound that is nearer to the threshold: above the threshold the lower one, below it
    the upper one. A breach of 0 is in a step that begins or ends at the threshold.
    """
    for step in steps:
        low, high = step.get("MetricIntervalLowerBound"), step.get("MetricIntervalUpperBound")
        low, high = -math.inf if low is None else low, math.inf if high is None else high
        if (breach >= 0 and low <= breach < high) or (breach <= 0 and low < breach <= high):
            return int(step["ScalingAdjustment"])
    return None
