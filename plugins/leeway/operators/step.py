"""What the operators over steps share: the fields python= and env=, and a child that dies with its task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowSkipException

from leeway.hooks.step.credentials import source_environment
from leeway.hooks.step.hook import StepHook
from leeway.operators.output import ReturnsResult

IN_BACKFILL = "{{ dag_run.run_type == 'backfill' }}"
"""Renders to True in a run that a backfill started, or ran again."""

WHO = {
    # default(): runs that nobody triggered have none.
    "LEEWAY_ACTOR": "{{ dag_run.triggering_user_name | default('', true) or dag.dag_id ~ '/' ~ run_id }}",
    "LEEWAY_RUN": "{{ dag.dag_id }}/{{ run_id }}",
}
"""Who is asking, for the registry's events: the user that triggered the run, else the run."""


class StepOperator(ReturnsResult, BaseOperator):
    """Runs one step in a process of its own; its Result, references and numbers, is the task's XCom.

    Subclasses name the step, and say in `spec` what goes into it.

    Args:
        python: interpreter of the environment that has the ML libraries (templated); where it is empty,
            LEEWAY_PYTHON or Airflow's own.
        env: more environment variables for the step (templated). No secrets: they show in the UI.
    """

    step: ClassVar[str]
    fields: ClassVar[Sequence[str]] = ()
    """Attributes that go into the spec as they are, under their own names."""
    source_conn_id: str | None = None
    """Connection of the source, in operators over steps that read one: its credentials show nowhere."""
    template_fields: Sequence[str] = ("python", "env", "who")
    ui_color = "#dcebf7"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """A subclass without a step fails at import, not in a worker."""
        super().__init_subclass__(**kwargs)
        if not getattr(cls, "step", ""):
            raise TypeError(f"{cls.__name__} must name its step")
        cls.template_fields = (*StepOperator.template_fields, *cls.fields)

    def __init__(self, *, python: str = "", env: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.python, self.env, self.who = python, env, WHO
        self._hook: StepHook | None = None

    def spec(self) -> dict[str, Any]:
        """The step's spec, of the rendered fields; fields that are None are left to params.yaml and the defaults."""
        return {name: value for name in self.fields if (value := getattr(self, name)) is not None}

    def execute(self, context: Context) -> Any:
        """The step's Result."""
        return self.run_step(self.step, self.spec())

    def run_step(self, step: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        """The Result of any step, run as this operator's own."""
        secrets = source_environment(self.source_conn_id) if self.source_conn_id else {}
        self._hook = StepHook(self.log, self.python, {**self.who, **(self.env or {}), **secrets})
        return self._hook.run(step, spec)

    def on_kill(self) -> None:
        """The step's process group is gone."""
        if self._hook:
            self._hook.kill()


def drop_unset(spec: dict[str, Any], name: str) -> dict[str, Any]:
    """The spec without the field where nobody said it: params.yaml does. A param that is null renders to "None"."""
    return {key: value for key, value in spec.items() if key != name or value not in ("", "None")}


def skip_if_nothing_done(context: Context, result: dict[str, Any]) -> dict[str, Any]:
    """The Result, where it has no reason for why nothing was done.

    Raises:
        AirflowSkipException: it has one. The Result is the task's XCom all the same.
    """
    if result["reason"]:
        context["ti"].xcom_push("return_value", result)
        raise AirflowSkipException(result["reason"])
    return result
