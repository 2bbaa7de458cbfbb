"""What the operators over steps share: the fields python= and env=, and a child that dies with its task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.definitions.context import Context

from leeway.hooks.sources import variables
from leeway.hooks.step import StepHook

IN_BACKFILL = "{{ dag_run.run_type == 'backfill' }}"
"""Renders to True in a run that a backfill started, or ran again."""


class StepOperator(BaseOperator):
    """Runs one step in a process of its own; its Result, references and numbers, is the task's XCom.

    Subclasses name the step, and say in `spec` what goes into it.

    Args:
        python: interpreter of the environment that has the ML libraries (templated); Airflow's own where it is empty.
        env: more environment variables for the step (templated). No secrets: they show in the UI.
    """

    step: ClassVar[str]
    fields: ClassVar[Sequence[str]] = ()
    """Attributes that go into the spec as they are, under their own names."""
    source_conn_id: str | None = None
    """Connection of the source, in operators over steps that read one: its credentials show nowhere."""
    template_fields: Sequence[str] = ("python", "env")
    ui_color = "#dcebf7"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """A subclass without a step fails at import, not in a worker."""
        super().__init_subclass__(**kwargs)
        if not getattr(cls, "step", ""):
            raise TypeError(f"{cls.__name__} must name its step")
        cls.template_fields = (*StepOperator.template_fields, *cls.fields)

    def __init__(self, *, python: str = "", env: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.python, self.env = python, env
        self._hook: StepHook | None = None

    def spec(self) -> dict[str, Any]:
        """The step's spec, of the rendered fields; fields that are None are left to params.yaml and the defaults."""
        return {name: value for name in self.fields if (value := getattr(self, name)) is not None}

    def execute(self, context: Context) -> Any:
        """The step's Result."""
        return self.run_step(self.step, self.spec())

    def run_step(self, step: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        """The Result of any step, run as this operator's own."""
        secrets = variables(self.source_conn_id) if self.source_conn_id else {}
        self._hook = StepHook(self.log, self.python, {**(self.env or {}), **secrets})
        return self._hook.run(step, spec)

    def on_kill(self) -> None:
        """The step's process group is gone."""
        if self._hook:
            self._hook.kill()
