"""GuardOperator."""

from __future__ import annotations

from typing import Any

from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowFailException

from leeway.operators.step import StepOperator, skip_where_nothing


class GuardOperator(StepOperator):
    """Lets a training start, or holds it back; every answer is an event. Idempotent: once a DAG run.

    Only drift is held back: the task is skipped then, with the reason, and so is all that follows. Where only a person
    can help (drift of data that did not pass validation, trainings that did not pass the gate) the task fails instead,
    once for a cause, so that whoever is told of failures is told. Make `SettleOperator` its teardown.

    Args:
        dataset: dataset of the model (templated).
        model_name: registered model (templated).
        as_of: moment of training, YYYY-MM-DD (templated).
        trigger: who asks: drift, schedule, manual or backfill (templated).
        reason: why, in words (templated).
        worst: columns that drifted, with commas between them, the worst first (templated).

    Returns:
        `GuardResult`: model_name, as_of, trigger, outcome, guard, reason, until, alert.
    """

    step = "guard"
    fields = ("dataset", "model_name", "as_of", "trigger", "reason", "worst")

    def __init__(
        self,
        *,
        dataset: str,
        model_name: str,
        as_of: str,
        trigger: str = "manual",
        reason: str = "",
        worst: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset, self.model_name, self.as_of = dataset, model_name, as_of
        self.trigger, self.reason, self.worst = trigger, reason, worst

    def execute(self, context: Context) -> Any:
        """The answer.

        Raises:
            AirflowFailException: it is held back, and a person has to look.
            AirflowSkipException: it is held back.
        """
        answer = super().execute(context)
        if answer["alert"]:
            context["ti"].xcom_push("return_value", answer)
            raise AirflowFailException(f"held back by {answer['guard']}: {answer['reason']}")
        return skip_where_nothing(context, answer)
