"""From the fields of a scoring task to its request: checked whole, before anything is sent."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from botocore.exceptions import BotoCoreError, ClientError

from leeway.hooks.sagemaker import request_checks
from leeway.hooks.sagemaker.aws_errors import line
from leeway.hooks.sagemaker.costs import Account, Costs
from leeway.hooks.sagemaker.named_jobs import digest
from leeway.hooks.sagemaker.task import JobTask, Work
from leeway.hooks.sagemaker.uploads import ChannelHook
from leeway.hooks.transform import inputs as job_inputs
from leeway.hooks.transform.attempts import InProcess, TransformAttempts
from leeway.hooks.transform.inputs import TransformJobs

LONGEST_RUN_S = 28 * 24 * 3_600
"""SageMaker's own limit of a transform job."""


@dataclass(frozen=True)
class TransformFields:
    """The fields of the operator, rendered; see there."""

    dataset: str
    model_name: str
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


class TransformTask(JobTask):
    """One task that scores a partition, in a transform job where that is large."""

    kind = TransformJobs
    fields: TransformFields
    jobs: TransformJobs

    def occasion(self) -> str:
        """The partition: another run of it, for labels that came, asks the model of the same rows."""
        return "/".join([self.fields.dataset, self.fields.model_name, self.fields.partition])

    def work(self, inputs: Mapping[str, Any] | None = None) -> Work:
        """See `JobTask.work`."""
        if not inputs:
            scored = self._score({"max_rows": self.whole("transform_above_rows")})
            if not scored["large"]:
                return self._in_process(scored)
            inputs = self._inputs()
        if not inputs:
            return self._in_process(self._score({}))  # which says why nothing is to be asked of a job
        account = Account(
            self.hook.conn_region_name or "us-east-1", self.fields.project, self.fields.model_name, None, self.identity
        )
        return TransformAttempts(
            self.place.hook(S3Hook),
            self._model(inputs),
            self._score,
            jobs=self.jobs,
            costs=Costs(self.step, account),
            inputs=inputs,
            request=self._request(inputs),
            max_run_s=self.whole("max_run_s", LONGEST_RUN_S),
            blank=self.blank(),
            log=self.log,
        )

    def _in_process(self, scored: Mapping[str, Any]) -> InProcess:
        """No job is needed; one that an earlier try left, when there were more rows or another champion, is stopped."""
        if self.again:
            try:
                self.stop()
            except (BotoCoreError, ClientError) as error:
                self.log.warning("whether an earlier try left a job running is not known: %s", line(error))
        return InProcess(scored)

    @property
    def _bucket(self) -> str:
        return self.given("bucket", "LEEWAY_BUCKET")

    def _score(self, more: Mapping[str, Any]) -> dict[str, Any]:
        return self.step.run("score", {**self._partition, **more})

    @property
    def _partition(self) -> dict[str, Any]:
        """What the steps `batch` and `score` have in common."""
        names = ("dataset", "model_name", "partition", "version")
        return {name: value for name in names if (value := getattr(self.fields, name)) is not None}

    def _inputs(self) -> dict[str, Any]:
        """What decides the scores: checked, then uploaded; nothing where no version may score the partition."""
        with tempfile.TemporaryDirectory(prefix="leeway-") as made:
            folder = Path(made) / "sent"
            told = self.step.run("batch", {**self._partition, "folder": str(folder)})
            if not told["request"]:
                return {}
            known = {"version": told["version"], "request": told["request"], "image": self._image()}
            self._check({**known, "model": f"s3://{self._bucket}/", "rows": f"s3://{self._bucket}/"})
            s3 = ChannelHook(self.place.hook(S3Hook), self._bucket, self.fields.prefix)
            s3.check([])
            return {**known, "model": s3.channel(str(folder / "model")), "rows": s3.channel(str(folder / "rows"))}

    def _image(self) -> str:
        if self.fields.image_uri:
            return self.fields.image_uri
        place = {"region": self.hook.conn_region_name or "us-east-1", "instance_type": self._instance_type}
        return str(self.step.run("image", place)["image_uri"])

    @property
    def _instance_type(self) -> str:
        return request_checks.instance_types(self.task, self.fields.instance_type, None, ["fail"], "fail")[0]

    def _model(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The request to CreateModel."""
        container = {
            "Image": inputs["image"],
            "ModelDataUrl": f"{inputs['model']}model.tar.gz",
            "Environment": {
                "SAGEMAKER_PROGRAM": "inference.py",
                # Most images look there by themselves; SageMaker's xgboost one looks in /opt/ml/code.
                "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
            },
        }
        name = f"{self.fields.model_name}-{inputs['version']}"
        return job_inputs.model(name, self.given("role_arn", "LEEWAY_ROLE_ARN"), container)

    def _request(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The request to CreateTransformJob, without a name."""
        asked = job_inputs.asked(self._model(inputs)["ModelName"], inputs["rows"])
        place = f"s3://{self._bucket}/{self.fields.prefix}/transform/{self.jobs.base}/{digest(asked)}"
        request = {
            **asked,
            **job_inputs.output(place),
            "BatchStrategy": "MultiRecord",
            "TransformResources": {"InstanceType": self._instance_type, "InstanceCount": self.whole("instance_count")},
            "Tags": self.tags(project=self.fields.project, model=self.fields.model_name),
        }
        return request_checks.merged(request, self.fields.config or {})

    def _check(self, inputs: Mapping[str, Any]) -> None:
        """The request is one that SageMaker takes, as far as its model says, before anything is uploaded for it."""
        for field in ("max_run_s", "check_interval_s"):
            self.whole(field, LONGEST_RUN_S)
        model = self.hook.conn.meta.service_model.operation_model("CreateTransformJob").input_shape
        request_checks.shape({"TransformJobName": self.jobs.name(1), **self._request(inputs)}, model)
