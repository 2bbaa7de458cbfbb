"""The base class of the operators that run steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowSkipException

from leeway.hooks.step.credentials import build_source_environment
from leeway.hooks.step.hook import StepHook
from leeway.operators.output import ResultOutputMixin

IN_BACKFILL = "{{ dag_run.run_type == 'backfill' }}"
"""Template of "True" or "False": whether a backfill started the DAG run, or ran it again."""

ACTOR_VARIABLES = {
    # If no person triggered the run, there is no user name: `default` gives an empty text, and `or` the run itself.
    "LEEWAY_ACTOR": "{{ dag_run.triggering_user_name | default('', true) or dag.dag_id ~ '/' ~ run_id }}",
    "LEEWAY_RUN": "{{ dag.dag_id }}/{{ run_id }}",
}
"""Templates of the variables with which steps record who caused an event: the user who triggered the run, or else the
run itself; and the run."""


class StepOperator(ResultOutputMixin, BaseOperator):
    """Run one step in a process of its own. The task's XCom is the step's Result: references and numbers only.

    A subclass names the step and the fields of its spec. The process ends when the task ends.

    Args:
        python: interpreter of the environment that has the ML libraries (templated); if empty, LEEWAY_PYTHON, or else
            the interpreter that runs Airflow.
        env: more environment variables for the step (templated). No secrets: they show in the UI.
    """

    step: ClassVar[str]
    fields: ClassVar[Sequence[str]] = ()
    """Attributes that are fields of the spec, under their own names."""
    source_conn_id: str | None = None
    """Connection of the source that the step reads, or of AWS if the step only calls AWS; None without one. Its
    credentials are not in the UI or the log."""
    template_fields: Sequence[str] = ("python", "env", "actor_variables")
    ui_color = "#dcebf7"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse a subclass without a step when it is imported, before a worker runs it."""
        super().__init_subclass__(**kwargs)
        if not getattr(cls, "step", ""):
            raise TypeError(f"{cls.__name__} must name its step")
        cls.template_fields = (*StepOperator.template_fields, *cls.fields)

    def __init__(self, *, python: str = "", env: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.python, self.env, self.actor_variables = python, env, ACTOR_VARIABLES
        self._hook: StepHook | None = None

    def build_spec(self) -> dict[str, Any]:
        """Return the step's spec: the rendered fields that are not None. params.yaml or the step sets all others."""
        return {name: value for name in self.fields if (value := getattr(self, name)) is not None}

    def execute(self, context: Context) -> Any:
        """Run the step and return its Result."""
        return self.run_step(self.step, self.build_spec())

    def run_step(self, step: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Run a step with the operator's variables and the credentials of `source_conn_id`, and return its Result."""
        secrets = build_source_environment(self.source_conn_id) if self.source_conn_id else {}
        self._hook = StepHook(self.log, self.python, {**self.actor_variables, **(self.env or {}), **secrets})
        return self._hook.run(step, spec)

    def on_kill(self) -> None:
        """End the step's process group."""
        if self._hook:
            self._hook.stop()


def drop_empty_field(spec: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the spec; without the field `name` if its value is empty, or "None", which Jinja renders for null."""
    return {key: value for key, value in spec.items() if key != name or value not in ("", "None")}


def skip_if_nothing_done(context: Context, result: dict[str, Any]) -> dict[str, Any]:
    """Return the Result; skip the task if the Result has a reason why nothing was done.

    Raises:
        AirflowSkipException: the Result has such a reason. The Result is pushed as the task's XCom nevertheless.
    """
    if result["reason"]:
        context["ti"].xcom_push("return_value", result)
        raise AirflowSkipException(result["reason"])
    return result
