"""Start a transform job of a task, find the job of an earlier try, or collect the scores of a completed job."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.sdk.exceptions import AirflowException

from leeway.hooks.sagemaker.attempts import Job
from leeway.hooks.sagemaker.aws_errors import call_with_retries
from leeway.hooks.sagemaker.description import get_job_name
from leeway.hooks.sagemaker.simple_attempts import SimpleAttempts
from leeway.hooks.sagemaker.wait import JobWait, WaitEvent
from leeway.hooks.transform.job_requests import TransformJobs, has_same_inputs

SCORES_SUFFIX = ".out"
"""End of the name of an object with scores: Batch Transform appends it to the name of the object with the rows."""
RunScore = Callable[[Mapping[str, Any]], dict[str, Any]]
"""A function that runs the step `score` with the task's fields and with further ones, and returns the `ScoreResult`."""


class InProcessOperation:
    """The operation of a task without a job: it scored its partition in process, or no version scores the partition.

    Args:
        result: `ScoreResult`.
    """

    def __init__(self, result: Mapping[str, Any]) -> None:
        self._result = result

    @property
    def inputs(self) -> dict[str, Any]:
        """No inputs: the task does not wait, so `prepare_operation` is not called again."""
        return {}

    def resume(self, event: WaitEvent | None) -> JobWait | dict[str, Any]:
        """Return the `ScoreResult`, with empty fields about the job."""
        job_fields = {"transform_job": "", "transform_job_arn": "", "status": "", "attempts": 0}
        return {**self._result, **job_fields, "transform_s": 0.0, "cost_usd": 0.0}


class TransformAttempts(SimpleAttempts):
    """Start, find or collect a task's transform job.

    Args:
        s3: the Amazon provider's hook of S3.
        model_request: request to CreateModel.
        run_score: runs the step `score`.
        arguments: arguments of `SimpleAttempts`. The keys of `inputs` are `version` (of the model), `request` (name
            and digest of the rows that the step `batch` wrote), `image`, and the s3:// prefixes `model` and `rows`.
    """

    jobs: TransformJobs

    def __init__(self, s3: S3Hook, model_request: Mapping[str, Any], run_score: RunScore, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.s3, self.model_request, self._run_score = s3, model_request, run_score

    def _has_same_inputs(self, job: Job) -> bool:
        return has_same_inputs(job, self.request)

    def _prepare_next(self, attempts: Sequence[Job]) -> JobWait:
        self.jobs.ensure_model(self.model_request)
        return super()._prepare_next(attempts)

    def _build_wait(self, name: str, attached_at: str | None) -> JobWait:
        """Return the wait, with max_run_s: SageMaker has no StoppingCondition for transform jobs."""
        return replace(super()._build_wait(name, attached_at), max_run_s=self.max_run_s)

    def _has_output(self, job: Job) -> bool:
        expected_names = {f"{Path(key).name}{SCORES_SUFFIX}" for key in self._list_keys(self._inputs["rows"])}
        names = {Path(key).name for key in self._list_keys(_get_output_uri(job))}
        return bool(expected_names) and expected_names <= names

    def _collect(self, job: Job) -> dict[str, Any]:
        """Write the job's scores as the partition's predictions; return the `ScoreResult`."""
        if not self._has_output(job):
            # This try fails, and does not start another job: so the task's retries limit the number of paid jobs.
            raise AirflowException(
                f"transform job {get_job_name(job)} completed, but its scores at {_get_output_uri(job)} are "
                "incomplete. A retry starts the next job."
            )
        with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
            self._download(_get_output_uri(job), Path(folder))
            fields = {name: self._inputs[name] for name in ("version", "request")}
            return self._run_score({**fields, "response": folder})

    def _download(self, uri: str, folder: Path) -> None:
        """Download the objects with scores below an s3:// prefix to a folder."""
        bucket = uri.removeprefix("s3://").partition("/")[0]
        for key in self._list_keys(uri):
            if key.endswith(SCORES_SUFFIX):
                self._download_file(bucket, key, folder / Path(key).name)

    def _download_file(self, bucket: str, key: str, target: Path) -> None:
        call_with_retries(lambda: self.s3.get_conn().download_file(bucket, key, str(target)), self.log, "S3")

    def _list_keys(self, uri: str) -> list[str]:
        """List the keys of the objects below an s3:// prefix."""
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        keys = call_with_retries(lambda: self.s3.list_keys(bucket, f"{prefix.rstrip('/')}/"), self.log, "S3")
        return list(keys or ())


def _get_output_uri(job: Job) -> str:
    return str(job["TransformOutput"]["S3OutputPath"])
