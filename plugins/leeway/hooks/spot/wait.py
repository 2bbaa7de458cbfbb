"""Wait until spot prices are low enough to start a run that is not urgent, in the triggerer or in a worker.

All decisions depend only on the wait's fields, on EC2's history and on the clock. A wait that was killed and started
again therefore takes the same decisions.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypedDict

from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook

from leeway.hooks.sagemaker.aws_errors import Outage, format_error_line, is_transient
from leeway.hooks.sagemaker.connection import AwsWait
from leeway.hooks.step.hook import Logger
from pipelines.planning.cheap_hours import Criterion, Decision, PlannedRun, decide_start
from pipelines.planning.spot_prices import PriceChange, tabulate_hours

HISTORY = dt.timedelta(days=90)
"""How far EC2's history of prices goes back."""
PRODUCT = "Linux/UNIX"
"""EC2's name of the operating system whose prices are read."""


class StartEvent(TypedDict):
    """The end of a wait for a cheap start, or the result of one check."""

    cause: Literal["start", "wait", "no_history", "error"]
    """start: the run starts. wait: the run has to wait; only `check_start` returns this. no_history: EC2 lists no price
    of the type. error: EC2 refused the request."""
    reason: str
    """The numbers of the decision, or the error, in one line."""
    usd_h: float | None
    """As in `Decision`."""
    expected_usd_h: float | None
    """As in `Decision`."""


@dataclass(frozen=True)
class StartWait(AwsWait):
    """A run that waits for its start. All fields can be written as JSON.

    Args:
        instance_type: instance type of SageMaker, such as ml.m5.large.
        duration_s: expected time of the run, seconds.
        latest_start: latest start, ISO format, UTC.
        criterion: what has to be low: the price, or the risk of an interruption.
        quantile: which quantile of prices in EC2's history predicts the price of a later start, above 0 and below 1.
            Each of these prices is the mean over as many hours as the run takes, from the same hour of the week on.
        check_interval_s: seconds between two requests for the prices.
    """

    instance_type: str
    duration_s: float
    latest_start: str
    criterion: Criterion = "price"
    quantile: float = 0.5
    check_interval_s: float = 900.0

    @property
    def run(self) -> PlannedRun:
        """The run that waits for its start."""
        latest_start = dt.datetime.fromisoformat(self.latest_start)
        return PlannedRun(latest_start, self.duration_s, self.criterion, self.quantile)

    @property
    def ec2_type(self) -> str:
        """EC2's name of the instance type: without the prefix of SageMaker."""
        return self.instance_type.removeprefix("ml.")

    def compute_remaining_s(self) -> float:
        """Return the seconds until the latest start; below 0 after it."""
        return (self.run.latest_start - dt.datetime.now(dt.UTC)).total_seconds()

    async def read_prices(self, now: dt.datetime) -> list[PriceChange]:
        """Return the changes of the spot price of the last 90 days, in all zones of the region.

        Raises:
            ClientError: EC2 refused the request, or the instance type does not exist.
        """
        hook = self.connection.create_hook(partial(AwsBaseHook, client_type="ec2"))
        times = {"StartTime": now - HISTORY, "EndTime": now}
        request = {"InstanceTypes": [self.ec2_type], "ProductDescriptions": [PRODUCT], **times}
        async with await hook.get_async_conn() as ec2:
            pages = ec2.get_paginator("describe_spot_price_history").paginate(**request)
            entries = [entry async for page in pages for entry in page["SpotPriceHistory"]]
        return [_parse_entry(entry) for entry in entries]


async def check_start(wait: StartWait, log: Logger) -> StartEvent:
    """Read the prices once, decide, and log the decision with its numbers.

    Raises:
        Exception: EC2 does not answer. A retry can help.
    """
    now = dt.datetime.now(dt.UTC)
    if now >= wait.run.latest_start:
        return _build_latest_event(wait, log)
    try:
        changes = await wait.read_prices(now)
    except Exception as error:
        if is_transient(error):
            raise
        return {"cause": "error", "reason": format_error_line(error), "usd_h": None, "expected_usd_h": None}
    if not changes:
        reason = f"EC2 lists no spot price of {wait.ec2_type} ({PRODUCT}) in the last {HISTORY.days} days"
        return {"cause": "no_history", "reason": reason, "usd_h": None, "expected_usd_h": None}
    decision = decide_start(tabulate_hours(changes, now), wait.run, now)
    log.info("%s: %s", wait.instance_type, decision.reason)
    return _build_event(decision)


async def wait_for_start(wait: StartWait, log: Logger) -> StartEvent:
    """Check the prices until the run may start, or EC2 has no price or refuses a request; return how the wait ended.

    While EC2 throttles requests or does not answer, they are retried. At the latest start, the run starts even
    if EC2 has not answered.

    Raises:
        Exception: any other error, such as an error of `decide_start`. A retry cannot help.
    """
    outage = Outage(log, "EC2")
    while wait.compute_remaining_s() > 0:
        try:
            event = await check_start(wait, log)
        except Exception as error:
            if not is_transient(error):
                raise
            delay_s = outage.record_failure(error)
        else:
            outage.record_response()
            delay_s = wait.check_interval_s
            if event["cause"] != "wait":
                return event
        await asyncio.sleep(max(0.0, min(delay_s, wait.compute_remaining_s())))
    return _build_latest_event(wait, log)


def _build_latest_event(wait: StartWait, log: Logger) -> StartEvent:
    reason = f"the latest start, {wait.run.latest_start:%Y-%m-%d %H:%M} UTC, is reached: starting"
    log.info("%s: %s", wait.instance_type, reason)
    return {"cause": "start", "reason": reason, "usd_h": None, "expected_usd_h": None}


def _build_event(decision: Decision) -> StartEvent:
    cause: Literal["start", "wait"] = "start" if decision.is_start else "wait"
    numbers = {"usd_h": decision.usd_h, "expected_usd_h": decision.expected_usd_h}
    return {"cause": cause, "reason": decision.reason, **numbers}  # type: ignore[typeddict-item]


def _parse_entry(entry: dict[str, Any]) -> PriceChange:
    return PriceChange(entry["AvailabilityZone"], entry["Timestamp"], float(entry["SpotPrice"]))
