"""Read the losses of a trial on its folds from the files that the training script wrote."""

from __future__ import annotations

import io
import json
import tarfile
from typing import Any

from leeway.hooks.sagemaker.aws_errors import call_with_retries, format_error_line
from leeway.hooks.step.hook import Logger
from leeway.hooks.tuning.trials import Trial

FOLDS_FILE = "folds.json"
MAX_BYTES = 64 * 1024**2
"""Largest size of an archive that is read. The archive of a trial has a few small files."""


def read_folds(client: Any, trial: Trial, log: Logger) -> dict[str, Any]:
    """Return `metric` and `fold_losses` of a trial, for the step `record_tuning`; empty if there is no folds.json.

    The values are only shown in reports. So an error is only logged, and the result is empty.

    Args:
        client: boto3 client of S3.
        trial: the trial, whose training job completed.
        log: log of the task.
    """
    model_uri = str(trial.job.get("ModelArtifacts", {}).get("S3ModelArtifacts", ""))
    bucket, _, key = model_uri.removeprefix("s3://").partition("/")
    try:
        content = _read_file(client, bucket, key.removesuffix("model.tar.gz") + "output.tar.gz", log)
        if not content:
            return {}
        record = json.loads(content)
        return {"metric": record["metric"], "fold_losses": [fold["loss"] for fold in record["folds"]]}
    except Exception as error:
        log.warning("the losses of %s on its folds cannot be read: %s", trial.name, format_error_line(error)[:300])
        return {}


def _read_file(client: Any, bucket: str, key: str, log: Logger) -> bytes:
    """Return the content of folds.json in an archive; empty if the archive is large or has no such file."""
    response = call_with_retries(lambda: client.get_object(Bucket=bucket, Key=key), log, "S3")
    if response["ContentLength"] > MAX_BYTES:
        return b""
    with tarfile.open(fileobj=io.BytesIO(response["Body"].read())) as tar:
        for member in tar:
            if member.isfile() and member.name.removeprefix("./") == FOLDS_FILE:
                file = tar.extractfile(member)
                return file.read() if file else b""
    return b""
