"""One task's processing over all its tries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from leeway.hooks.attempts import Attempts, Job
from leeway.hooks.costs import Costs
from leeway.hooks.jobs import Jobs
from leeway.hooks.processing_job import failure_of, is_same, on_demand, output_of, seconds
from leeway.hooks.running import longest_s, name_of
from leeway.hooks.step import Logger
from leeway.hooks.watch import Event, Watch
from pipelines.contract import SCHEMA_VERSION
from pipelines.files import sha256, whole_folder
from pipelines.training_jobs import processing_record

WAIT_S = 3_600
"""Longest wait for a machine: SageMaker has none, drydock lets jobs wait for cores."""
CHANNELS = ("train", "validation")
"""Features that a training takes."""


class Processing(Attempts):
    """Goes on with a task's processing, from wherever it is.

    Args:
        jobs: the task's jobs.
        costs: the budgets and the ledger.
        inputs: what decides the features.
        request: to CreateProcessingJob, without a name.
        s3: the provider's hook.
        folder: where the features are brought; nowhere where it is empty.
        blank: how a job of the task is watched, without its name and bounds.
        log: where decisions are told.
    """

    def __init__(
        self,
        jobs: Jobs,
        costs: Costs,
        inputs: Mapping[str, Any],
        request: Mapping[str, Any],
        s3: S3Hook,
        folder: str,
        blank: Watch,
        log: Logger,
    ) -> None:
        super().__init__(jobs, costs, blank, log)
        self._inputs, self.request, self.s3, self.folder = inputs, request, s3, folder

    @property
    def inputs(self) -> dict[str, Any]:
        """What decides the features, for a later call in the same try."""
        return dict(self._inputs)

    def _is_ours(self, job: Job) -> bool:
        return is_same(job, self.request)

    def _error(self, job: Job, event: Event) -> AirflowException | None:
        return failure_of(job, event)

    def _record(self, job: Job) -> dict[str, Any]:
        return processing_record(job)

    def _where(self, job: Job) -> str:
        return str(job["ProcessingResources"]["ClusterConfig"]["InstanceType"])

    def _watch_there(self, attempts: Sequence[Job], attached_at: str) -> Watch:
        return self._watch(attempts[-1], attached_at)

    def _started(self, attempts: Sequence[Job]) -> Watch | None:
        self.costs.allow([on_demand(self.request)])
        name = self.jobs.name(len(attempts) + 1)
        if not self.jobs.create(name, self.request):
            return None
        return self._watch({"ProcessingJobName": name, **self.request}, None)

    def _watch(self, job: Job, attached_at: str | None) -> Watch:
        return replace(self.blank, job_name=name_of(job), longest_s=longest_s(job, WAIT_S), attached_at=attached_at)

    def _result(self, job: Job, attempts: Sequence[Job]) -> dict[str, Any]:
        cost, uri = self._charged(attempts), output_of(job)
        told = self._told(f"{uri}/result.json")
        if self.folder:
            self._bring(f"{uri}/features/", str(told["digest"]))
        return {
            **told,
            "features": self.folder or f"{uri}/features",
            "channels": {name: f"{uri}/features/{name}/" for name in CHANNELS},
            "processing_job": name_of(job),
            "processing_job_arn": job["ProcessingJobArn"],
            "status": job["ProcessingJobStatus"],
            "attempts": len(attempts),
            "processing_s": round(seconds(job), 1),
            "cost_usd": cost["cost_usd"],
        }

    def _told(self, uri: str) -> dict[str, Any]:
        """The step's result, as the job left it."""
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        if not self.s3.check_for_key(key, bucket):
            raise AirflowFailException(f"the job completed, and {uri} is not there: was its output deleted?")
        told = json.loads(self.s3.read_key(key, bucket))
        if told.get("schema_version") != SCHEMA_VERSION:
            raise AirflowFailException(
                f"{uri} is of version {told.get('schema_version')} of the step contract, and this Airflow reads "
                f"{SCHEMA_VERSION}: install the Leeway whose code is sent."
            )
        return dict(told)

    def _bring(self, uri: str, digest: str) -> None:
        """`folder` has the features, the very ones that the job wrote; nothing is fetched where it has them already."""
        folder = Path(self.folder)
        if folder.is_dir() and sha256(folder) == digest:
            return
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        with whole_folder(folder) as making:
            for key in self.s3.list_keys(bucket, prefix) or ():
                target = making / key.removeprefix(prefix)
                target.parent.mkdir(parents=True, exist_ok=True)
                self.s3.get_conn().download_file(bucket, key, str(target))
            if (found := sha256(making)) != digest:
                raise AirflowException(f"{uri} has the digest {found}, and the job wrote {digest}: it was changed.")
        self.log.info("brought %s to %s", uri, folder)
