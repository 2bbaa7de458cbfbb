"""DriftSensor."""

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
from leeway.operators.step import IN_BACKFILL, StepOperator, drop_unset

TOLD = ("partition", "model_name", "version", "reasons", "worst", "page")
"""Fields of the result that go into the event's extra, besides `as_of` and `reason`."""


class DriftSensor(StepOperator, BaseSensorOperator):
    """Waits for the profiles of a window, and decides whether what the champion scored has drifted. Idempotent.

    On drift the asset has an event with `as_of`, `reason` and `worst` in its extra: what listens to it retrains. No
    drift is a skip, and so is "undecided" (too few rows, or a champion that is younger than a window); the log says
    which. In a backfill drift is a skip too, unless it may retrain. The task's button "Drift" leads to the page of what
    was seen.

    Between two looks it waits in the triggerer and holds no worker; it fails where the profiles are not there after
    `timeout`, and says which are missing.

    Args:
        dataset: dataset of the model (templated).
        model_name: registered model (templated).
        partition: last day of the window, YYYY-MM-DD (templated); the run's partition where it is not given.
        version: version's number (templated); the one that scores the day where it is not given.
        asset: gets the event. Only in `outlets` it would get one always.
        in_backfill: whether drift that a backfill sees retrains (templated); empty: as params.yaml says, section drift.
        backfill: whether a backfill asks (templated); told by the run where it is not given.
        deferrable: whether it waits in the triggerer; else as `mode` says, like any sensor.
        poke_interval: between two looks, seconds; each starts a process.
        timeout: of all looks together, seconds.

    Returns:
        `DriftResult`: table, partition, model_name, version, outcome, reasons, worst, as_of, retrain, page, rows,
        missing, changed.
    """

    step = "drift"
    fields = ("dataset", "model_name", "partition", "version", "in_backfill", "backfill")
    operator_extra_links = (DriftLink(),)

    def __init__(
        self,
        *,
        dataset: str,
        model_name: str,
        partition: str = PARTITION,
        version: str | None = None,
        asset: Asset | None = None,
        in_backfill: bool | str = "",
        backfill: bool | str = IN_BACKFILL,
        deferrable: bool = True,
        poke_interval: timedelta | float = 300,
        timeout: timedelta | float = 6 * 3_600,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, timeout=timeout, **kwargs)
        self.dataset, self.model_name = dataset, model_name
        self.partition, self.version = partition, version
        self.in_backfill, self.backfill = in_backfill, backfill
        self.asset, self.deferrable = asset, deferrable
        if asset and asset not in self.outlets:
            self.outlets = [*self.outlets, asset]

    def spec(self) -> dict[str, Any]:
        """The step's spec; `in_backfill` is left to params.yaml where nothing was said."""
        return drop_unset(super().spec(), "in_backfill")

    def poke(self, context: Context) -> PokeReturnValue:
        """Looks once; done where no profile is missing."""
        found = self.run_step(self.step, self.spec())
        return PokeReturnValue(not found["missing"], found)

    def execute(self, context: Context) -> Any:
        """The decision, where it is drift that retrains.

        Raises:
            AirflowSkipException: it is none. The Result is the task's XCom all the same.
            AirflowSensorTimeout: profiles are still missing.
        """
        if self.deferrable:
            return self.look_again(context, None, time.time())
        return self._decided(context, BaseSensorOperator.execute(self, context))

    def look_again(self, context: Context, event: Any, since: float) -> Any:
        """The decision, or one more wait. Raises as `execute` does."""
        found = self.run_step(self.step, self.spec())
        if not found["missing"]:
            return self._decided(context, found)
        left = since + self.timeout - time.time()
        if left <= 0:
            missing = ", ".join(found["missing"])
            told = f"no profile of {missing} by version {found['version']} after {self.timeout:.0f} s"
            raise AirflowSensorTimeout(f"{told}: have these days been scored?")
        wait = timedelta(seconds=min(self.poke_interval, left))
        self.log.info("%s: looking again in %s", found["reasons"][0], wait)
        self.defer(trigger=TimeDeltaTrigger(wait), method_name="look_again", kwargs={"since": since})

    def _decided(self, context: Context, result: dict[str, Any]) -> dict[str, Any]:
        metrics.count_drift_decision(result, self.model_name)
        reason = "; ".join(result["reasons"])
        if not result["retrain"]:
            context["ti"].xcom_push("return_value", result)
            seen = "drift, but this backfill may not retrain: " if result["outcome"] == "drift" else ""
            raise AirflowSkipException(f"{seen or result['outcome'] + ': '}{reason}")
        self.log.warning("%s has drifted: %s", self.model_name, reason)
        if self.asset:
            told = {name: result[name] for name in TOLD}
            context["outlet_events"][self.asset].extra = {"as_of": result["as_of"], "reason": reason, **told}
        return result
