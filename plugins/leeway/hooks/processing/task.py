"""Check the fields of a preprocessing task, upload its inputs, and build its request."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.sdk.exceptions import AirflowFailException

from leeway.hooks.processing import inputs as job_inputs
from leeway.hooks.processing.attempts import ProcessingAttempts
from leeway.hooks.processing.inputs import ARCHIVE, ProcessingJobs
from leeway.hooks.sagemaker import request_checks
from leeway.hooks.sagemaker.costs import CostAllocation, Costs
from leeway.hooks.sagemaker.named_jobs import compute_digest
from leeway.hooks.sagemaker.task import JobTask
from leeway.hooks.sagemaker.uploads import S3Uploader
from pipelines import params
from pipelines.code_files import find_code_file, list_dataset_folders
from pipelines.errors import LeewayError

ENTRY_POINT = "pipelines/container/processing.py"
"""Script of the job, relative to the project."""
MAX_RUN_S = 5 * 24 * 3_600
"""SageMaker's limit of a processing job's MaxRuntimeInSeconds."""
SUFFIXES = (".py", ".txt", ".json")
"""Suffixes of the files that the job gets from `pipelines` and from the project's datasets."""


@dataclass(frozen=True)
class ProcessingFields:
    """The rendered fields of SparkPreprocessOperator; its docstring describes each."""

    snapshot: str
    folder: str
    model: str
    validation_days: int | str | None
    image_uri: str
    role_arn: str
    bucket: str
    prefix: str
    instance_type: str
    volume_size_gb: int | str
    max_run_s: int | str
    project: str
    environment: Mapping[str, str] | None
    config: Mapping[str, Any] | None
    check_interval_s: int | str
    priority: str


