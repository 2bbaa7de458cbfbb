"""The scaling activities that DescribeScalingActivities shows, newest first. A restart of the server deletes them."""

import time
import uuid
from collections import deque
from dataclasses import dataclass, field

MAX_ACTIVITIES = 1000
"""Largest number of activities that are in memory for one account and region."""


@dataclass
class ScalingActivity:
    """One change of the number of instances of a variant.

    Attributes:
        resource_id: The variant, as endpoint/NAME/variant/NAME.
        count: Number of instances that the variant should have after the change.
        cause: Why the number is changed.
        status: StatusCode.
        message: StatusMessage.
        started_at: When the change began, seconds since 1970.
        ended_at: When the change ended, seconds since 1970; None before that.
        id: ActivityId.
    """

    resource_id: str
    count: int
    cause: str
    status: str = "InProgress"
    message: str = ""
    started_at: float = field(default_factory=time.time)
    ended_at: float | None = None
    id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def end(self, failure: str | None) -> None:
        """Set how the change ended.

        Args:
            failure: Why the change failed; None if it succeeded.
        """
        self.ended_at = time.time()
        if failure:
            self.status = "Failed"
            self.message = f"Failed to set desired instance count to {self.count}. Reason: {failure}"
            return
        self.status = "Successful"
        result = "Change successfully fulfilled by sagemaker."
        self.message = f"Successfully set desired instance count to {self.count}. {result}"

    def describe(self) -> dict[str, object]:
        """Return the activity as DescribeScalingActivities shows it."""
        description = {
            "ActivityId": self.id,
            "ServiceNamespace": "sagemaker",
            "ResourceId": self.resource_id,
            "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
            "Description": f"Setting desired instance count to {self.count}.",
            "Cause": self.cause,
            "StartTime": self.started_at,
            "EndTime": self.ended_at,
            "StatusCode": self.status,
            "StatusMessage": self.message,
        }
        return {key: value for key, value in description.items() if value is not None}


def create_activities() -> "deque[ScalingActivity]":
    """Return an empty list of activities. Add each with `appendleft`: a full list then drops its oldest activity."""
    return deque(maxlen=MAX_ACTIVITIES)
