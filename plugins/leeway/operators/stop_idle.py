"""The operator that runs the step `stop_idle`."""

from __future__ import annotations

from typing import Any

from leeway.operators.step import StepOperator


class StopIdleOperator(StepOperator):
    """Find endpoints without a request for some hours; if `delete` is set, delete those of Leeway. Idempotent.

    Endpoints with the tag `leeway:keep`, and endpoints that Leeway did not create, are listed as exempt, and never
    deleted.

    Args:
        hours: hours without a request or a deployment after which an endpoint is idle (templated).
        delete: whether to delete idle endpoints (templated); if not, they are only listed.
        aws_conn_id: connection of AWS; by default the one that LEEWAY_AWS_CONN_ID names, or the worker's own
            credentials.

    Returns:
        `StopIdleResult`: idle (only listed), exempt, unknown (CloudWatch does not say whether they were called),
        used_again (at a second check, they had been called or changed, or CloudWatch did not say), stopped (deleted).
    """

    step = "stop_idle"
    fields = ("hours", "delete")

    def __init__(
        self, *, hours: int | str = 24, delete: bool | str = False, aws_conn_id: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        # The step only calls AWS, so StepOperator's source connection is that of AWS.
        self.hours, self.delete, self.source_conn_id = hours, delete, aws_conn_id
