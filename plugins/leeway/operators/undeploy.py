"""The operator that runs the step `undeploy`."""

from __future__ import annotations

from typing import Any

from leeway.operators.step import StepOperator


class UndeployOperator(StepOperator):
    """Delete an endpoint that Leeway created, with its configurations, models and alarms. Idempotent.

    Args:
        model: registered model that the endpoint serves (templated).
        endpoint: name of the endpoint (templated); by default the model's name.
        why: reason, for the event in the model's history (templated).
        aws_conn_id: connection of AWS; by default the one that LEEWAY_AWS_CONN_ID names, or the worker's own
            credentials.

    Returns:
        `UndeployResult`: model_name, endpoint, changed.
    """

    step = "undeploy"
    fields = ("model", "endpoint", "why")

    def __init__(
        self,
        *,
        model: str,
        endpoint: str = "",
        why: str | None = None,
        aws_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        # The step only calls AWS, so StepOperator's source connection is that of AWS.
        self.model, self.endpoint, self.why, self.source_conn_id = model, endpoint, why, aws_conn_id
