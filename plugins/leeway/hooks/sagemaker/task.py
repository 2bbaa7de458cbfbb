"""What every task that runs SageMaker jobs shares, whatever they do."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from airflow.providers.amazon.aws.hooks.sagemaker import SageMakerHook
from airflow.sdk.exceptions import AirflowFailException

from leeway.hooks.sagemaker import request_checks
from leeway.hooks.sagemaker.connection import AwsConnection
from leeway.hooks.sagemaker.description import is_live, name_of
from leeway.hooks.sagemaker.named_jobs import NamedJobs, base_name
from leeway.hooks.sagemaker.wait import JobWait, WaitEvent
from leeway.hooks.step.hook import Logger, StepHook

NO_TAG = re.compile(r"[^\w\s.:/=+\-@]")
"""What the value of a tag may not have."""


class Work(Protocol):
    """What a task has to do, from wherever it is."""

    @property
    def inputs(self) -> dict[str, Any]:
        """What decides what comes out, for a later call in the same try."""

    def go_on(self, event: WaitEvent | None) -> JobWait | dict[str, Any]:
        """The job to wait for, or the task's result; see `Attempts.go_on`."""


class JobTask(ABC):
    """One task with one job at a time.

    Args:
        fields: what it asks for: the operator's fields, rendered.
        identity: dag_id, run_id, task_id, map_index.
        place: where SageMaker and S3 are.
        step: runs steps.
        log: where decisions are told.
        again: whether it was tried before.
    """

    kind: type[NamedJobs]

    def __init__(
        self, fields: Any, identity: Mapping[str, Any], place: AwsConnection, step: StepHook, log: Logger, again: bool
    ) -> None:
        self.fields, self.identity, self.place, self.step, self.log = fields, identity, place, step, log
        self.again = again
        self.task = f"the task {identity['task_id']}"
        self.hook: SageMakerHook = place.hook(SageMakerHook)
        self.jobs = self.kind(self.hook, log, base_name(**{**identity, "run_id": self.occasion()}))

    def occasion(self) -> str:
        """What each asks for a job of its own, by one DAG's task: its runs."""
        return str(self.identity["run_id"])

    @abstractmethod
    def work(self, inputs: Mapping[str, Any] | None = None) -> Work:
        """The task's work, all of whose request is known: what it needs is uploaded.

        Args:
            inputs: as `Work.inputs` had them earlier in the same try; nothing is read or uploaded for them again.

        Raises:
            AirflowFailException: a field is wrong, or a file is not there. A retry cannot help.
        """

    def stop(self) -> None:
        """The job that lives, if one does, was told to stop."""
        attempts = self.jobs.attempts()
        if attempts and is_live(attempts[-1]):
            self.jobs.stop(name_of(attempts[-1]))

    def kill(self) -> None:
        """Nothing that this process started goes on: neither a step, nor the job."""
        self.step.kill()
        if self.jobs.live:
            self.log.warning("the task was killed: stopping %s job %s", self.jobs.kind, self.jobs.live)
            self.jobs.stop(self.jobs.live)

    def what(self, field: str) -> str:
        """A field, for people."""
        return f"{field} of {self.task}"

    def whole(self, field: str, most: int | None = None) -> int:
        """A field that is a whole number of 1 or more."""
        return request_checks.whole(self.what(field), getattr(self.fields, field), most)

    def given(self, field: str, variable: str) -> str:
        """A field, or the environment's variable in its place."""
        value = getattr(self.fields, field) or os.environ.get(variable, "")
        if not value:
            raise AirflowFailException(f"give {field}= to {self.task}, or set {variable}.")
        return str(value)

    def blank(self) -> JobWait:
        """How a job of this task is watched; which one, and how long, is not said yet."""
        return JobWait(
            job_name="",
            check_interval_s=self.whole("check_interval_s"),
            longest_s=0,
            kind=self.jobs.kind,
            aws_conn_id=self.place.aws_conn_id,
            region_name=self.place.region_name,
            verify=self.place.verify,
            botocore_config=self.place.botocore_config,
        )

    def tags(self, **more: str) -> list[dict[str, str]]:
        """Whose its jobs are: `costs sweep` charges them by these where the task does not run again."""
        own = {"dag": "dag_id", "run": "run_id", "task": "task_id", "map-index": "map_index"}
        told = {name: str(self.identity[field]) for name, field in own.items()} | more
        return [
            {"Key": f"leeway:{name}", "Value": NO_TAG.sub("-", value)[:256]} for name, value in told.items() if value
        ]

    @property
    def project(self) -> Path:
        """Folder of the code that is sent along."""
        return Path(os.environ.get("LEEWAY_PROJECT", "."))
