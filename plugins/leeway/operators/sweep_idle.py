"""The operator that runs the step `sweep_idle`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leeway.operators.step import StepOperator


class IdleSweepOperator(StepOperator):
    """Find what runs in SageMaker although nobody uses it, report its cost, and stop it if its kind is in `stop`.

    By default nothing is stopped. Resources with the tag `leeway:keep`, endpoints that Leeway did not create, and
    resources without a metric of their use are never stopped; they are reported, with their cost. Before each stop, the
    task checks again whether the resource is still idle. The log has a line for each resource, with its cost of a month
    (docs/how-to/stop-what-is-idle.md). Idempotent.

    Args:
        kinds: kinds to check (templated): `notebook` (notebook instances), `app` (Studio apps), `endpoint` (all
            endpoints), `processing` (processing jobs). A list, or a text with commas.
        idle_minutes: minutes without a use after which a resource is idle; at least 1 (templated).
        cpu_percent: CPU utilization from which a notebook instance or a processing job is treated as used, percent of
            one core (templated).
        stop: kinds whose idle resources are stopped (templated). A notebook instance keeps its disk. A Studio app keeps
            its files, and loses its memory. An endpoint that Leeway created is deleted. A processing job loses what it
            did.
        aws_conn_id: connection of AWS; by default the one that LEEWAY_AWS_CONN_ID names, or the worker's own
            credentials.

    Returns:
        `SweepIdleResult`: idle (only listed), exempt, unknown (a metric of the use is missing),
        used_again (used or changed at a second check, or not known), stopped, usd_month, stopped_usd_month.
    """

    step = "sweep_idle"
    fields = ("kinds", "idle_minutes", "cpu_percent", "stop")

    def __init__(
        self,
        *,
        kinds: Sequence[str] | str = ("notebook", "app", "endpoint", "processing"),
        idle_minutes: int | str = 1_440,
        cpu_percent: float | str = 5.0,
        stop: Sequence[str] | str = (),
        aws_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kinds, self.idle_minutes, self.cpu_percent, self.stop = kinds, idle_minutes, cpu_percent, stop
        # The step only calls AWS, so StepOperator's source connection is that of AWS.
        self.source_conn_id = aws_conn_id
