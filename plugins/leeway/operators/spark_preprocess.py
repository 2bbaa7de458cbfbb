"""SparkPreprocessOperator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.amazon.aws.operators.sagemaker import SageMakerProcessingOperator

from leeway.hooks.processing.task import ProcessingFields, ProcessingTask
from leeway.operators.job import SageMakerJobOperator


class SparkPreprocessOperator(SageMakerJobOperator, SageMakerProcessingOperator):
    """Builds the features of a pinned window with Spark in a SageMaker processing job, one job a task.

    The window's data files and the code of `pipelines` are uploaded, once a content. The job is named as a function of
    DAG, run, task and map index, and asked for before it is started: one from the same inputs that runs is waited for,
    that completed is collected; one that failed, was stopped or had other inputs is followed by the next name (and
    stopped, if it ran). So a retry, a clear or a killed worker never pays for a second job. Waits in the triggerer,
    where the job's log shows in the task's. A person's clear or mark stops the job. Idempotent.

    Args:
        snapshot: the pinned window, as the step `snapshot` wrote it, relative to the project (templated).
        folder: where the features are brought (templated), their digest checked; they stay in S3 where it is empty.
        validation_days: last days of training that are kept apart (templated); the step's own default where it is None.
        image_uri: image with Java 17, PySpark, ibis and what else docs/how-to/processing-job.md lists (templated).
        role_arn: execution role of the job (templated); the environment's LEEWAY_ROLE_ARN where it is not given.
        bucket: S3 bucket of window, code and features (templated); LEEWAY_BUCKET where it is not given.
        prefix: key prefix in it (templated).
        instance_type: such as ml.m5.xlarge (templated): Spark uses all cores of the one machine.
        volume_size_gb: disk, GB: the window, what Spark spills, the features (templated).
        max_run_s: longest time, seconds (templated).
        project: who pays (templated); section `budget` of params.yaml where it is not given.
        environment: variables of the job, such as SPARK_DRIVER_MEMORY=12g (templated). No secrets: they show in the UI.
        config: more of a request to CreateProcessingJob, in its shape (templated): mappings are merged over the task's
            own, all else replaces it. Neither ProcessingJobName, Tags nor ProcessingOutputConfig.Outputs.
        check_interval_s: seconds between two looks at the job (templated).
        deferrable: wait in the triggerer; in the worker where it is false.
        python: interpreter of the environment that has the steps; Airflow's own where it is empty (templated).
        env: more environment variables for the steps (templated). No secrets: they show in the UI.

    Returns:
        `PreprocessResult`: features (`folder`, or their s3:// address), rows_train, rows_validation, rows_holdout,
        digest; and channels (name to s3:// prefix, for a training), processing_job, processing_job_arn, status,
        attempts, processing_s, cost_usd.
    """

    job_task = ProcessingTask
    job_fields = ProcessingFields
    template_fields: Sequence[str] = (
        *("aws_conn_id", "region_name", "verify", "snapshot", "folder", "validation_days", "image_uri", "role_arn"),
        *("bucket", "prefix", "instance_type", "volume_size_gb", "max_run_s", "project", "environment"),
        *("config", "check_interval_s", "python", "env"),
    )
    ui_color = "#dcebf7"

    def __init__(
        self,
        *,
        snapshot: str = "data/snapshot.json",
        folder: str = "",
        validation_days: int | str | None = None,
        image_uri: str = "",
        role_arn: str = "",
        bucket: str = "",
        prefix: str = "leeway",
        instance_type: str = "ml.m5.xlarge",
        volume_size_gb: int | str = 30,
        max_run_s: int | str = 3_600,
        project: str = "",
        environment: Mapping[str, str] | None = None,
        config: Mapping[str, Any] | None = None,
        check_interval_s: int | str = 30,
        deferrable: bool = True,
        python: str = "",
        env: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(config=config or {}, deferrable=deferrable, **kwargs)
        self.snapshot, self.folder, self.validation_days = snapshot, folder, validation_days
        self.image_uri, self.role_arn, self.bucket, self.prefix = image_uri, role_arn, bucket, prefix
        self.instance_type, self.volume_size_gb, self.max_run_s = instance_type, volume_size_gb, max_run_s
        self.project, self.environment, self.check_interval_s = project, environment, check_interval_s
        self.python, self.env = python, env
