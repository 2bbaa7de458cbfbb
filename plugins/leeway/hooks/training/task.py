"""From the fields of a training task to its request: checked whole, before the first call."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.providers.amazon.aws.hooks.logs import AwsLogsHook
from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.sdk.exceptions import AirflowFailException

from leeway.hooks.sagemaker import request_checks
from leeway.hooks.sagemaker.costs import Account, Costs
from leeway.hooks.sagemaker.machines import POLICIES, Machine, ladder
from leeway.hooks.sagemaker.named_jobs import digest
from leeway.hooks.sagemaker.task import JobTask
from leeway.hooks.sagemaker.uploads import ChannelHook
from leeway.hooks.training import inputs as job_inputs
from leeway.hooks.training.attempts import Asked, TrainingAttempts
from leeway.hooks.training.fields import TrainingFields
from leeway.hooks.training.inputs import TrainingJobs
from pipelines import params
from pipelines.errors import LeewayError
from pipelines.versioning.git import describe_commit


class TrainingTask(JobTask):
    """One task that trains."""

    kind = TrainingJobs
    fields: TrainingFields

    def work(self, inputs: Mapping[str, Any] | None = None) -> TrainingAttempts:
        """See `JobTask.work`."""
        rungs, bucket = self._rungs(), self.given("bucket", "LEEWAY_BUCKET")
        budget_usd = request_checks.dollars(self.what("budget_usd"), self.fields.budget_usd)
        asked = Asked(self._request(bucket, inputs or self._inputs(bucket, rungs)), self.fields.config or {}, rungs)
        region = self.hook.conn_region_name or "us-east-1"
        account = Account(region, self.fields.project, self.fields.model, budget_usd, self.identity)
        logs = self.place.hook(AwsLogsHook)
        return TrainingAttempts(self.jobs, asked, Costs(self.step, account), logs, self.blank(), self.log)

    def _rungs(self) -> list[Machine]:
        """The machines to try in turn."""
        given, policy = self.fields, self.fields.on_no_capacity
        types = request_checks.instance_types(self.task, given.instance_type, given.instance_types, POLICIES, policy)
        first = Machine(
            instance_type=types[0],
            instance_count=self.whole("instance_count"),
            volume_size_gb=self.whole("volume_size_gb", request_checks.LARGEST_VOLUME_GB),
            spot=given.spot,
            max_run_s=self.whole("max_run_s", request_checks.LONGEST_RUN_S),
            max_wait_s=self.whole("max_wait_s"),
        )
        return ladder(first, types, policy)

    def _request(self, bucket: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The request to CreateTrainingJob, without name and machine."""
        root = f"s3://{bucket}/{self.fields.prefix}"
        return {
            **inputs,
            "RoleArn": self.given("role_arn", "LEEWAY_ROLE_ARN"),
            "OutputDataConfig": {"S3OutputPath": f"{root}/jobs"},
            # Of the task and its inputs, not of the try: the next one goes on where this one was interrupted, and no
            # other run writes there at the same time.
            "CheckpointConfig": {"S3Uri": f"{root}/checkpoints/{self.jobs.base}/{digest(inputs)}"},
            "Environment": self._variables(),
            "Tags": self.tags(project=self.fields.project, model=self.fields.model),
        }

    def _inputs(self, bucket: str, rungs: Sequence[Machine]) -> dict[str, Any]:
        """What decides the model: checked, then uploaded."""
        given = self.fields
        s3 = ChannelHook(self.place.hook(S3Hook), bucket, given.prefix)
        image, own = self._image(), {**self._params(), **(given.hyperparameters or {})}
        program, later = Path(given.entry_point).name, f"s3://{bucket}/{given.prefix}/features/"
        places = {name: place if place.startswith("s3://") else later for name, place in given.channels.items()}
        self._check(bucket, rungs, job_inputs.inputs(image, own, later, program, places))
        s3.check(given.channels.values())
        code = s3.bundle(self.project, given.entry_point, given.bundle)
        return job_inputs.inputs(image, own, code, program, {n: s3.channel(at) for n, at in given.channels.items()})

    def _check(self, bucket: str, rungs: Sequence[Machine], draft: Mapping[str, Any]) -> None:
        """The request is one that SageMaker takes, as far as its model says, before anything is uploaded for it."""
        request = Asked(self._request(bucket, draft), self.fields.config or {}, rungs).on(rungs[0])
        model = self.hook.conn.meta.service_model.operation_model("CreateTrainingJob").input_shape
        request_checks.shape({"TrainingJobName": self.jobs.name(1), **request}, model)
        request_checks.checkpoints(request, bucket)

    def _params(self) -> dict[str, Any]:
        try:
            return dict(params.load_section(self.project, "train").get("hyperparameters", {}))
        except LeewayError as error:
            raise AirflowFailException(str(error)) from None

    def _variables(self) -> dict[str, str]:
        """What the script is told of this place: where MLflow is, and which code this is."""
        tracking = os.environ.get("MLFLOW_TRACKING_URI", "")
        told = {"LEEWAY_GIT_COMMIT": describe_commit(self.project)}
        return told | ({"MLFLOW_TRACKING_URI": tracking} if tracking else {}) | dict(self.fields.environment or {})

    def _image(self) -> str:
        if self.fields.image_uri:
            return self.fields.image_uri
        asked = {"framework": self.fields.framework, "framework_version": self.fields.framework_version}
        place = {"region": self.hook.conn_region_name or "us-east-1", "instance_type": self.fields.instance_type}
        return str(self.step.run("image", {**asked, **place})["image_uri"])
