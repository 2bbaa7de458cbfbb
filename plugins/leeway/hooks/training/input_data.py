"""Measure the data of a training job before it starts. A failure is only logged, since the job must start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow.providers.amazon.aws.hooks.s3 import S3Hook

from leeway.hooks.sagemaker.connection import AwsConnection
from leeway.hooks.sagemaker.costs import MAX_ERROR_CHARS, USAGE_CONFIG
from leeway.hooks.step.hook import Logger
from pipelines.costs.job_records import INPUT_BYTES_VARIABLE
from pipelines.costs.usage.input_data import MAX_LISTING_S, MAX_OBJECTS, list_channels, measure_channels


def measure_input_bytes(connection: AwsConnection, channels: Mapping[str, str] | None, log: Logger) -> int | None:
    """Return the bytes of the data in the channels of a training job; if not known, log a line and return None.

    Args:
        connection: connection to AWS. The timeouts of `USAGE_CONFIG` replace the connection's own, so that the task
            does not wait long for a figure that it does not need.
        channels: channel name to s3:// prefix or folder; None if a channel is neither a prefix nor a folder.
        log: log of the task.
    """
    if channels is None:
        log.info("the size of the job's data is not known: a channel is a manifest, or is not in S3")
        return None
    try:
        config = {**(connection.botocore_config or {}), **USAGE_CONFIG}
        s3 = replace(connection, botocore_config=config).create_hook(S3Hook).get_conn()
        input_bytes = measure_channels(s3, channels)
    except Exception as error:
        text = " ".join(str(error).split())[:MAX_ERROR_CHARS]
        log.warning("the size of the job's data is not known, because its objects cannot be listed: %s", text)
        return None
    if input_bytes is None:
        log.info(
            "the size of the job's data is not known: it has no bytes, or more than %d objects, or listing them takes "
            "more than %d s",
            *(MAX_OBJECTS, MAX_LISTING_S),
        )
    return input_bytes


def build_size_variables(connection: AwsConnection, request: Mapping[str, Any], log: Logger) -> dict[str, str]:
    """Return the environment variable that states the bytes of a training job's data; {} if they are not known.

    The figure is recorded before the start, because objects may be added to a prefix later.

    Args:
        connection: connection to AWS.
        request: request to CreateTrainingJob.
        log: log of the task.
    """
    input_bytes = measure_input_bytes(connection, list_channels(request), log)
    return {} if input_bytes is None else {INPUT_BYTES_VARIABLE: str(input_bytes)}
