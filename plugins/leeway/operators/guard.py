"""The operator that runs the step `guard`."""

from __future__ import annotations

from typing import Any

from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowFailException

from leeway.operators.step import StepOperator, skip_if_nothing_done
from leeway.training_request import TrainingRequest, read_training_request


class GuardOperator(StepOperator):
    """Decide whether a training may start, or hold it back, and record the decision as an event.

    Only a training that drift or the schedule starts can be held back: then this task and the tasks after it are
    skipped, and the log has the reason. If a person has to act (the drifted data did not pass validation, or several
    trainings did not pass the gate), the task fails instead, once for each cause, so that a failure notification is
    sent. Make `RecordOutcomeOperator` the teardown of this task. Idempotent: a DAG run has one decision.

    Args:
        dataset: dataset of the model (templated); by default the one in the model's parameters.
        model: registered model (templated).
        request: as_of, trigger, reason and drifted_columns of the training (templated); see `leeway.training_request`.
            By default they come from the DAG run: its param `as_of`, the drift event that started it, or its logical
            date.

    Returns:
        `GuardResult`: model_name, as_of, trigger, outcome, guard, reason, until, alert, window.
    """

    step = "guard"
    fields = ("dataset", "model", "request")

    def __init__(self, *, dataset: str = "", model: str, request: TrainingRequest | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset, self.model, self.request = dataset, model, request

    def build_spec(self) -> dict[str, Any]:
        """Return the step's spec. It has the DAG run's request only after `execute` has read that request."""
        return {"dataset": self.dataset, "model": self.model, **(self.request or {})}

    def execute(self, context: Context) -> Any:
        """Return the decision.

        Raises:
            AirflowFailException: the training is held back and a person has to act, or the run has no as_of. A retry
                cannot help.
            AirflowSkipException: the training is held back.
        """
        self.request = self.request or read_training_request(context)
        decision = super().execute(context)
        if decision["alert"]:
            context["ti"].xcom_push("return_value", decision)
            raise AirflowFailException(f"held back by {decision['guard']}: {decision['reason']}")
        return skip_if_nothing_done(context, decision)
