"""Check the fields of a scoring task, upload its inputs, and build its request."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from botocore.exceptions import BotoCoreError, ClientError

from leeway.hooks.sagemaker import request_checks
from leeway.hooks.sagemaker.aws_errors import format_error_line
from leeway.hooks.sagemaker.costs import CostAllocation, Costs
from leeway.hooks.sagemaker.named_jobs import compute_digest
from leeway.hooks.sagemaker.task import JobTask, Operation
from leeway.hooks.sagemaker.uploads import S3Uploader
from leeway.hooks.transform import job_requests
from leeway.hooks.transform.attempts import InProcessOperation, TransformAttempts
from leeway.hooks.transform.job_requests import TransformJobs

MAX_RUN_S = 28 * 24 * 3_600
"""Largest allowed max_run_s of a transform job, seconds."""


@dataclass(frozen=True)
class TransformFields:
    """The rendered fields of BatchScoreOperator; its docstring describes each."""

    dataset: str
    model: str
    partition: str
    version: str | None
    transform_above_rows: int | str
    image_uri: str
    role_arn: str
    bucket: str
    prefix: str
    instance_type: str
    instance_count: int | str
    max_run_s: int | str
    project: str
    config: Mapping[str, Any] | None
    check_interval_s: int | str
    priority: str


class TransformTask(JobTask):
    """One task that scores a partition, in a transform job if the partition is large."""

    jobs_class = TransformJobs
    fields: TransformFields
    jobs: TransformJobs

    def get_job_scope(self) -> str:
        """Return dataset, model and partition. All DAG runs for a partition score the same rows, so they share jobs."""
        return "/".join([self.fields.dataset, self.fields.model, self.fields.partition])

    def prepare_operation(self, inputs: Mapping[str, Any] | None = None) -> Operation:
        """Score a small partition; for a large one, check and upload its inputs; see `AwsTask.prepare_operation`."""
        if not inputs:
            result = self._run_score({"max_rows": self.parse_count_field("transform_above_rows")})
            if not result["large"]:
                return self._finish_in_process(result)
            inputs = self._upload_inputs()
        if not inputs:
            return self._finish_in_process(self._run_score({}))  # the result says why no version scores the partition
        region, fields = self.hook.conn_region_name or "us-east-1", self.fields
        allocation = CostAllocation(
            region, fields.project, fields.model, budget_usd=None, task=self.identity, priority=fields.priority
        )
        return TransformAttempts(
            self.connection.create_hook(S3Hook),
            self._build_model_request(inputs),
            self._run_score,
            jobs=self.jobs,
            costs=Costs(self.step_hook, allocation),
            inputs=inputs,
            request=self._build_request(inputs),
            max_run_s=self.parse_count_field("max_run_s", MAX_RUN_S),
            wait_template=self.build_wait_template(),
            log=self.log,
        )

    def _finish_in_process(self, result: Mapping[str, Any]) -> InProcessOperation:
        """Return the operation for a partition that needs no job; stop the job of an earlier try that needed one."""
        if self.is_retry:
            try:
                self.stop()
            except (BotoCoreError, ClientError) as error:
                self.log.warning("an earlier try may have left a job running: %s", format_error_line(error))
        return InProcessOperation(result)

    @property
    def _bucket(self) -> str:
        return self.get_setting("bucket", "LEEWAY_BUCKET")

    def _run_score(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        return self.step_hook.run("score", {**self._common_fields, **fields})

    @property
    def _common_fields(self) -> dict[str, Any]:
        """The fields that the steps `batch` and `score` have in common."""
        names = ("dataset", "model", "partition", "version")
        return {name: value for name in names if (value := getattr(self.fields, name)) is not None}

    def _upload_inputs(self) -> dict[str, Any]:
        """Check, upload and return the inputs that determine the scores; {} if no version may score the partition.

        `request` is the name of the rows that the step `batch` wrote, and no request to SageMaker.
        """
        with tempfile.TemporaryDirectory(prefix="leeway-") as parent:
            folder = Path(parent) / "batch"
            batch = self.step_hook.run("batch", {**self._common_fields, "folder": str(folder)})
            if not batch["request"]:
                return {}
            inputs = {"version": batch["version"], "request": batch["request"], "image": self._get_image()}
            self._check_request({**inputs, "model": f"s3://{self._bucket}/", "rows": f"s3://{self._bucket}/"})
            uploader = S3Uploader(self.connection.create_hook(S3Hook), self._bucket, self.fields.prefix, self.log)
            uploader.check_bucket()
            uris = {name: uploader.upload_channel(str(folder / name)) for name in ("model", "rows")}
            return {**inputs, **uris}

    def _get_image(self) -> str:
        if self.fields.image_uri:
            return self.fields.image_uri
        machine = {"region": self.hook.conn_region_name or "us-east-1", "instance_type": self._instance_type}
        return str(self.step_hook.run("image", machine)["image_uri"])

    @property
    def _instance_type(self) -> str:
        """The checked instance type: a scoring task has only one, and no on_no_capacity other than `fail`."""
        types = request_checks.check_instance_types(
            self.task_label, self.fields.instance_type, instance_types=None, policies=["fail"], policy="fail"
        )
        return types[0]

    def _build_model_request(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request to CreateModel."""
        container = {
            "Image": inputs["image"],
            "ModelDataUrl": f"{inputs['model']}model.tar.gz",
            "Environment": {
                "SAGEMAKER_PROGRAM": "inference.py",
                # Most images look for the code there by default; SageMaker's xgboost image looks in /opt/ml/code.
                "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
            },
        }
        name = f"{self.fields.model}-{inputs['version']}"
        return job_requests.build_model_request(name, self.get_setting("role_arn", "LEEWAY_ROLE_ARN"), container)

    def _build_request(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request to CreateTransformJob, without a name."""
        fields = job_requests.build_inputs(self._build_model_request(inputs)["ModelName"], inputs["rows"])
        output_uri = f"s3://{self._bucket}/{self.fields.prefix}/transform/{self.jobs.base}/{compute_digest(fields)}"
        request = {
            **fields,
            **job_requests.build_output(output_uri),
            "BatchStrategy": "MultiRecord",
            "TransformResources": {
                "InstanceType": self._instance_type,
                "InstanceCount": self.parse_count_field("instance_count"),
            },
            "Tags": self.build_tags(**self.list_cost_fields()),
        }
        return request_checks.merge_config(request, self.fields.config or {})

    def _check_request(self, inputs: Mapping[str, Any]) -> None:
        """Check the request before anything is uploaded. `inputs` has placeholders instead of the URIs."""
        for field in ("max_run_s", "check_interval_s"):
            self.parse_count_field(field, MAX_RUN_S)
        shape = self.hook.conn.meta.service_model.operation_model("CreateTransformJob").input_shape
        request_checks.check_shape({"TransformJobName": self.jobs.build_name(1), **self._build_request(inputs)}, shape)