class ProcessingTask(JobTask):
    """One task that builds features in a processing job."""

    jobs_class = ProcessingJobs
    fields: ProcessingFields

    def prepare_operation(self, inputs: Mapping[str, Any] | None = None) -> ProcessingAttempts:
        """Check the fields, upload the code and the window, and return the attempts; see `AwsTask`."""
        bucket = self.get_setting("bucket", "LEEWAY_BUCKET")
        inputs = inputs or self._upload_inputs(bucket)
        request, s3 = self._build_request(bucket, inputs), self.connection.create_hook(S3Hook)
        region, fields = self.hook.conn_region_name or "us-east-1", self.fields
        allocation = CostAllocation(
            region, fields.project, fields.model, budget_usd=None, task=self.identity, priority=fields.priority
        )
        costs = Costs(self.step_hook, allocation)
        return ProcessingAttempts(
            s3,
            self.fields.folder,
            jobs=self.jobs,
            costs=costs,
            inputs=inputs,
            request=request,
            max_run_s=request["StoppingCondition"]["MaxRuntimeInSeconds"],
            wait_template=self.build_wait_template(),
            log=self.log,
        )

    def _build_request(self, bucket: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request to CreateProcessingJob, without a name."""
        output_uri = f"s3://{bucket}/{self.fields.prefix}/processing/{self.jobs.base}/{compute_digest(inputs)}"
        machine = {
            "InstanceCount": 1,
            "InstanceType": request_checks.check_instance_types(
                self.task_label, self.fields.instance_type, instance_types=None, policies=["fail"], policy="fail"
            )[0],
            "VolumeSizeInGB": self.parse_count_field("volume_size_gb", request_checks.MAX_VOLUME_GB),
        }
        request = {
            **inputs,
            **job_inputs.build_output(output_uri),
            "RoleArn": self.get_setting("role_arn", "LEEWAY_ROLE_ARN"),
            "ProcessingResources": {"ClusterConfig": machine},
            "StoppingCondition": {"MaxRuntimeInSeconds": self.parse_count_field("max_run_s", MAX_RUN_S)},
            "Environment": dict(self.fields.environment or {}),
            "Tags": self.build_tags(**self.list_cost_fields()),
        }
        return request_checks.merge_config(request, self.fields.config or {})

    def _upload_inputs(self, bucket: str) -> dict[str, Any]:
        """Check the inputs that determine the features, pack and upload them, and return them."""
        if not self.fields.image_uri:
            raise AirflowFailException(
                f"give image_uri= to {self.task_label}: an image with Java 17, PySpark and ibis."
            )
        self.parse_count_field("check_interval_s")
        arguments, placeholder = self._build_arguments(), f"s3://{bucket}/{self.fields.prefix}/data/"
        image = self.fields.image_uri
        self._check_request(bucket, job_inputs.build_inputs(image, placeholder, placeholder, arguments))
        uploader = S3Uploader(self.connection.create_hook(S3Hook), bucket, self.fields.prefix, self.log)
        code, window = self._upload_code_and_window(uploader)
        return job_inputs.build_inputs(image, code, window, arguments)

    def _upload_code_and_window(self, uploader: S3Uploader) -> tuple[str, str]:
        """Upload the code and the window; return their s3:// prefixes."""
        snapshot, archive = self.project_folder / self.fields.snapshot, self._build_archive()
        if not snapshot.is_file():
            raise AirflowFailException(f"{snapshot} does not exist: the step `snapshot` writes it.")
        uploader.check_bucket()
        # A folder beside the snapshot is most likely in the lake's file system: `pack` can then link files, not copy.
        with tempfile.TemporaryDirectory(dir=snapshot.parent, prefix=".window-") as parent:
            code_folder, window_folder = Path(parent).absolute() / "code", Path(parent).absolute() / "window"
            self.step_hook.run("pack", {"snapshot": str(snapshot.absolute()), "folder": str(window_folder)})
            code_folder.mkdir()
            (code_folder / ARCHIVE).write_bytes(archive)
            return uploader.upload_channel(str(code_folder)), uploader.upload_channel(str(window_folder))

    def _build_arguments(self) -> list[str]:
        """Return the options of the step `preprocess`, which the job runs."""
        if self.fields.validation_days is None:
            days = self._load_parameters().get("validation_days")
        else:
            days = self.parse_count_field("validation_days")
        return ["--engine", "spark", *([] if days is None else ["--validation-days", str(days)])]

    def _load_parameters(self) -> dict[str, Any]:
        """Load section `preprocess` of the model's parameters."""
        try:
            return params.load_section(self.project_folder, "preprocess", self.fields.model)
        except LeewayError as error:
            raise AirflowFailException(str(error)) from None

    def _check_request(self, bucket: str, draft: Mapping[str, Any]) -> None:
        """Check the request before anything is uploaded: `draft` has placeholders for the inputs' addresses."""
        shape = self.hook.conn.meta.service_model.operation_model("CreateProcessingJob").input_shape
        request_checks.check_shape(
            {"ProcessingJobName": self.jobs.build_name(1), **self._build_request(bucket, draft)}, shape
        )

    def _build_archive(self) -> bytes:
        """Return the code of `pipelines` and of the project's datasets as a zip that Python can run.

        Equal files give equal bytes.
        """
        entry_point = find_code_file(ENTRY_POINT, self.project_folder)
        if not entry_point.is_file():
            raise AirflowFailException(f"{entry_point} does not exist: set LEEWAY_PROJECT to the project's folder.")
        archive_files = {"__main__.py": entry_point}
        for folder in list_dataset_folders(self.project_folder):
            archive_files |= _list_code(folder, "pipelines/datasets")
        archive_files |= _list_code(find_code_file("pipelines/", self.project_folder), "pipelines")
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, path in sorted(archive_files.items()):
                archive.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
        return content.getvalue()


def _list_code(folder: Path, prefix: str) -> dict[str, Path]:
    """Return the files of code below a folder, by their paths in the archive."""
    files = (path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    return {f"{prefix}/{path.relative_to(folder)}": path for path in files}
