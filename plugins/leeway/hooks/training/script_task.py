"""Upload what the training script needs, and build the parts of a request that training and tuning jobs share."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.sdk.exceptions import AirflowFailException

from leeway.hooks.sagemaker import request_checks
from leeway.hooks.sagemaker.costs import CostAllocation, Costs
from leeway.hooks.sagemaker.machines import Machine
from leeway.hooks.sagemaker.named_jobs import compute_digest
from leeway.hooks.sagemaker.task import JobTask
from leeway.hooks.sagemaker.uploads import S3Uploader
from leeway.hooks.training import inputs as job_inputs
from leeway.hooks.training.fields import ScriptFields
from pipelines import params
from pipelines.code_files import find_project
from pipelines.costs.job_records import LONGEST_TRAINING_S
from pipelines.errors import LeewayError
from pipelines.versioning.git import describe_commit, read_workspace_commit

FEATURE_FILE = "data.parquet"
"""Name of the file that the step `preprocess` writes to the folder of a channel."""


class ScriptTask(JobTask):
    """One task that runs the training script in jobs of SageMaker."""

    fields: ScriptFields

    @abstractmethod
    def build_hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters of the script, and those that start torchrun or mpirun."""

    @abstractmethod
    def check_request(self, bucket: str, draft: Mapping[str, Any]) -> None:
        """Check the request before anything is uploaded: `draft` has placeholders for the inputs' addresses.

        Raises:
            AirflowFailException: SageMaker would refuse the request. A retry cannot help.
        """

    def list_sharded_channels(self) -> Sequence[str]:
        """Return the names of the channels whose objects are divided among the hosts."""
        return ()

    @property
    def bucket(self) -> str:
        """Name of the bucket of channels, code, checkpoints and models."""
        return self.get_setting("bucket", "LEEWAY_BUCKET")

    @property
    def project_folder(self) -> Path:
        """Folder of the script and of params.yaml."""
        return find_project(Path(self.fields.code)) if self.fields.code else super().project_folder

    def build_machine(self, instance_type: str) -> Machine:
        """Return the machine that the fields describe, with the given instance type."""
        return Machine(
            instance_type=instance_type,
            instance_count=self.parse_count_field("instance_count"),
            volume_size_gb=self.parse_count_field("volume_size_gb", request_checks.MAX_VOLUME_GB),
            is_spot=self.fields.spot,
            max_run_s=self.parse_count_field("max_run_s", LONGEST_TRAINING_S),
            max_wait_s=self.parse_count_field("max_wait_s"),
        )

    def build_costs(self) -> Costs:
        """Return the object that checks the budgets of the task, and charges its jobs."""
        budget_usd = request_checks.parse_usd(self.describe_field("budget_usd"), self.fields.budget_usd)
        region = self.hook.conn_region_name or "us-east-1"
        fields = self.fields
        allocation = CostAllocation(region, fields.project, fields.model, budget_usd, self.identity, fields.priority)
        return Costs(self.step_hook, allocation)

    def build_request(self, bucket: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request to CreateTrainingJob, without its name, its machine, and the operator's field `config`."""
        root_uri = f"s3://{bucket}/{self.fields.prefix}"
        return {
            **inputs,
            "RoleArn": self.get_setting("role_arn", "LEEWAY_ROLE_ARN"),
            "OutputDataConfig": {"S3OutputPath": f"{root_uri}/jobs"},
            # The folder depends on the task and its inputs, not on the try: the next try resumes where this one was
            # interrupted, and no other run writes there at the same time.
            "CheckpointConfig": {"S3Uri": f"{root_uri}/checkpoints/{self.jobs.base}/{compute_digest(inputs)}"},
            "Environment": self._build_environment(),
            "Tags": self.build_tags(**self.list_cost_fields()),
        }

    def upload_inputs(self) -> dict[str, Any]:
        """Check the inputs that determine the script's results, upload them, and return them."""
        fields, bucket = self.fields, self.bucket
        uploader = S3Uploader(self.connection.create_hook(S3Hook), bucket, fields.prefix, self.log)
        hyperparameters, image = self.build_hyperparameters(), self._get_image()
        program, placeholder = Path(fields.entry_point).name, f"s3://{bucket}/{fields.prefix}/features/"
        draft_channels = {
            name: channel if channel.startswith("s3://") else placeholder for name, channel in fields.channels.items()
        }
        sharded_channels = self.list_sharded_channels()
        draft = job_inputs.build_inputs(image, hyperparameters, placeholder, program, draft_channels, sharded_channels)
        self.check_request(bucket, draft)
        uploader.check_channels(fields.channels.values())
        with TemporaryDirectory(prefix="leeway-parts-") as folder:
            sources = dict(fields.channels) | self._divide_channels(sharded_channels, Path(folder))
            for name in sharded_channels:
                uploader.check_shards(name, sources[name], self.parse_count_field("instance_count"))
            code = uploader.upload_bundle(self.project_folder, fields.entry_point, fields.bundle)
            channels = {name: uploader.upload_channel(source) for name, source in sources.items()}
        return job_inputs.build_inputs(image, hyperparameters, code, program, channels, sharded_channels)

    def _divide_channels(self, names: Sequence[str], folder: Path) -> dict[str, str]:
        """Divide the rows of those channels that have one object, the file of the step `preprocess`.

        They are also divided for one host, so that a training finds its checkpoints whatever the number of hosts.

        Args:
            names: names of the channels whose objects are divided among the hosts.
            folder: folder for the parts.

        Returns:
            Channel name to the folder of the parts, for each channel that was divided.

        Raises:
            AirflowFailException: a file cannot be divided. A retry cannot help.
        """
        parts = {}
        for name in names:
            channel = Path(self.fields.channels[name]).absolute()
            if [path.name for path in channel.rglob("*")] == [FEATURE_FILE]:
                parts[name] = self.step_hook.run("divide", {"channel": channel, "parts": folder / name})["parts"]
        return parts

    def load_section(self, step: str) -> dict[str, Any]:
        """Return a section of the model's parameters.

        Raises:
            AirflowFailException: the parameters are not valid, or the task names no model. A retry cannot help.
        """
        try:
            params.find_model_folder(self.project_folder, self.fields.model)  # refuses a task that names no model
            return params.load_section(self.project_folder, step, self.fields.model)
        except LeewayError as error:
            raise AirflowFailException(str(error)) from None

    def _build_environment(self) -> dict[str, str]:
        """Return the script's variables: the address of MLflow, the commit of the code, and the operator's own."""
        tracking_uri = os.environ.get("MLFLOW_TRACKING_URI", "")
        folder = self.project_folder
        commit = {"LEEWAY_GIT_COMMIT": read_workspace_commit(folder) or describe_commit(folder)}
        tracking_variables = {"MLFLOW_TRACKING_URI": tracking_uri} if tracking_uri else {}
        return commit | tracking_variables | dict(self.fields.environment or {})

    def _get_image(self) -> str:
        if self.fields.image_uri:
            return self.fields.image_uri
        framework = {"framework": self.fields.framework, "framework_version": self.fields.framework_version}
        machine = {"region": self.hook.conn_region_name or "us-east-1", "instance_type": self.fields.instance_type}
        return str(self.step_hook.run("image", {**framework, **machine})["image_uri"])
