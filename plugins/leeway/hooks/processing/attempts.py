"""One task's processing over all its tries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from leeway.hooks.processing.inputs import is_same, output_of
from leeway.hooks.sagemaker.attempts import Job
from leeway.hooks.sagemaker.simple_attempts import SimpleAttempts
from pipelines.contract import SCHEMA_VERSION
from pipelines.system.files import replace_folder, sha256

CHANNELS = ("train", "validation")
"""Features that a training takes."""


class ProcessingAttempts(SimpleAttempts):
    """Goes on with a task's processing, from wherever it is.

    Args:
        s3: the provider's hook.
        folder: where the features are brought; nowhere where it is empty.
        rest: of `SimpleAttempts`.
    """

    def __init__(self, s3: S3Hook, folder: str, **rest: Any) -> None:
        super().__init__(**rest)
        self.s3, self.folder = s3, folder

    def _is_ours(self, job: Job) -> bool:
        return is_same(job, self.request)

    def _collected(self, job: Job) -> dict[str, Any]:
        uri = output_of(job)
        told = self._told(f"{uri}/result.json")
        if self.folder:
            self._bring(f"{uri}/features/", str(told["digest"]))
        channels = {name: f"{uri}/features/{name}/" for name in CHANNELS}
        return {**told, "features": self.folder or f"{uri}/features", "channels": channels}

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
        with replace_folder(folder) as making:
            for key in self.s3.list_keys(bucket, prefix) or ():
                target = making / key.removeprefix(prefix)
                target.parent.mkdir(parents=True, exist_ok=True)
                self.s3.get_conn().download_file(bucket, key, str(target))
            if (found := sha256(making)) != digest:
                raise AirflowException(f"{uri} has the digest {found}, and the job wrote {digest}: it was changed.")
        self.log.info("brought %s to %s", uri, folder)
