"""PageLink."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from airflow.sdk import BaseOperatorLink

from pipelines.settings import settings

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


@attrs.define()
class PageLink(BaseOperatorLink):
    """A button on a task, to a page beside the data docs; subclasses say which."""

    page: ClassVar[str]
    """Method of the settings that gives its address."""
    of: ClassVar[Sequence[str]]
    """Attributes of the operator that go into it."""

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address of the page; empty, so no button, where the operator does not say of what."""
        told: list[Any] = [getattr(operator, name) for name in self.of]
        return str(getattr(settings(), self.page)(*told)) if all(told) else ""
