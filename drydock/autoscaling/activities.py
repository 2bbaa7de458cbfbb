"""The scaling activities that DescribeScalingActivities shows, newest first."""

import time
import uuid
from collections import deque
from dataclasses import dataclass, field

MAX_ACTIVITIES = 1000


@dataclass
class ScalingActivity:
    """One change of the number of instances of a variant.

    Attributes:
        resource_id: The variant, as endpoint/NAME/variant/NAME.
        count: How many instances it should have then.
        cause: Why.
        status: StatusCode.
        message: StatusMessage.
        started_at: When it began, seconds of the epoch.
        ended_at: When it ended; None before that.
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
        """Set how the change ended: why it failed, or None if it succeeded."""
        self.ended_at = time.time()
        self.status = "Failed" if failure else "Successful"
        success = (
            f"Successfully set desired instance count to {self.count}. Change successfully fulfilled by sagemaker."
        )
        self.message = (
            f"Failed to set desired instance count to {self.count}. Reason: {failure}" if failure else success
        )

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
    """Return an empty list of activities. The oldest ones are dropped when there are too many."""
    return deque(maxlen=MAX_ACTIVITIES)
