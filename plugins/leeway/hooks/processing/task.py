"""From the fields of a preprocessing task to its request: checked whole, before the first call."""

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
from leeway.hooks.sagemaker.named_jobs import digest
from leeway.hooks.sagemaker.task import JobTask
from leeway.hooks.sagemaker.uploads import ChannelHook

ENTRY = "pipelines/container/processing.py"
LONGEST_RUN_S = 5 * 24 * 3_600
"""SageMaker's limit of a processing job's MaxRuntimeInSeconds."""
KINDS = (".py", ".txt", ".json")
"""Files of `pipelines` that are code or go with it."""


@dataclass(frozen=True)
class ProcessingFields:
    """The fields of the operator, rendered; see there."""

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

    def work(self, inputs: Mapping[str, Any] | None = None) -> ProcessingAttempts:
        """See `JobTask.work`."""
        bucket = self.given("bucket", "LEEWAY_BUCKET")
        inputs = inputs or self._inputs(bucket)
        request, s3 = self._request(bucket, inputs), self.place.hook(S3Hook)
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
            blank=self.blank(),
            log=self.log,
        )

    def _request(self, bucket: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The request to CreateProcessingJob, without a name."""
        place = f"s3://{bucket}/{self.fields.prefix}/processing/{self.jobs.base}/{digest(inputs)}"
        machine = {
            "InstanceCount": 1,
            "InstanceType": request_checks.instance_types(self.task, self.fields.instance_type, None, ["fail"], "fail")[
                0
            ],
            "VolumeSizeInGB": self.whole("volume_size_gb", request_checks.LARGEST_VOLUME_GB),
        }
        request = {
            **inputs,
            **job_inputs.output(place),
            "RoleArn": self.given("role_arn", "LEEWAY_ROLE_ARN"),
            "ProcessingResources": {"ClusterConfig": machine},
            "StoppingCondition": {"MaxRuntimeInSeconds": self.whole("max_run_s", LONGEST_RUN_S)},
            "Environment": dict(self.fields.environment or {}),
            "Tags": self.tags(project=self.fields.project),
        }
        return request_checks.merged(request, self.fields.config or {})

    def _inputs(self, bucket: str) -> dict[str, Any]:
        """What decides the features: checked, then packed and uploaded."""
        given = self.fields
        if not given.image_uri:
            raise AirflowFailException(f"give image_uri= to {self.task}: an image with Java 17, PySpark and ibis.")
        self.whole("check_interval_s")
        arguments, later = self._arguments(), f"s3://{bucket}/{given.prefix}/data/"
        self._check(bucket, job_inputs.inputs(given.image_uri, later, later, arguments))
        s3 = ChannelHook(self.place.hook(S3Hook), bucket, given.prefix)
        code, window = self._uploaded(s3)
        return job_inputs.inputs(given.image_uri, code, window, arguments)

    def _uploaded(self, s3: ChannelHook) -> tuple[str, str]:
        """The s3:// prefixes of the code and of the window."""
        snapshot, archive = self.project / self.fields.snapshot, self._archive()
        if not snapshot.is_file():
            raise AirflowFailException(f"{snapshot} is not there: the step `snapshot` writes it.")
        s3.check([])
        # Beside the snapshot: in the lake's own file system, most likely, where a link does for a copy.
        with tempfile.TemporaryDirectory(dir=snapshot.parent, prefix=".window-") as folder:
            code, window = Path(folder).absolute() / "code", Path(folder).absolute() / "window"
            self.step.run("pack", {"snapshot": str(snapshot.absolute()), "folder": str(window)})
            code.mkdir()
            (code / ARCHIVE).write_bytes(archive)
            return s3.channel(str(code)), s3.channel(str(window))

    def _arguments(self) -> list[str]:
        days = [] if self.fields.validation_days is None else ["--validation-days", str(self.whole("validation_days"))]
        return ["--engine", "spark", *days]

    def _check(self, bucket: str, draft: Mapping[str, Any]) -> None:
        """The request is one that SageMaker takes, as far as its model says, before anything is uploaded for it."""
        model = self.hook.conn.meta.service_model.operation_model("CreateProcessingJob").input_shape
        request_checks.shape({"ProcessingJobName": self.jobs.name(1), **self._request(bucket, draft)}, model)

    def _archive(self) -> bytes:
        """The whole of `pipelines`, to be run by Python as it is: equal files give equal bytes."""
        root = self.project / "pipelines"
        files = sorted(one for one in root.rglob("*") if one.suffix in KINDS and one.is_file())
        if not (self.project / ENTRY).is_file():
            raise AirflowFailException(f"{self.project / ENTRY} is not there: LEEWAY_PROJECT must be the project.")
        members = {"__main__.py": self.project / ENTRY} | {str(one.relative_to(self.project)): one for one in files}
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, path in sorted(members.items()):
                archive.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
        return made.getvalue()
