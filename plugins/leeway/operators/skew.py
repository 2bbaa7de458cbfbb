"""The operator that runs the step `skew`."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowFailException

from leeway.hooks.step import metrics
from leeway.operators.ingest import PARTITION
from leeway.operators.step import StepOperator

EXTRA_FIELDS = ("partition", "model_name", "versions", "endpoint", "reason", "different_shares")
"""Fields of the result that go into the event's extra."""


class SkewOperator(StepOperator):
    """Compare the features and scores of requests with those computed from the lake for the same rows. Idempotent.

    Section `skew` of params.yaml sets the share of rows that may differ, and what to do on skew. With
    `on_skew: report`, the default, the task succeeds and the asset gets an event. With `fail`, the task fails without a
    retry, and there is no event, because Airflow emits none for a task that fails. With too few rows, the task
    succeeds, and the outcome is `undecided`.

    Skew is an error of serving. It starts no training, because a new model would get the same requests.

    Args:
        dataset: dataset of the rows (templated); by default the one in the model's parameters.
        model: registered model (templated).
        requests: folder that `serve --record` wrote (templated).
        rows: file of rows that `CollectOperator` returns (templated), instead of `requests`.
        version: version that scored `rows`, as `CollectOperator` returns it (templated).
        endpoint: name of the endpoint or server (templated). A run replaces only the results of this name.
        partition: day, hour or month to compare (templated), as for `IngestOperator`; by default the run's partition.
        asset: gets an event on skew. An asset that is only in `outlets` would get an event without skew, too.

    Returns:
        `SkewResult`: table, partition, model_name, versions, endpoint, outcome, rows, unmatched, different_shares,
        reason, fail, changed.
    """

    step = "skew"
    fields = ("dataset", "model", "requests", "rows", "version", "endpoint", "partition")

    def __init__(
        self,
        *,
        dataset: str = "",
        model: str,
        requests: str | None = None,
        rows: str | None = None,
        version: str | None = None,
        endpoint: str | None = None,
        partition: str = PARTITION,
        asset: Asset | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset, self.model, self.partition = dataset, model, partition
        self.requests, self.rows, self.version, self.endpoint = requests, rows, version, endpoint
        self.asset = asset
        if asset and asset not in self.outlets:
            self.outlets = [*self.outlets, asset]

    def execute(self, context: Context) -> Any:
        """Run the step and return its Result.

        Raises:
            AirflowFailException: a feature or the score differs in too many rows, and `on_skew` is `fail`. The result
                is pushed as XCom before.
        """
        result = super().execute(context)
        metrics.count_skew_result(result, self.model)
        is_skew = result["outcome"] == "skew"
        text = f"requests of {result['partition']} differ from the lake: {result['reason']}" if is_skew else ""
        if is_skew and result["fail"]:
            context["ti"].xcom_push("return_value", result)
            raise AirflowFailException(text)
        if is_skew:
            self.log.warning("%s", text)
        self._prepare_event(context, result, is_skew)
        return result

    def _prepare_event(self, context: Context, result: dict[str, Any], is_skew: bool) -> None:
        """Prepare the event that Airflow emits when the task succeeds; without skew, there is none."""
        if not self.asset:
            return
        if is_skew:
            context["outlet_events"][self.asset].extra = {name: result[name] for name in EXTRA_FIELDS}
            return
        task = context["ti"].task
        task.outlets = [outlet for outlet in task.outlets if outlet != self.asset]
