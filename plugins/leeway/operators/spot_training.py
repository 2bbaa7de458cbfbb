"""SpotTrainingOperator."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.providers.amazon.aws.operators.sagemaker import SageMakerTrainingOperator
from airflow.providers.amazon.aws.triggers.sagemaker import SageMakerTrigger
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from leeway.hooks import training_job
from leeway.hooks.channels import ChannelHook
from leeway.hooks.outages import told_in_a_line
from leeway.hooks.step import StepHook
from leeway.hooks.training_job import Machine, TrainingJobs
from pipelines import params
from pipelines.errors import LeewayError
from pipelines.git import commit_of

SCRIPT_ERROR = "AlgorithmError"
"""SageMaker's word for a script that crashed: the same again would crash again."""
UPLOAD_S = 600
"""Time that a job may take, after its longest run, to upload what it made."""


class SpotTrainingOperator(SageMakerTrainingOperator):
    """Trains on SageMaker managed spot, one job a task: by a name that is a function of DAG, run, task and map index.

    Before it starts a job it asks what is there under that name: one from the same inputs that runs is waited for, that
    completed is collected; one that failed, was stopped or had other inputs is followed by the next name (and stopped,
    if it ran), with the same checkpoints where the inputs are the same. So a retry, a clear or a killed worker never
    pays for a second job. Waits in the triggerer. Idempotent.

    Args:
        entry_point: training script, relative to the project; runs as `python NAME --hyperparameter value ...`.
        bundle: text file that lists the other files that the script needs, relative to the project.
        channels: channel name to folder or s3:// prefix (templated); folders are uploaded, once a content.
        hyperparameters: of the script; they go before those of section `train` of params.yaml (templated).
        role_arn: execution role of the job (templated); the environment's LEEWAY_ROLE_ARN where it is not given.
        bucket: S3 bucket of channels, code, checkpoints and models (templated); LEEWAY_BUCKET where it is not given.
        prefix: key prefix in it (templated).
        framework: of the training image, as the sagemaker SDK names it.
        framework_version: of the training image, as the sagemaker SDK names it.
        image_uri: a training image of one's own (templated); in the place of a framework.
        instance_type: such as ml.m5.large (templated).
        instance_count: instances (templated).
        volume_size_gb: disk of each, GB (templated).
        spot: managed spot; on demand where it is false.
        max_run_s: longest training time, seconds (templated).
        max_wait_s: longest time in all, waiting for spot capacity included, seconds; at least max_run_s (templated).
        environment: variables of the script (templated). No secrets: they show in the UI.
        check_interval_s: seconds between two looks at the job.
        python: interpreter of the environment that knows the image's name; Airflow's own where it is empty (templated).
        env: more environment variables for that look-up (templated). No secrets: they show in the UI.

    Returns:
        training_job, training_job_arn, status, model, record (s3:// addresses), training_s, billable_s, instance_type.
    """

    template_fields: Sequence[str] = (
        *("aws_conn_id", "region_name", "verify", "channels", "hyperparameters", "role_arn", "bucket", "prefix"),
        *("image_uri", "environment", "python", "env"),
        *("instance_type", "instance_count", "volume_size_gb", "max_run_s", "max_wait_s"),
    )
    ui_color = "#fbe6c9"

    def __init__(
        self,
        *,
        entry_point: str,
        bundle: str,
        channels: Mapping[str, str],
        hyperparameters: Mapping[str, Any] | None = None,
        role_arn: str = "",
        bucket: str = "",
        prefix: str = "leeway",
        framework: str = "xgboost",
        framework_version: str = "3.2-0",
        image_uri: str = "",
        instance_type: str = "ml.m5.large",
        instance_count: int | str = 1,
        volume_size_gb: int | str = 30,
        spot: bool = True,
        max_run_s: int | str = 3_600,
        max_wait_s: int | str = 7_200,
        environment: Mapping[str, str] | None = None,
        check_interval_s: int = 30,
        python: str = "",
        env: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(config={}, check_interval=check_interval_s, deferrable=True, **kwargs)
        self.entry_point, self.bundle, self.channels = entry_point, bundle, channels
        self.hyperparameters = hyperparameters
        self.role_arn, self.bucket, self.prefix = role_arn, bucket, prefix
        self.framework, self.framework_version, self.image_uri = framework, framework_version, image_uri
        self.instance_type, self.instance_count, self.volume_size_gb = instance_type, instance_count, volume_size_gb
        self.spot, self.max_run_s, self.max_wait_s = spot, max_run_s, max_wait_s
        self.environment, self.check_interval_s = environment, check_interval_s
        self.python, self.env = python, env
        self._step: StepHook | None = None

    def execute(self, context: Context) -> Any:
        """Starts the job, or finds it, and waits for it in the triggerer.

        Raises:
            AirflowFailException: a field is wrong, or a file is not there. A retry cannot help.
            AirflowException: SageMaker or S3 does not answer. A retry can help.
        """
        machine = self._machine()
        with told_in_a_line():
            base = self._name(context)
            name, status = self._jobs().ensure(base, self._request(base) | machine.request())
            if status == "Completed":
                return self._collected(name)
        self.defer(
            timeout=timedelta(seconds=machine.longest_s + 2 * UPLOAD_S),
            trigger=SageMakerTrigger(
                job_name=name,
                job_type="Training",
                waiter_delay=int(self.check_interval_s),
                waiter_max_attempts=(machine.longest_s + UPLOAD_S) // int(self.check_interval_s) + 1,
                aws_conn_id=self.aws_conn_id,
                region_name=self.region_name,
                verify=self.verify,
                botocore_config=self.botocore_config,
            ),
            method_name="execute_complete",
        )

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:
        """The job's result.

        Raises:
            AirflowFailException: the script crashed. A retry cannot help.
            AirflowException: the job was stopped, SageMaker failed it, or does not answer. A retry goes on from the
                checkpoints, or collects what completed.
        """
        told = event or {}
        name = str(told.get("job_name", ""))
        with told_in_a_line():
            for line in self._jobs().log_lines(name):
                self.log.info("%s", line)
            if told.get("status") == "success":
                return self._collected(name)
        message = f"training job {name} {told.get('status')}: {told.get('message')}"
        raise AirflowFailException(message) if SCRIPT_ERROR in message else AirflowException(message)

    def on_kill(self) -> None:
        """Nothing of ours is left running here. The job itself goes on: the next try attaches to it."""
        if self._step:
            self._step.kill()

    def _jobs(self) -> TrainingJobs:
        return TrainingJobs(self.hook, self.log)

    def _machine(self) -> Machine:
        return Machine(
            instance_type=self.instance_type,
            instance_count=self._whole("instance_count"),
            volume_size_gb=self._whole("volume_size_gb"),
            spot=self.spot,
            max_run_s=self._whole("max_run_s"),
            max_wait_s=self._whole("max_wait_s"),
        )

    def _whole(self, field: str) -> int:
        """A field as the whole number that botocore asks for: templates give strings."""
        value = getattr(self, field)
        try:
            return int(value)
        except (TypeError, ValueError):
            raise AirflowFailException(f"{field} of the task {self.task_id} is no whole number: {value!r}.") from None

    def _name(self, context: Context) -> str:
        instance = context["ti"]
        return training_job.base_name(self.dag_id, instance.run_id, self.task_id, instance.map_index or 0)

    def _request(self, base: str) -> dict[str, Any]:
        """The request to CreateTrainingJob, without name and machine; channels and code are uploaded."""
        bucket = self.bucket or self._required("LEEWAY_BUCKET", "bucket")
        role = self.role_arn or self._required("LEEWAY_ROLE_ARN", "role_arn")
        root = f"s3://{bucket}/{self.prefix}"
        asked = self._inputs(bucket)
        return asked | {
            "RoleArn": role,
            "OutputDataConfig": {"S3OutputPath": f"{root}/jobs"},
            # Of the task and its inputs, not of the try: the next one goes on where this one was interrupted, and no
            # other run writes there at the same time.
            "CheckpointConfig": {"S3Uri": f"{root}/checkpoints/{base}/{training_job.digest(asked)}"},
            "Environment": self._variables(),
            "Tags": [{"Key": "leeway:dag", "Value": self.dag_id}, {"Key": "leeway:task", "Value": self.task_id}],
        }

    def _inputs(self, bucket: str) -> dict[str, Any]:
        place = {"aws_conn_id": self.aws_conn_id, "region_name": self.region_name, "verify": self.verify}
        s3 = ChannelHook(S3Hook(**place, config=self.botocore_config), bucket, self.prefix)
        try:
            given = params.section(self._project(), "train").get("hyperparameters", {})
        except LeewayError as error:
            raise AirflowFailException(str(error)) from None
        code = s3.bundle(self._project(), self.entry_point, self.bundle)
        channels = {name: s3.channel(place) for name, place in self.channels.items()}
        own = {**given, **(self.hyperparameters or {})}
        return training_job.inputs(self._image(), own, code, Path(self.entry_point).name, channels)

    def _variables(self) -> dict[str, str]:
        """What the script is told of this place: where MLflow is, and which code this is."""
        tracking = os.environ.get("MLFLOW_TRACKING_URI", "")
        told = {"LEEWAY_GIT_COMMIT": commit_of(self._project())}
        return told | ({"MLFLOW_TRACKING_URI": tracking} if tracking else {}) | dict(self.environment or {})

    def _image(self) -> str:
        if self.image_uri:
            return self.image_uri
        self._step = StepHook(self.log, self.python, self.env)
        asked = {"framework": self.framework, "framework_version": self.framework_version}
        place = {"region": self.hook.conn_region_name or "us-east-1", "instance_type": self.instance_type}
        return str(self._step.run("image", {**asked, **place})["image_uri"])

    def _project(self) -> Path:
        return Path(os.environ.get("LEEWAY_PROJECT", "."))

    def _required(self, variable: str, field: str) -> str:
        value = os.environ.get(variable, "")
        if not value:
            raise AirflowFailException(f"give {field}= to the task {self.task_id}, or set {variable}.")
        return value

    def _collected(self, name: str) -> dict[str, Any]:
        job = self._jobs().describe(name)
        if job is None:
            raise AirflowException(f"training job {name} is gone: the endpoint lost it.")
        model = job["ModelArtifacts"]["S3ModelArtifacts"]
        return {
            "training_job": name,
            "training_job_arn": job["TrainingJobArn"],
            "status": job["TrainingJobStatus"],
            "model": model,
            "record": model.removesuffix("model.tar.gz") + "output.tar.gz",
            "training_s": job.get("TrainingTimeInSeconds", 0),
            "billable_s": job.get("BillableTimeInSeconds", 0),
            "instance_type": self.instance_type,
        }
