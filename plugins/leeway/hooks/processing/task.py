"""Build the request of a preprocessing task from its fields, and check all of it before the first call."""

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
from leeway.hooks.sagemaker.costs import Account, Costs
from leeway.hooks.sagemaker.named_jobs import compute_digest
from leeway.hooks.sagemaker.task import JobTask
from leeway.hooks.sagemaker.uploads import S3Uploader

ENTRY = "pipelines/container/processing.py"
LONGEST_RUN_S = 5 * 24 * 3_600
"""SageMaker's limit of a processing job's MaxRuntimeInSeconds."""
SUFFIXES = (".py", ".txt", ".json")
"""Files of `pipelines` that are code or go with it."""


@dataclass(frozen=True)
class ProcessingFields:
    """The rendered fields of SparkPreprocessOperator; its docstring describes each."""

    snapshot: str
    folder: str
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


class ProcessingTask(JobTask):
    """One task that builds features in a processing job."""

    kind = ProcessingJobs
    fields: ProcessingFields

    def prepare_work(self, inputs: Mapping[str, Any] | None = None) -> ProcessingAttempts:
        """See `JobTask.prepare_work`."""
        bucket = self.get_setting("bucket", "LEEWAY_BUCKET")
        inputs = inputs or self._upload_inputs(bucket)
        request, s3 = self._build_request(bucket, inputs), self.connection.create_hook(S3Hook)
        account = Account(self.hook.conn_region_name or "us-east-1", self.fields.project, "", None, self.identity)
        costs = Costs(self.step, account)
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
        place = f"s3://{bucket}/{self.fields.prefix}/processing/{self.jobs.base}/{compute_digest(inputs)}"
        machine = {
            "InstanceCount": 1,
            "InstanceType": request_checks.check_instance_types(
                self.task, self.fields.instance_type, None, ["fail"], "fail"
            )[0],
            "VolumeSizeInGB": self.parse_count_field("volume_size_gb", request_checks.LARGEST_VOLUME_GB),
        }
        request = {
            **inputs,
            **job_inputs.build_output(place),
            "RoleArn": self.get_setting("role_arn", "LEEWAY_ROLE_ARN"),
            "ProcessingResources": {"ClusterConfig": machine},
            "StoppingCondition": {"MaxRuntimeInSeconds": self.parse_count_field("max_run_s", LONGEST_RUN_S)},
            "Environment": dict(self.fields.environment or {}),
            "Tags": self.build_tags(project=self.fields.project),
        }
        return request_checks.merge_config(request, self.fields.config or {})

    def _upload_inputs(self, bucket: str) -> dict[str, Any]:
        """Check the inputs that decide the features, pack and upload them, and return them."""
        if not self.fields.image_uri:
            raise AirflowFailException(f"give image_uri= to {self.task}: an image with Java 17, PySpark and ibis.")
        self.parse_count_field("check_interval_s")
        arguments, placeholder = self._build_arguments(), f"s3://{bucket}/{self.fields.prefix}/data/"
        image = self.fields.image_uri
        self._check_request(bucket, job_inputs.build_inputs(image, placeholder, placeholder, arguments))
        s3 = S3Uploader(self.connection.create_hook(S3Hook), bucket, self.fields.prefix)
        code, window = self._upload_code_and_window(s3)
        return job_inputs.build_inputs(image, code, window, arguments)

    def _upload_code_and_window(self, s3: S3Uploader) -> tuple[str, str]:
        """Upload the code and the window; return their s3:// prefixes."""
        snapshot, archive = self.project / self.fields.snapshot, self._build_archive()
        if not snapshot.is_file():
            raise AirflowFailException(f"{snapshot} does not exist: the step `snapshot` writes it.")
        s3.check_channels([])
        # A folder beside the snapshot is most likely in the lake's own file system, where a link can replace a copy.
        with tempfile.TemporaryDirectory(dir=snapshot.parent, prefix=".window-") as folder:
            code, window = Path(folder).absolute() / "code", Path(folder).absolute() / "window"
            self.step.run("pack", {"snapshot": str(snapshot.absolute()), "folder": str(window)})
            code.mkdir()
            (code / ARCHIVE).write_bytes(archive)
            return s3.upload_channel(str(code)), s3.upload_channel(str(window))

    def _build_arguments(self) -> list[str]:
        days = (
            []
            if self.fields.validation_days is None
            else ["--validation-days", str(self.parse_count_field("validation_days"))]
        )
        return ["--engine", "spark", *days]

    def _check_request(self, bucket: str, draft: Mapping[str, Any]) -> None:
        """Check, before anything is uploaded, that the service's own model allows the request."""
        model = self.hook.conn.meta.service_model.operation_model("CreateProcessingJob").input_shape
        request_checks.check_shape(
            {"ProcessingJobName": self.jobs.build_name(1), **self._build_request(bucket, draft)}, model
        )

    def _build_archive(self) -> bytes:
        """Return all of `pipelines` as a zip that Python can run; equal files give equal bytes."""
        root = self.project / "pipelines"
        files = sorted(path for path in root.rglob("*") if path.suffix in SUFFIXES and path.is_file())
        if not (self.project / ENTRY).is_file():
            raise AirflowFailException(f"{self.project / ENTRY} does not exist: LEEWAY_PROJECT must be the project.")
        members = {"__main__.py": self.project / ENTRY} | {str(path.relative_to(self.project)): path for path in files}
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, path in sorted(members.items()):
                archive.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
        return content.getvalue()
