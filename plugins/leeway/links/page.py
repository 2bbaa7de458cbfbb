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
    """A button on a task that opens a page of the docs; subclasses say which."""

    page: ClassVar[str]
    """Method of the settings that returns the page's address."""
    of: ClassVar[Sequence[str]]
    """Attributes of the operator that are the method's arguments."""

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address of the page; empty, so that there is no button, if an attribute is empty."""
        values: list[Any] = [getattr(operator, name) for name in self.of]
        return str(getattr(settings(), self.page)(*values)) if all(values) else ""
