"""One task's scoring of a partition by transform jobs over all its tries; and of one that is small, without."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.sdk.exceptions import AirflowException

from leeway.hooks.sagemaker.attempts import Job
from leeway.hooks.sagemaker.description import name_of
from leeway.hooks.sagemaker.simple_attempts import SimpleAttempts
from leeway.hooks.sagemaker.wait import JobWait, WaitEvent
from leeway.hooks.transform.inputs import TransformJobs, is_same

ANSWER = ".out"
"""What Batch Transform appends to the name of an object, for what was said of it."""
Score = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Runs the step `score`, with these fields besides the task's own."""


class InProcess:
    """Nothing is left to do: no job, no costs.

    Args:
        scored: `ScoreResult`.
    """

    def __init__(self, scored: Mapping[str, Any]) -> None:
        self._scored = scored

    @property
    def inputs(self) -> dict[str, Any]:
        """Nothing: there is no wait after which it would be asked."""
        return {}

    def go_on(self, event: WaitEvent | None) -> JobWait | dict[str, Any]:
        """`ScoreResult`, with what there is to tell of no job."""
        none = {"transform_job": "", "transform_job_arn": "", "status": "", "attempts": 0}
        return {**self._scored, **none, "transform_s": 0.0, "cost_usd": 0.0}


class TransformAttempts(SimpleAttempts):
    """Goes on with a task's transform, from wherever it is.

    Args:
        s3: the provider's hook.
        model: request to CreateModel.
        score: runs the step `score`.
        rest: of `SimpleAttempts`; its inputs: `version` that scores, `asked` as the step `batch` told it, `model` and
            `rows`, s3:// prefixes.
    """

    jobs: TransformJobs

    def __init__(self, s3: S3Hook, model: Mapping[str, Any], score: Score, **rest: Any) -> None:
        super().__init__(**rest)
        self.s3, self.model, self._score = s3, model, score

    def _is_ours(self, job: Job) -> bool:
        return is_same(job, self.request)

    def _started(self, attempts: Sequence[Job]) -> JobWait | None:
        self.jobs.demand_model(self.model)
        return super()._started(attempts)

    def _watch(self, name: str, attached_at: str | None) -> JobWait:
        """SageMaker has no StoppingCondition for transform jobs."""
        return replace(super()._watch(name, attached_at), max_run_s=self.max_run_s)

    def _is_kept(self, job: Job) -> bool:
        asked = {f"{Path(key).name}{ANSWER}" for key in self._keys(self._inputs["rows"])}
        return bool(asked) and asked <= {Path(key).name for key in self._keys(_output_of(job))}

    def _collected(self, job: Job) -> dict[str, Any]:
        """`ScoreResult`: what the job said is the partition's predictions."""
        if not self._is_kept(job):
            # For this try, which may have paid for the job: where no job leaves its answers, retries are bounded.
            raise AirflowException(
                f"transform job {name_of(job)} completed, and its answers at {_output_of(job)} are not all there: were "
                "they deleted? A retry asks the next job."
            )
        with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
            self._bring(_output_of(job), Path(folder))
            said = {name: self._inputs[name] for name in ("version", "request")}
            return self._score({**said, "response": folder})

    def _bring(self, uri: str, folder: Path) -> None:
        bucket = uri.removeprefix("s3://").partition("/")[0]
        for key in self._keys(uri):
            if key.endswith(ANSWER):
                self.s3.get_conn().download_file(bucket, key, str(folder / Path(key).name))

    def _keys(self, uri: str) -> list[str]:
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        return list(self.s3.list_keys(bucket, f"{prefix.rstrip('/')}/") or ())


def _output_of(job: Job) -> str:
    return str(job["TransformOutput"]["S3OutputPath"])
