"""Airflow's LocalExecutor, for a scheduler that may be restarted at any time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow.executors.local_executor import LocalExecutor

if TYPE_CHECKING:
    from airflow.models.taskinstance import TaskInstance


class RestartableLocalExecutor(LocalExecutor):
    """Run tasks as LocalExecutor does. A task that ends because its scheduler ends does not use up one of its tries.

    The processes of a task end with their scheduler. Airflow 3.3.2 then starts the task again under the next try
    number. A task without retries left would therefore fail, although no try of the task has failed.
    """

    def try_adopt_task_instances(self, tis: Sequence[TaskInstance]) -> Sequence[TaskInstance]:
        """Give one more try to each task whose scheduler has ended. Return all tasks, because none can be adopted."""
        for ti in tis:
            ti.max_tries += 1
        return super().try_adopt_task_instances(tis)
