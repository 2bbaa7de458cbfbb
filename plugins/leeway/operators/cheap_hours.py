"""The sensor that holds a training until spot instances are cheap, or seldom interrupted."""

from __future__ import annotations

import asyncio
import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowFailException

from leeway.hooks.sagemaker.request_checks import INSTANCE_TYPE
from leeway.hooks.spot.wait import StartWait, wait_for_start
from leeway.triggers.cheap_hours import CheapHoursTrigger
from pipelines.errors import SpecError
from pipelines.planning.cheap_hours import Criterion, compute_latest_start


class CheapHoursSensor(BaseSensorOperator):
    """Delay a training that is not urgent until its spot instances are cheap, but not beyond its latest start.

    The sensor reads the spot prices of the last 90 days from EC2 (DescribeSpotPriceHistory). SageMaker has no history
    of its own prices, so the price of the same instance type in EC2 is used. The training starts if no hour until its
    latest start is expected to be cheaper by 1 %, or less risky (docs/how-to/cheap-hours.md). It starts at once if the
    history is too short for a prediction. If EC2 does not answer, it starts at its latest start. Each decision is
    logged with the present price, the expected price and the latest start.

    Between two checks the task waits in the triggerer and uses no worker. A restart of the triggerer loses nothing.
    Idempotent.

    Args:
        instance_type: instance type of the training, such as ml.m5.large (templated).
        duration_s: expected time of the training, seconds (templated).
        deadline: when the training has to end, ISO 8601 (templated). The latest start is `duration_s` earlier. A time
            without a time zone is in UTC.
        latest_start: latest start, ISO 8601 (templated); instead of `deadline`.
        criterion: what has to be low (templated). `price`: the expected price of the run. `risk`: the share of past
            runs that began in the same hour of the week and in which the price rose by 20 %. Such a rise is a sign that
            instances become scarce.
        quantile: above 0 and below 1 (templated): the price of a later hour is expected to be this quantile of the
            prices in the same hour of past weeks. With a quantile below 0.5, lower prices are expected, so the training
            waits longer, and mostly saves less.
        aws_conn_id: Airflow connection of AWS.
        region_name: AWS region (templated); None: the region of the Airflow connection.
        verify: whether, or with which CA bundle, TLS certificates are checked.
        botocore_config: configuration of the AWS client.
        deferrable: whether to wait in the triggerer; if not, the task waits in the worker.
        poke_interval: seconds between two checks.

    Returns:
        cause (always `start`), reason, usd_h (price of an instance now, US dollars an hour), expected_usd_h (expected
        mean price of a run that starts now); a price that is not known is None.
    """

    template_fields: Sequence[str] = (
        *("instance_type", "duration_s", "deadline", "latest_start", "criterion", "quantile", "region_name"),
    )
    ui_color = "#fbe6c9"

    def __init__(
        self,
        *,
        instance_type: str = "ml.m5.large",
        duration_s: float | str = 3_600,
        deadline: str = "",
        latest_start: str = "",
        criterion: Criterion = "price",
        quantile: float | str = 0.5,
        aws_conn_id: str | None = "aws_default",
        region_name: str | None = None,
        verify: bool | str | None = None,
        botocore_config: dict[str, Any] | None = None,
        deferrable: bool = True,
        poke_interval: timedelta | float = 900,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.instance_type, self.duration_s = instance_type, duration_s
        self.deadline, self.latest_start = deadline, latest_start
        self.criterion, self.quantile = criterion, quantile
        self.aws_conn_id, self.region_name, self.verify = aws_conn_id, region_name, verify
        self.botocore_config, self.deferrable = botocore_config, deferrable

    def build_wait(self) -> StartWait:
        """Return the wait that the arguments describe.

        Raises:
            AirflowFailException: an argument is wrong. A retry cannot help.
        """
        if not INSTANCE_TYPE.fullmatch(self.instance_type):
            raise AirflowFailException(
                f"not an instance type of SageMaker: {self.instance_type!r}; an example is ml.m5.large."
            )
        duration_s, quantile = (_parse_number(name, getattr(self, name)) for name in ("duration_s", "quantile"))
        latest_start = self._compute_latest_start(duration_s)
        wait = StartWait(
            instance_type=self.instance_type, duration_s=duration_s, latest_start=latest_start.isoformat(),
            criterion=self.criterion, quantile=quantile, check_interval_s=self.poke_interval,
            aws_conn_id=self.aws_conn_id, region_name=self.region_name, verify=self.verify,
            botocore_config=self.botocore_config,
        )  # fmt: skip
        try:
            wait.run.check()
        except SpecError as error:
            raise AirflowFailException(str(error)) from None
        return wait

    def execute(self, context: Context) -> Any:
        """Wait for the start, and return why the training starts.

        Raises:
            AirflowFailException: an argument is wrong, the latest start has passed, EC2 refuses the request, or EC2
                has no price of the instance type in the region. A retry cannot help.
        """
        wait = self.build_wait()
        self._require_future(wait, context["ti"].try_number)
        if not self.deferrable:
            return self._check_event(asyncio.run(wait_for_start(wait, self.log)))
        # There is no timeout: the trigger itself ends at the latest start.
        self.defer(trigger=CheapHoursTrigger(**asdict(wait)), method_name="execute_complete")

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return why the training starts.

        Raises:
            AirflowFailException: EC2 refused the request, or has no price of the instance type in the region. A retry
                cannot help.
        """
        return self._check_event(event)

    def _check_event(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return the event if the training starts; otherwise raise an error."""
        if event["cause"] == "start":
            return dict(event)
        hint = {
            "no_history": "Check instance_type and the region, or start without this sensor.",
            "error": "The role needs ec2:DescribeSpotPriceHistory, and the instance type must exist.",
        }[event["cause"]]
        raise AirflowFailException(f"no spot price of {self.instance_type}: {event['reason']}. {hint}")

    def _compute_latest_start(self, duration_s: float) -> dt.datetime:
        moments = {name: getattr(self, name) for name in ("deadline", "latest_start") if getattr(self, name)}
        if len(moments) != 1:
            raise AirflowFailException(f"give {self.task_id} either deadline or latest_start, not both or none.")
        ((name, text),) = moments.items()
        try:
            moment = dt.datetime.fromisoformat(str(text).strip())
        except ValueError:
            raise AirflowFailException(f"{name} must have the form 2026-01-31T12:00:00+00:00, not {text!r}.") from None
        moment = moment.astimezone(dt.UTC) if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
        try:
            return compute_latest_start(moment, duration_s) if name == "deadline" else moment
        except OverflowError:
            raise AirflowFailException(f"duration_s must be at most 28 days, not {duration_s:g}.") from None

    def _require_future(self, wait: StartWait, try_number: int) -> None:
        """Refuse a latest start in the past on the first try of the task.

        A later try is not refused: the first one may have waited until the latest start.
        """
        late_s = -wait.compute_remaining_s()
        if late_s > 0 and try_number <= 1:
            start_text = f"{wait.run.latest_start:%Y-%m-%d %H:%M} UTC"
            hint = "Give a later deadline, or a shorter duration_s." if self.deadline else "Give a later latest_start."
            raise AirflowFailException(
                f"the latest start of {self.task_id}, {start_text}, passed {late_s / 60:.0f} min ago. {hint}"
            )


def _parse_number(name: str, value: Any) -> float:
    """Return `value` as a number. Templates render to strings."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise AirflowFailException(f"{name} must be a number: it is {value!r}.")
    return number
