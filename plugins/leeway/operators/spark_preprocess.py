"""The operator that builds features with Spark in a SageMaker processing job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.amazon.aws.operators.sagemaker import SageMakerProcessingOperator

from leeway.hooks.processing.task import ProcessingFields, ProcessingTask
from leeway.hooks.sagemaker.priority import Priority
from leeway.operators.job import SageMakerJobOperator


class SparkPreprocessOperator(SageMakerJobOperator, SageMakerProcessingOperator):
    """Build the features of a pinned window with Spark, in a SageMaker processing job.

    The window's data files and the code of `pipelines` are uploaded, unless S3 has the same content already. The job's
    name depends on DAG, run, task and map index. Before the task starts a job, it looks for a job with that name and
    the same inputs. If the job runs, the task waits for it; if it completed, the task collects its result; else the
    task starts a job with the next name. So no second job is paid for after a retry or a killed worker, or if a task is
    cleared whose job has completed. The task waits in the triggerer, and shows the job's log in its own. If a person
    clears the task or marks its state while the job runs, the job is stopped. Idempotent.

    Args:
        snapshot: file of the pinned window, as the step `snapshot` wrote it, relative to the project (templated).
        folder: folder to download the features to (templated); if empty, they stay in S3.
        model: registered model that the features are for (templated); its parameters give the defaults of
            `validation_days` and `project`. If empty, params.yaml alone gives them.
        validation_days: number of days at the end of the training window that are used for validation (templated); by
            default section `preprocess` of the parameters decides, or else the step's default.
        image_uri: image with Java 17, PySpark, ibis and the packages that docs/how-to/processing-job.md lists
            (templated).
        role_arn: execution role of the job (templated); by default the environment's LEEWAY_ROLE_ARN.
        bucket: S3 bucket of window, code and features (templated); by default LEEWAY_BUCKET.
        prefix: key prefix in the bucket (templated).
        instance_type: type of the job's only instance, such as ml.m5.xlarge (templated): Spark uses all its
            cores.
        volume_size_gb: size of the disk, GB, for the window, Spark's temporary files and the features (templated).
        max_run_s: longest run, seconds (templated).
        project: project to which the cost is charged (templated); by default the one in section `budget` of the
            parameters.
        environment: variables of the job, such as SPARK_DRIVER_MEMORY=12g (templated). No secrets: they show in the UI.
        config: more fields of the request to CreateProcessingJob (templated): mappings are merged into the task's own,
            other values replace the task's. `config` may not have ProcessingJobName, Tags or
            ProcessingOutputConfig.Outputs.
        check_interval_s: seconds between two requests for the job's state (templated).
        priority: `low`, `normal` or `high`: which tasks Airflow starts first when the task's pool has few free slots,
            by priority_weight. A job that runs is not interrupted. Empty: normal.
        deferrable: whether to wait in the triggerer; if not, the task waits in the worker.
        python: interpreter of the environment that has the ML libraries (templated); if empty, LEEWAY_PYTHON, or else
            the interpreter that runs Airflow.
        env: more environment variables for the steps (templated). No secrets: they show in the UI.

    Returns:
        `PreprocessResult`: features (`folder`, or their s3:// address), rows_train, rows_validation, rows_holdout,
        digest; and channels (name to s3:// prefix, for a training), processing_job, processing_job_arn, status,
        attempts, processing_s, cost_usd.
    """

    job_task_class = ProcessingTask
    job_fields_class = ProcessingFields
    template_fields: Sequence[str] = (
        *("aws_conn_id", "region_name", "verify", "snapshot", "folder", "validation_days", "image_uri", "role_arn"),
        *("model", "bucket", "prefix", "instance_type", "volume_size_gb", "max_run_s", "project", "environment"),
        *("config", "check_interval_s", "python", "env"),
    )
    ui_color = "#dcebf7"

    def __init__(
        self,
        *,
        snapshot: str = "data/snapshot.json",
        folder: str = "",
        model: str = "",
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
        priority: Priority = "",
        deferrable: bool = True,
        python: str = "",
        env: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(config=config or {}, deferrable=deferrable, priority=priority, **kwargs)
        self.snapshot, self.folder, self.model, self.validation_days = snapshot, folder, model, validation_days
        self.image_uri, self.role_arn, self.bucket, self.prefix = image_uri, role_arn, bucket, prefix
        self.instance_type, self.volume_size_gb, self.max_run_s = instance_type, volume_size_gb, max_run_s
        self.project, self.environment, self.check_interval_s = project, environment, check_interval_s
        self.python, self.env = python, env
