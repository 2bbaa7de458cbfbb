"""The operator that scores a partition on the worker, or by SageMaker Batch Transform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.amazon.aws.operators.sagemaker import SageMakerTransformOperator
from airflow.sdk.definitions.context import Context

from leeway.hooks.sagemaker.priority import Priority
from leeway.hooks.transform.task import TransformFields, TransformTask
from leeway.operators.ingest import PARTITION
from leeway.operators.job import SageMakerJobOperator
from leeway.operators.step import skip_if_nothing_done


class BatchScoreOperator(SageMakerJobOperator, SageMakerTransformOperator):
    """Score a published partition with the champion: on the worker, or by SageMaker Batch Transform if it is large.

    Both methods write the same predictions to the same table. If no champion was trained as of the partition's first
    day or before, the task is skipped, and its log gives the reason: a version that was trained later may have seen
    labels of the partition.

    For a large partition, the rows and the packaged model are uploaded, unless S3 has the same content already. The
    job's name depends on DAG, task, map index and partition. Before the task starts a job, it looks for a job with that
    name, the same rows and the same model. If the job runs, the task waits for it; if it completed, the task collects
    its scores. If it failed, was stopped or has other rows, or if its scores were deleted, the task starts a job with
    the next name. So a retry, a killed worker, new labels of the partition, or a clear of a task that succeeded do not
    cost a second job. If the partition has become small before a retry, the retry stops the job of the earlier try.

    The task waits in the triggerer, and copies the job's log to the task's log. If a person clears the waiting task or
    marks its state, the job is stopped. Idempotent.

    Args:
        dataset: dataset whose published partition is scored (templated); by default the one in the model's parameters.
        model: registered model (templated).
        partition: day, hour or month to score (templated), as for `IngestOperator`; by default the run's partition.
        version: version to score with (templated); by default the champion; for a partition that begins before the
            champion's as_of, the champion of that day.
        transform_above_rows: largest number of rows that the worker scores itself (templated).
        image_uri: image with SageMaker's inference toolkit (templated); by default the SDK's xgboost image.
        role_arn: execution role of the model (templated); by default the environment's LEEWAY_ROLE_ARN.
        bucket: S3 bucket of rows, model and scores (templated); by default LEEWAY_BUCKET.
        prefix: key prefix in the bucket (templated).
        instance_type: instance type of the job, such as ml.m5.xlarge (templated).
        instance_count: number of instances that share the rows, in files of 250,000 rows (templated).
        max_run_s: maximum run time, seconds (templated). After this time the task stops the job and fails: SageMaker
            has no such limit for these jobs.
        project: project to which the cost is charged (templated); by default the one in params.yaml, section `budget`.
        config: more fields of the request to CreateTransformJob (templated): mappings are merged into the task's own,
            other values replace the task's. `config` may not have TransformJobName, ModelName, Tags or
            TransformOutput.S3OutputPath.
        check_interval_s: seconds between two requests for the job's state (templated).
        priority: `low`, `normal` or `high`, as the task's priority_weight: if its pool has few free slots, Airflow
            starts tasks of a higher priority first. A job that runs is not interrupted. Empty: normal.
        deferrable: whether to wait in the triggerer; if not, the task waits in the worker.
        python: interpreter of the environment that has the ML libraries (templated); if empty, LEEWAY_PYTHON, or else
            the interpreter that runs Airflow.
        env: more environment variables for the steps (templated). No secrets: they show in the UI.

    Returns:
        `ScoreResult`: table, partition, model_name, version, scored, changed, rows, large, reason; and transform_job
        (empty if there was no job), transform_job_arn, status, attempts, transform_s, cost_usd.
    """

    job_task_class = TransformTask
    job_fields_class = TransformFields
    template_fields: Sequence[str] = (
        *("aws_conn_id", "region_name", "verify", "dataset", "model", "partition", "version"),
        *("transform_above_rows", "image_uri", "role_arn", "bucket", "prefix", "instance_type", "instance_count"),
        *("max_run_s", "project", "config", "check_interval_s", "python", "env"),
    )
    ui_color = "#dcebf7"

    def __init__(
        self,
        *,
        dataset: str = "",
        model: str,
        partition: str = PARTITION,
        version: str | None = None,
        transform_above_rows: int | str = 1_000_000,
        image_uri: str = "",
        role_arn: str = "",
        bucket: str = "",
        prefix: str = "leeway",
        instance_type: str = "ml.m5.xlarge",
        instance_count: int | str = 1,
        max_run_s: int | str = 3_600,
        project: str = "",
        config: Mapping[str, Any] | None = None,
        check_interval_s: int | str = 30,
        priority: Priority = "",
        deferrable: bool = True,
        python: str = "",
        env: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(config=config or {}, deferrable=deferrable, priority=priority, **kwargs)
        self.dataset, self.model, self.partition, self.version = dataset, model, partition, version
        self.transform_above_rows, self.image_uri, self.role_arn = transform_above_rows, image_uri, role_arn
        self.bucket, self.prefix, self.instance_type = bucket, prefix, instance_type
        self.instance_count, self.max_run_s, self.project = instance_count, max_run_s, project
        self.check_interval_s, self.python, self.env = check_interval_s, python, env

    def execute(self, context: Context) -> Any:
        """Score the partition, and return the result. If no version may score it, skip the task."""
        return skip_if_nothing_done(context, super().execute(context))

    def execute_complete(
        self, context: Context, event: dict[str, Any] | None = None, inputs: dict[str, Any] | None = None
    ) -> Any:
        """Collect the scores after the trigger's wait, and return the result. If nothing was scored, skip the task."""
        return skip_if_nothing_done(context, super().execute_complete(context, event, inputs))
