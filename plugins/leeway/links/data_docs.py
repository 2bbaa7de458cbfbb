"""DataDocsLink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from airflow.sdk import BaseOperatorLink

from pipelines.settings import settings

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


@attrs.define()
class DataDocsLink(BaseOperatorLink):
    """The button "Data docs" on a task that judges a partition: what the validation found, on a failed task too.

    Airflow's worker asks for the address when the task has ended, however it ended, and keeps it as an XCom. The page
    was written before a failure was raised; there is none where the partition never came to be judged.
    """

    name = "Data docs"
    xcom_key = "data_docs"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address of the page of the operator's partition; empty, so no button, where it has none."""
        task: Any = operator
        if not task.dataset or not task.partition:
            return ""
        return settings().docs_page(task.dataset, task.partition)
