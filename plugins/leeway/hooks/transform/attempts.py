"""Start, find or collect the transform job of one task, over all its tries; or none if the partition is small."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.sdk.exceptions import AirflowException

from leeway.hooks.sagemaker.attempts import Job
from leeway.hooks.sagemaker.description import get_job_name
from leeway.hooks.sagemaker.simple_attempts import SimpleAttempts
from leeway.hooks.sagemaker.wait import JobWait, WaitEvent
from leeway.hooks.transform.inputs import TransformJobs, has_same_inputs

SCORES_SUFFIX = ".out"
"""Batch Transform appends it to the name of the object with the rows, for the object with their scores."""
Score = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Runs the step `score` with these fields besides the task's own."""


class InProcess:
    """The work of a partition that was scored in process: no job, no costs.

    Args:
        result: `ScoreResult`.
    """

    def __init__(self, result: Mapping[str, Any]) -> None:
        self._result = result

    @property
    def inputs(self) -> dict[str, Any]:
        """No inputs: there is no wait after which they would be needed."""
        return {}

    def resume(self, event: WaitEvent | None) -> JobWait | dict[str, Any]:
        """Return the `ScoreResult`, with empty fields about the job."""
        no_job = {"transform_job": "", "transform_job_arn": "", "status": "", "attempts": 0}
        return {**self._result, **no_job, "transform_s": 0.0, "cost_usd": 0.0}


class TransformAttempts(SimpleAttempts):
    """Start, find or collect a task's transform job.

    Args:
        s3: the Amazon provider's hook.
        model: request to CreateModel.
        score: runs the step `score`.
        rest: arguments of `SimpleAttempts`; its inputs are `version`, which scores, `request` of the step `batch`, and
            the s3:// prefixes `model` and `rows`.
    """

    jobs: TransformJobs

    def __init__(self, s3: S3Hook, model: Mapping[str, Any], score: Score, **rest: Any) -> None:
        super().__init__(**rest)
        self.s3, self.model, self._score = s3, model, score

    def _has_same_inputs(self, job: Job) -> bool:
        return has_same_inputs(job, self.request)

    def _start_next(self, attempts: Sequence[Job]) -> JobWait | None:
        self.jobs.ensure_model(self.model)
        return super()._start_next(attempts)

    def _build_wait(self, name: str, attached_at: str | None) -> JobWait:
        """Return the wait, with max_run_s: SageMaker has no StoppingCondition for transform jobs."""
        return replace(super()._build_wait(name, attached_at), max_run_s=self.max_run_s)

    def _has_output(self, job: Job) -> bool:
        expected = {f"{Path(key).name}{SCORES_SUFFIX}" for key in self._list_keys(self._inputs["rows"])}
        return bool(expected) and expected <= {Path(key).name for key in self._list_keys(_get_output_uri(job))}

    def _collect(self, job: Job) -> dict[str, Any]:
        """Write the job's scores as the partition's predictions; return the `ScoreResult`."""
        if not self._has_output(job):
            # This is an error and starts no other job in this try: so the retries limit the number of paid jobs.
            raise AirflowException(
                f"transform job {get_job_name(job)} completed, but its scores at {_get_output_uri(job)} are "
                "incomplete: were they deleted? A retry starts the next job."
            )
        with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
            self._download(_get_output_uri(job), Path(folder))
            scored_by = {name: self._inputs[name] for name in ("version", "request")}
            return self._score({**scored_by, "response": folder})

    def _download(self, uri: str, folder: Path) -> None:
        bucket = uri.removeprefix("s3://").partition("/")[0]
        for key in self._list_keys(uri):
            if key.endswith(SCORES_SUFFIX):
                self.s3.get_conn().download_file(bucket, key, str(folder / Path(key).name))

    def _list_keys(self, uri: str) -> list[str]:
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        return list(self.s3.list_keys(bucket, f"{prefix.rstrip('/')}/") or ())


def _get_output_uri(job: Job) -> str:
    return str(job["TransformOutput"]["S3OutputPath"])
