"""BatchScoreOperator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.amazon.aws.operators.sagemaker import SageMakerTransformOperator
from airflow.sdk.definitions.context import Context

from leeway.hooks.transform.task import TransformFields, TransformTask
from leeway.operators.ingest import PARTITION
from leeway.operators.job import SageMakerJobOperator
from leeway.operators.step import skip_if_nothing_done


class BatchScoreOperator(SageMakerJobOperator, SageMakerTransformOperator):
    """Scores a published partition with the champion: in process, or by SageMaker Batch Transform where it is large.

    Either way the same predictions, in the same table. The task is skipped, with the reason, while there is no
    champion that may score the day. Of a large partition the rows and the packaged model are uploaded, once a content.
    The job is named as a function of DAG, task, map index and partition, and asked for before it is started: one of the
    same rows and model that runs is waited for, that completed is collected; one that failed, was stopped, lost its
    answers or was asked of other rows is followed by the next name (and stopped, if it ran). So a retry, a clear, a
    killed worker or another run of the day, when its labels came, never pays for a second job. A retry that finds the
    partition small now stops what the try before left running. Waits in the triggerer, where the job's log shows in the
    task's. A person's clear or mark stops the job. Idempotent.

    Args:
        dataset: dataset whose published partition is scored (templated).
        model_name: registered model (templated).
        partition: day to score, YYYY-MM-DD (templated); the run's partition where it is not given.
        version: version to score with (templated); the champion where it is not given.
        transform_above_rows: most rows that are scored in process (templated).
        image_uri: image with SageMaker's inference toolkit (templated); the SDK's xgboost one where it is not given.
        role_arn: execution role of the model (templated); the environment's LEEWAY_ROLE_ARN where it is not given.
        bucket: S3 bucket of rows, model and scores (templated); LEEWAY_BUCKET where it is not given.
        prefix: key prefix in it (templated).
        instance_type: such as ml.m5.xlarge (templated).
        instance_count: machines that share the rows, 250,000 at a time (templated).
        max_run_s: longest run, seconds (templated); SageMaker bounds no transform: the task stops it, for good.
        project: who pays (templated); section `budget` of params.yaml where it is not given.
        config: more of a request to CreateTransformJob, in its shape (templated): mappings are merged over the task's
            own, all else replaces it. Neither TransformJobName, ModelName, Tags nor TransformOutput.S3OutputPath.
        check_interval_s: seconds between two looks at the job (templated).
        deferrable: wait in the triggerer; in the worker where it is false.
        python: interpreter of the environment that has the steps; Airflow's own where it is empty (templated).
        env: more environment variables for the steps (templated). No secrets: they show in the UI.

    Returns:
        `ScoreResult`: table, partition, model_name, version, scored, changed, rows, large, reason; and transform_job
        (empty where it was scored in process), transform_job_arn, status, attempts, transform_s, cost_usd.
    """

    job_task = TransformTask
    job_fields = TransformFields
    template_fields: Sequence[str] = (
        *("aws_conn_id", "region_name", "verify", "dataset", "model_name", "partition", "version"),
        *("transform_above_rows", "image_uri", "role_arn", "bucket", "prefix", "instance_type", "instance_count"),
        *("max_run_s", "project", "config", "check_interval_s", "python", "env"),
    )
    ui_color = "#dcebf7"

    def __init__(
        self,
        *,
        dataset: str,
        model_name: str,
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
        deferrable: bool = True,
        python: str = "",
        env: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(config=config or {}, deferrable=deferrable, **kwargs)
        self.dataset, self.model_name, self.partition, self.version = dataset, model_name, partition, version
        self.transform_above_rows, self.image_uri, self.role_arn = transform_above_rows, image_uri, role_arn
        self.bucket, self.prefix, self.instance_type = bucket, prefix, instance_type
        self.instance_count, self.max_run_s, self.project = instance_count, max_run_s, project
        self.check_interval_s, self.python, self.env = check_interval_s, python, env

    def execute(self, context: Context) -> Any:
        """As `SageMakerJobOperator.execute`; skips where nothing may score the partition."""
        return skip_if_nothing_done(context, super().execute(context))

    def execute_complete(
        self, context: Context, event: dict[str, Any] | None = None, inputs: dict[str, Any] | None = None
    ) -> Any:
        """As `execute`, after the wait."""
        return skip_if_nothing_done(context, super().execute_complete(context, event, inputs))
