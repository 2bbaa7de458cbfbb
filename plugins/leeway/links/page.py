"""The base class of the buttons that open a page about a task's result."""

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
    """A button on a task that opens an HTML page that a step wrote. A subclass says which page."""

    url_method: ClassVar[str]
    """Name of the method of `pipelines.settings.Settings` that builds the URL of the page."""
    url_arguments: ClassVar[Sequence[str]]
    """Names of the operator's attributes that are passed to `url_method`, in this order."""

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address of the page; empty if an attribute is empty, so that Airflow shows no button."""
        values: list[Any] = [getattr(operator, name) for name in self.url_arguments]
        return str(getattr(settings(), self.url_method)(*values)) if all(values) else ""
