"""The sensor that runs the step `drift`."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import Asset, BaseSensorOperator, PokeReturnValue
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowSensorTimeout, AirflowSkipException

from leeway.hooks.step import metrics
from leeway.links.drift import DriftLink
from leeway.operators.ingest import PARTITION
from leeway.operators.step import IN_BACKFILL, StepOperator, drop_empty_field

EXTRA_FIELDS = ("partition", "model_name", "version", "reasons", "drifted_columns", "page")
"""Fields of the result that go into the event's extra, besides `as_of` and `reason`."""


class DriftSensor(StepOperator, BaseSensorOperator):
    """Wait for the profiles of a window, and decide whether the data that the champion scored have drifted. Idempotent.

    The asset gets an event in two cases. First, there is drift for which `retrain_on` (params.yaml, section drift)
    requests a training. Second, `max_age_days` (params.yaml, section guard, key policy) is set, and the last training
    is at least this number of days old. If that training used data of fewer days, this smaller number is the limit.
    DAGs that are scheduled on the asset retrain. The event's extra has `as_of`, `reason` and `drifted_columns`.

    In all other cases the task is skipped, and the log has the reason. One such case is the decision `undecided`: there
    is no champion, or there are too few data. In a backfill the task is always skipped, unless `retrain_in_backfill`
    allows a retraining. The task's button "Drift" opens the page of the findings.

    Between two checks the task waits in the triggerer and uses no worker. If profiles are still missing after
    `timeout`, the task fails, and its error names the days.

    Args:
        dataset: dataset of the model (templated); by default the one in the model's parameters.
        model: registered model (templated).
        partition: last day of the window, YYYY-MM-DD (templated); by default the run's partition.
        version: number of the model's version (templated); by default the version that scores the day.
        asset: gets the event. An asset that is only in `outlets` would get an event without `extra`.
        retrain_in_backfill: whether drift in a backfill starts a retraining (templated); if empty, section `drift` of
            params.yaml decides.
        backfill: whether a backfill runs the task (templated); by default, whether a backfill started the DAG run.
        deferrable: whether to wait in the triggerer; if not, `mode` decides how the sensor waits.
        poke_interval: seconds between two checks; each check starts a process.
        timeout: maximum time in seconds from the first check to the last.

    Returns:
        `DriftResult`: table, partition, model_name, version, outcome, reasons, drifted_columns, as_of, retrain, page,
        rows, missing, overdue_reason, changed.
    """

    step = "drift"
    fields = ("dataset", "model", "partition", "version", "retrain_in_backfill", "backfill")
    operator_extra_links = (DriftLink(),)

    def __init__(
        self,
        *,
        dataset: str = "",
        model: str,
        partition: str = PARTITION,
        version: str | None = None,
        asset: Asset | None = None,
        retrain_in_backfill: bool | str = "",
        backfill: bool | str = IN_BACKFILL,
        deferrable: bool = True,
        poke_interval: timedelta | float = 300,
        timeout: timedelta | float = 6 * 3_600,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, timeout=timeout, **kwargs)
        self.dataset, self.model = dataset, model
        self.partition, self.version = partition, version
        self.retrain_in_backfill, self.backfill = retrain_in_backfill, backfill
        self.asset, self.deferrable = asset, deferrable
        if asset and asset not in self.outlets:
            self.outlets = [*self.outlets, asset]

    def build_spec(self) -> dict[str, Any]:
        """Return the step's spec, without `retrain_in_backfill` if it is empty: then params.yaml decides."""
        return drop_empty_field(super().build_spec(), "retrain_in_backfill")

    def poke(self, context: Context) -> PokeReturnValue:
        """Run the step once; the sensor is done if no profile is missing."""
        result = self.run_step(self.step, self.build_spec())
        return PokeReturnValue(not result["missing"], result)

    def execute(self, context: Context) -> Any:
        """Wait for the profiles, and return the decision if it requests a retraining.

        Raises:
            AirflowSkipException: no retraining is requested. The decision is nevertheless pushed as XCom.
            AirflowSensorTimeout: profiles are still missing.
        """
        if self.deferrable:
            return self.check_again(context, event=None, since=time.time())
        return self._decide(context, BaseSensorOperator.execute(self, context))

    def check_again(self, context: Context, event: Any, since: float) -> Any:
        """Return the decision, or wait for the next check; raise what `execute` raises.

        Args:
            context: context of the task.
            event: event of the trigger; not used.
            since: time of the first check, seconds since 1970.
        """
        result = self.run_step(self.step, self.build_spec())
        if not result["missing"]:
            return self._decide(context, result)
        remaining_s = since + self.timeout - time.time()
        if remaining_s <= 0:
            missing_days = ", ".join(result["missing"])
            problem = f"no profile of {missing_days} by version {result['version']} after {self.timeout:.0f} s"
            raise AirflowSensorTimeout(f"{problem}: check that these days were scored.")
        delay = timedelta(seconds=min(self.poke_interval, remaining_s))
        self.log.info("%s: checking again in %s", result["reasons"][0], delay)
        self.defer(trigger=TimeDeltaTrigger(delay), method_name="check_again", kwargs={"since": since})

    def _decide(self, context: Context, result: dict[str, Any]) -> dict[str, Any]:
        """Emit the event and return the decision if it requests a retraining; otherwise skip the task."""
        metrics.count_drift_decision(result, self.model)
        is_drift, overdue_reason = result["outcome"] == "drift", result.get("overdue_reason", "")
        reason = "; ".join(
            [*(result["reasons"] if is_drift or not overdue_reason else ()), *filter(None, [overdue_reason])]
        )
        if not result["retrain"]:
            context["ti"].xcom_push("return_value", result)
            outcome = "drift, which requests no training here" if is_drift else result["outcome"]
            raise AirflowSkipException(f"{outcome}: {reason}")
        self.log.warning("a retraining of %s is requested: %s", self.model, reason)
        if self.asset:
            fields = {name: result[name] for name in EXTRA_FIELDS}
            context["outlet_events"][self.asset].extra = {"as_of": result["as_of"], "reason": reason, **fields}
        return result
