"""Start a processing job of a task, find the job of an earlier try, or collect the output of a completed job."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from leeway.hooks.processing.inputs import get_output_uri, has_same_inputs
from leeway.hooks.sagemaker.attempts import Job
from leeway.hooks.sagemaker.aws_errors import call_with_retries
from leeway.hooks.sagemaker.simple_attempts import SimpleAttempts
from pipelines.contract import SCHEMA_VERSION
from pipelines.system.files import replace_folder, sha256

T = TypeVar("T")
CHANNELS = ("train", "validation")
"""Folders of the features that a training reads, each as a channel."""


class ProcessingAttempts(SimpleAttempts):
    """Start, find or collect a task's processing job.

    Args:
        s3: the Amazon provider's hook of S3.
        folder: folder to download the features to; if empty, they stay in S3 only.
        arguments: arguments of `SimpleAttempts`.
    """

    def __init__(self, s3: S3Hook, folder: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.s3, self.folder = s3, folder

    def _has_same_inputs(self, job: Job) -> bool:
        return has_same_inputs(job, self.request)

    def _collect(self, job: Job) -> dict[str, Any]:
        uri = get_output_uri(job)
        result = self._read_result(f"{uri}/result.json")
        if self.folder:
            self._download(f"{uri}/features/", str(result["digest"]))
        channels = {name: f"{uri}/features/{name}/" for name in CHANNELS}
        return {**result, "features": self.folder or f"{uri}/features", "channels": channels}

    def _read_result(self, uri: str) -> dict[str, Any]:
        """Read the `PreprocessResult` that the job wrote.

        Raises:
            AirflowFailException: the result does not exist, or has another version of the step contract. A
                retry cannot help.
        """
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        if not self._call(lambda: self.s3.check_for_key(key, bucket)):
            raise AirflowFailException(
                f"the job completed, but its output {uri} does not exist any more: start a new DAG run."
            )
        result = json.loads(self._call(lambda: self.s3.read_key(key, bucket)))
        if result.get("schema_version") != SCHEMA_VERSION:
            raise AirflowFailException(
                f"{uri} has version {result.get('schema_version')} of the step contract, but this Airflow reads "
                f"version {SCHEMA_VERSION}: install the version of Leeway that the job runs."
            )
        return dict(result)

    def _download(self, uri: str, digest: str) -> None:
        """Download the features to `folder`, and check that they are what the job wrote. Idempotent.

        Args:
            uri: s3:// prefix of the features.
            digest: SHA-256 of the features, as the job computed it.

        Raises:
            AirflowException: the digest of the downloaded files is not `digest`. A retry downloads them again.
        """
        folder = Path(self.folder)
        if folder.is_dir() and sha256(folder) == digest:
            return
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        with replace_folder(folder) as temporary_folder:
            for key in self._call(lambda: self.s3.list_keys(bucket, prefix)) or ():
                target = temporary_folder / key.removeprefix(prefix)
                target.parent.mkdir(parents=True, exist_ok=True)
                self._download_file(bucket, key, target)
            if (actual_digest := sha256(temporary_folder)) != digest:
                raise AirflowException(
                    f"{uri} has the digest {actual_digest}, but the job wrote {digest}: the files were changed."
                )
        self.log.info("downloaded %s to %s", uri, folder)

    def _download_file(self, bucket: str, key: str, target: Path) -> None:
        self._call(lambda: self.s3.get_conn().download_file(bucket, key, str(target)))

    def _call(self, call: Callable[[], T]) -> T:
        return call_with_retries(call, self.log, "S3")
