"""Check the fields of a training task, upload its inputs, and build its request."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.providers.amazon.aws.hooks.logs import AwsLogsHook
from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.sdk.exceptions import AirflowFailException

from leeway.hooks.sagemaker import request_checks
from leeway.hooks.sagemaker.costs import CostAllocation, Costs
from leeway.hooks.sagemaker.machines import POLICIES, Machine, list_machines_to_try
from leeway.hooks.sagemaker.named_jobs import compute_digest
from leeway.hooks.sagemaker.task import JobTask
from leeway.hooks.sagemaker.uploads import S3Uploader
from leeway.hooks.training import inputs as job_inputs
from leeway.hooks.training.attempts import RequestTemplate, TrainingAttempts
from leeway.hooks.training.distribution import build_distribution_settings
from leeway.hooks.training.fields import TrainingFields
from leeway.hooks.training.inputs import TrainingJobs
from pipelines import params
from pipelines.code_files import find_project
from pipelines.errors import LeewayError
from pipelines.versioning.git import describe_commit, read_workspace_commit


class TrainingTask(JobTask):
    """One task that trains a model."""

    jobs_class = TrainingJobs
    fields: TrainingFields

    def prepare_work(self, inputs: Mapping[str, Any] | None = None) -> TrainingAttempts:
        """Check the fields, upload the code and the channels, and return the attempts; see `AwsTask.prepare_work`."""
        machines, bucket = self._list_machines(), self.get_setting("bucket", "LEEWAY_BUCKET")
        budget_usd = request_checks.parse_usd(self.describe_field("budget_usd"), self.fields.budget_usd)
        request = self._build_request(bucket, inputs or self._upload_inputs(bucket, machines))
        template = RequestTemplate(request, self.fields.config or {}, machines)
        region = self.hook.conn_region_name or "us-east-1"
        allocation = CostAllocation(region, self.fields.project, self.fields.model, budget_usd, self.identity)
        logs = self.connection.create_hook(AwsLogsHook)
        return TrainingAttempts(
            self.jobs, template, Costs(self.step_hook, allocation), logs, self.build_wait_template(), self.log
        )

    def _list_machines(self) -> list[Machine]:
        """Return the machines to try in turn."""
        fields, policy = self.fields, self.fields.on_no_capacity
        types = request_checks.check_instance_types(
            self.task_label, fields.instance_type, fields.instance_types, POLICIES, policy
        )
        machine = Machine(
            instance_type=types[0],
            instance_count=self.parse_count_field("instance_count"),
            volume_size_gb=self.parse_count_field("volume_size_gb", request_checks.MAX_VOLUME_GB),
            spot=fields.spot,
            max_run_s=self.parse_count_field("max_run_s", request_checks.MAX_RUN_S),
            max_wait_s=self.parse_count_field("max_wait_s"),
        )
        return list_machines_to_try(machine, types, policy)

    def _build_request(self, bucket: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request to CreateTrainingJob, without a name, a machine and `config`."""
        root_uri = f"s3://{bucket}/{self.fields.prefix}"
        return {
            **inputs,
            "RoleArn": self.get_setting("role_arn", "LEEWAY_ROLE_ARN"),
            "OutputDataConfig": {"S3OutputPath": f"{root_uri}/jobs"},
            # The folder depends on the task and its inputs, not on the try: the next try resumes where this one was
            # interrupted, and no other run writes there at the same time.
            "CheckpointConfig": {"S3Uri": f"{root_uri}/checkpoints/{self.jobs.base}/{compute_digest(inputs)}"},
            "Environment": self._build_environment(),
            "Tags": self.build_tags(project=self.fields.project, model=self.fields.model),
        }

    def _upload_inputs(self, bucket: str, machines: Sequence[Machine]) -> dict[str, Any]:
        """Check the inputs that decide the model, upload them, and return them."""
        fields = self.fields
        uploader = S3Uploader(self.connection.create_hook(S3Hook), bucket, fields.prefix, self.log)
        settings = build_distribution_settings(fields.distribution, machines[0].instance_type)
        image = self._get_image()
        hyperparameters = {**self._load_hyperparameters(), **(fields.hyperparameters or {}), **settings}
        program, placeholder = Path(fields.entry_point).name, f"s3://{bucket}/{fields.prefix}/features/"
        draft_channels = {
            name: channel if channel.startswith("s3://") else placeholder for name, channel in fields.channels.items()
        }
        sharded_channels = self._list_sharded_channels()
        draft = job_inputs.build_inputs(image, hyperparameters, placeholder, program, draft_channels, sharded_channels)
        self._check_request(bucket, machines, draft)
        uploader.check_channels(fields.channels.values())
        for name in sharded_channels:
            uploader.check_shards(name, fields.channels[name], machines[0].instance_count)
        code = uploader.upload_bundle(self.project_folder, fields.entry_point, fields.bundle)
        channels = {name: uploader.upload_channel(channel) for name, channel in fields.channels.items()}
        return job_inputs.build_inputs(image, hyperparameters, code, program, channels, sharded_channels)

    def _list_sharded_channels(self) -> list[str]:
        """Return the names of the channels whose objects are divided among the hosts."""
        names = list(self.fields.sharded_channels or [])
        unknown_names = ", ".join(str(name) for name in names if name not in self.fields.channels)
        if unknown_names:
            raise AirflowFailException(f"sharded_channels of {self.task_label} has no channel: {unknown_names}.")
        return names

    def _check_request(self, bucket: str, machines: Sequence[Machine], draft: Mapping[str, Any]) -> None:
        """Check the request before anything is uploaded: `draft` has placeholders for the inputs' addresses."""
        template = RequestTemplate(self._build_request(bucket, draft), self.fields.config or {}, machines)
        request = template.build_request(machines[0])
        shape = self.hook.conn.meta.service_model.operation_model("CreateTrainingJob").input_shape
        request_checks.check_shape({"TrainingJobName": self.jobs.build_name(1), **request}, shape)
        request_checks.check_checkpoint_folder(request, bucket)

    def _load_hyperparameters(self) -> dict[str, Any]:
        try:
            params.find_model_folder(self.project_folder, self.fields.model)  # refuses a task that names no model
            return dict(params.load_section(self.project_folder, "train", self.fields.model).get("hyperparameters", {}))
        except LeewayError as error:
            raise AirflowFailException(str(error)) from None

    def _build_environment(self) -> dict[str, str]:
        """Return the script's variables: the address of MLflow, the commit of the code, and the operator's own."""
        tracking_uri = os.environ.get("MLFLOW_TRACKING_URI", "")
        folder = self.project_folder
        commit = {"LEEWAY_GIT_COMMIT": read_workspace_commit(folder) or describe_commit(folder)}
        tracking_variables = {"MLFLOW_TRACKING_URI": tracking_uri} if tracking_uri else {}
        return commit | tracking_variables | dict(self.fields.environment or {})

    @property
    def project_folder(self) -> Path:
        """Folder of the script and of params.yaml."""
        return find_project(Path(self.fields.code)) if self.fields.code else super().project_folder

    def _get_image(self) -> str:
        if self.fields.image_uri:
            return self.fields.image_uri
        framework = {"framework": self.fields.framework, "framework_version": self.fields.framework_version}
        machine = {"region": self.hook.conn_region_name or "us-east-1", "instance_type": self.fields.instance_type}
        return str(self.step_hook.run("image", {**framework, **machine})["image_uri"])
