"""Define `task.output["field"]` of Leeway's operators: a reference to one field of the task's result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.definitions.xcom_arg import PlainXComArg, XComArg


class ResultOutput(PlainXComArg):
    """Refer to the result of a task, or to one of its fields, in a templated field of another task.

    Airflow's own `output["field"]` refers to an XCom of that name, so each field of a result would have to be an XCom
    of its own. Like Airflow's references, this reference makes the other task downstream, and can be used inside a
    string.
    """

    def __getitem__(self, field: str) -> XComArg:
        """Return a reference to one field of the result."""
        return type(self)(operator=self.operator, key=field)

    def resolve(self, context: Mapping[str, Any]) -> Any:
        """Return the result or its field; None if the task returned nothing, because it was skipped or failed.

        Raises:
            KeyError: the result has no such field.
        """
        result = XComArg(self.operator).resolve(context)
        return result if self.key == BaseXCom.XCOM_RETURN_KEY or result is None else result[self.key]

    def __str__(self) -> str:
        """Return the template that renders to the result or its field, for use inside a string."""
        pull = f"ti.xcom_pull(task_ids='{self.operator.task_id}', dag_id='{self.operator.dag_id}')"
        field = "" if self.key == BaseXCom.XCOM_RETURN_KEY else f"['{self.key}']"
        return f"{{{{ {pull}{field} }}}}"


class ResultOutputMixin:
    """Give an operator that returns a dictionary references to its fields, such as `train.output["model"]`.

    A subclass inherits from this class before the operator's base class.
    """

    @property
    def output(self) -> XComArg:
        """The reference to this task's result."""
        return ResultOutput(operator=self)  # type: ignore[arg-type]
