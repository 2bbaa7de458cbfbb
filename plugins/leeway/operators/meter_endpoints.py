"""The operator that runs the step `meter_endpoints`."""

from __future__ import annotations

from typing import Any

from leeway.operators.step import StepOperator


class MeterEndpointsOperator(StepOperator):
    """Write the costs of Leeway's endpoints since their last metering, and what their instances used, into the lake.

    No hour is charged twice. A run charges all hours since the last one, so a missed run loses nothing.

    Args:
        aws_conn_id: connection of AWS; by default the one that LEEWAY_AWS_CONN_ID names, or the worker's own
            credentials.

    Returns:
        `MeterEndpointsResult`: rows, endpoints, instance_h, busy_s, cost_usd, saved_usd.
    """

    step = "meter_endpoints"

    def __init__(self, *, aws_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # The step only calls AWS, so StepOperator's source connection is that of AWS.
        self.source_conn_id = aws_conn_id
