"""Watch a task that was deferred until its trigger waits for the job: a mark in between reaches nobody else.

Airflow 3.3.2 deletes the trigger of a task that was marked, also one that no triggerer has started yet. It then calls
neither `on_kill` of the operator, whose process has ended, nor `on_kill` of the trigger. And if the task is marked
before it reports its deferral, Airflow refuses the report. In both cases nobody would stop the job.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from airflow.listeners import hookimpl

from leeway.hooks.sagemaker.aws_errors import format_error_line
from leeway.hooks.sagemaker.named_jobs import NamedJobs
from leeway.hooks.step.hook import Logger

LONGEST_WATCH_S = 60.0
"""Longest time for which the process of a deferred task watches it. A triggerer starts a trigger within seconds."""
CHECK_INTERVAL_S = 0.5
"""Time between two checks, seconds."""
DEFERRED = "deferred"
FINAL_STATES = ("success", "failed", "skipped", "upstream_failed", "removed")
"""States in which a task does not run again by itself."""


class Handover:
    """Hand the job of a deferred task over to the task's trigger, in the process that deferred the task.

    Args:
        jobs: the task's jobs; `live_job_name` is the job that the trigger waits for.
        task_instance: the task's instance of Airflow's SDK.
        log: log of the task.
    """

    def __init__(self, jobs: NamedJobs, task_instance: Any, log: Logger) -> None:
        self.jobs, self.task_instance, self.log = jobs, task_instance, log

    def begin(self) -> None:
        """Let Airflow call `before_stopping` at the end of this process, after it has reported the deferral.

        Do nothing where the process does not belong to one task alone: `dag.test()` runs the trigger in the process of
        the task, after this would have returned.
        """
        if _is_task_process():
            from airflow.sdk.listener import get_listener_manager

            get_listener_manager().add_listener(self)  # type: ignore[no-untyped-call]

    @hookimpl
    def before_stopping(self, component: Any) -> None:
        """Wait until the trigger waits for the job; if the task was marked or deleted instead, stop the job."""
        name = self.jobs.live_job_name
        deadline = time.monotonic() + LONGEST_WATCH_S
        while time.monotonic() < deadline:
            try:
                state = self._read_state()
                if state == DEFERRED:
                    self.jobs.live_job_name = ""  # from now on, a signal to this process does not stop the job
                elif state in FINAL_STATES:
                    self.log.warning("the task was marked or deleted: stopping %s job %s", self.jobs.kind, name)
                    self.jobs.stop(name)
                if state != DEFERRED or self._has_waiter(name):
                    return
            except Exception as error:  # of Airflow's API or SageMaker, which may answer the next time
                self.log.info("cannot check the deferred task: %s", format_error_line(error))
            time.sleep(CHECK_INTERVAL_S)
        line = "no triggerer waits for %s job %s yet; if the task is marked before one does, the job runs on"
        self.log.warning(line, self.jobs.kind, name)

    def _read_state(self) -> str:
        """Return the task's state; `removed` if the task or its run was deleted, and "" if it was cleared."""
        task = self.task_instance
        states = task.get_task_states(
            dag_id=task.dag_id, task_ids=[task.task_id], run_ids=[task.run_id], map_index=task.map_index
        )
        states_of_run = list(states.get(task.run_id, {}).values())
        return str(states_of_run[0] or "") if states_of_run else "removed"

    def _has_waiter(self, name: str) -> bool:
        """Return whether a trigger of this try waits for the job."""
        return self.jobs.read_waiter(name).partition("/")[0] == str(self.task_instance.id)


def _is_task_process() -> bool:
    """Return whether a supervisor of Airflow runs this process for one task."""
    task_runner = sys.modules.get("airflow.sdk.execution_time.task_runner")
    if task_runner is None:
        return False
    from airflow.sdk.execution_time.comms import CommsDecoder

    return isinstance(getattr(task_runner, "SUPERVISOR_COMMS", None), CommsDecoder)
