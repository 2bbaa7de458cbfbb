"""SpotTrainingOperator."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.providers.amazon.aws.operators.sagemaker import SageMakerTrainingOperator
from airflow.providers.amazon.aws.triggers.sagemaker import SageMakerTrigger
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from botocore.exceptions import ClientError, HTTPClientError
from leeway.hooks.channels import ChannelHook
from leeway.hooks.step import StepHook
from leeway.operators.step import StepOperator
from pipelines import params
from pipelines.errors import LeewayError

LOG_GROUP = "/aws/sagemaker/TrainingJobs"
MAX_NAMES = 20
"""Most jobs that one task may start over all its tries."""
SCRIPT_ERROR = "AlgorithmError"
"""SageMaker's word for a script that crashed: the same again would crash again."""


class SpotTrainingOperator(SageMakerTrainingOperator):
    """Trains on SageMaker managed spot, one job a task: by a name that is a function of DAG, run, task and map index.

    Before it starts a job it asks what is there under that name: one that runs is waited for, one that completed from
    the same inputs is collected, one that failed, stopped or had other inputs is followed by the next name, with the
    same checkpoints where the inputs are the same. So a retry, a clear or a killed worker never pays for a second job.
    Waits in the triggerer. Idempotent.

    Args:
        entry_point: training script, relative to the project; runs as `python NAME --hyperparameter value ...`.
        bundle: text file that lists the other files that the script needs, relative to the project.
        channels: channel name to folder or s3:// prefix (templated); folders are uploaded, once a content.
        dataset: section `train` of params.yaml gives the hyperparameters; those here go before them (templated).
        hyperparameters: more of them (templated).
        role_arn: execution role of the job (templated); the environment's LEEWAY_ROLE_ARN where it is not given.
        bucket: S3 bucket of channels, code, checkpoints and models (templated); LEEWAY_BUCKET where it is not given.
        prefix: key prefix in it (templated).
        framework, framework_version: of the training image, as the sagemaker SDK names them.
        image_uri: a training image of one's own (templated); in the place of a framework.
        instance_type: such as ml.m5.large.
        instance_count: instances.
        volume_size_gb: disk of each, GB.
        spot: managed spot; on demand where it is false.
        max_run_s: longest training time, seconds.
        max_wait_s: longest time in all, waiting for spot capacity included, seconds; at least max_run_s.
        environment: variables of the script (templated). No secrets: they show in the UI.
        check_interval_s: seconds between two looks at the job.
        python, env: as of StepOperator; the image's name is looked up there.

    Returns:
        training_job, training_job_arn, status, model, record (s3:// addresses), training_s, billable_s, instance_type.
    """

    template_fields: Sequence[str] = (
        *("aws_conn_id", "region_name", "verify", "channels", "hyperparameters", "role_arn", "bucket", "prefix"),
        *("image_uri", "environment"),
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
        instance_count: int = 1,
        volume_size_gb: int = 30,
        spot: bool = True,
        max_run_s: int = 3_600,
        max_wait_s: int = 7_200,
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
        self._hook: StepHook | None = None

    def execute(self, context: Context) -> Any:
        """Starts the job, or finds it, and waits for it in the triggerer."""
        try:
            self.config = self._config(context)
            status = self._start()
        except HTTPClientError as error:
            raise AirflowException(f"SageMaker or S3 does not answer: {error}. Is the endpoint up?") from None
        if status == "Completed":
            return self._collected(self.config["TrainingJobName"])
        self.defer(
            timeout=timedelta(seconds=2 * self._longest_s() + 600),
            trigger=SageMakerTrigger(
                job_name=self.config["TrainingJobName"],
                job_type="Training",
                waiter_delay=self.check_interval_s,
                # SageMaker ends the job after max_wait_s; uploading the model comes on top.
                waiter_max_attempts=self._longest_s() // self.check_interval_s + 60,
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
            AirflowException: the job was stopped, or SageMaker failed it. A retry goes on from the checkpoints.
        """
        told = event or {}
        name = str(told.get("job_name", ""))
        self._show_log(name)
        if told.get("status") == "success":
            return self._collected(name)
        message = f"training job {name} {told.get('status')}: {told.get('message')}"
        raise AirflowFailException(message) if SCRIPT_ERROR in message else AirflowException(message)

    def on_kill(self) -> None:
        """Nothing of ours is left running here. The job itself goes on: the next try attaches to it."""
        if self._hook:
            self._hook.kill()

    def _start(self) -> str:
        """The job named in the config exists and does not need starting any more; returns its status."""
        base = self.config["TrainingJobName"]
        for number in range(1, MAX_NAMES + 1):
            name = f"{base}-{number}"
            self.config["TrainingJobName"] = name
            there = self._describe(name)
            if there is None:
                self.log.info("starting training job %s", name)
                self.conn.create_training_job(**self.config)
                return "InProgress"
            status = there["TrainingJobStatus"]
            if status == "InProgress" or (status == "Completed" and self._same(there)):
                self.log.info("training job %s is there already: %s", name, status)
                return str(status)
            self.log.info("training job %s is there, %s, and is followed by another one", name, status)
        raise AirflowFailException(f"{MAX_NAMES} training jobs {base}-N ended without success; look at their logs.")

    @property
    def conn(self) -> Any:
        """The boto3 client of SageMaker."""
        return self.hook.conn

    def _describe(self, name: str) -> dict[str, Any] | None:
        try:
            return dict(self.conn.describe_training_job(TrainingJobName=name))
        except ClientError as error:
            if "not found" in str(error):
                return None
            raise

    def _same(self, there: Mapping[str, Any]) -> bool:
        """Whether a job had the inputs that this one would have."""
        return all(there.get(key) == self.config[key] for key in ("HyperParameters", "InputDataConfig"))

    def _config(self, context: Context) -> dict[str, Any]:
        """The request to CreateTrainingJob, with the name still lacking its number."""
        bucket = self.bucket or self._required("LEEWAY_BUCKET", "bucket")
        project = Path(os.environ.get("LEEWAY_PROJECT", "."))
        s3 = ChannelHook(S3Hook(aws_conn_id=self.aws_conn_id, region_name=self.region_name), bucket, self.prefix)
        dependencies = (project / self.bundle).read_text(encoding="utf-8").split()
        code = s3.bundle(project, self.entry_point, dependencies)
        channels = {name: s3.channel(place) for name, place in sorted(self.channels.items())}
        given = {**self._from_params(project), **(self.hyperparameters or {})}
        hyperparameters = {
            **{name: str(value) for name, value in sorted(given.items())},
            "sagemaker_program": Path(self.entry_point).name,
            "sagemaker_submit_directory": code,
        }
        name = self._name(context)
        inputs = hashlib.sha256(repr((sorted(hyperparameters.items()), sorted(channels.items()))).encode()).hexdigest()
        root = f"s3://{bucket}/{self.prefix}"
        stopping = {"MaxRuntimeInSeconds": self.max_run_s}
        return {
            "TrainingJobName": name,
            "AlgorithmSpecification": {"TrainingImage": self._image(), "TrainingInputMode": "File"},
            "RoleArn": self.role_arn or self._required("LEEWAY_ROLE_ARN", "role_arn"),
            "HyperParameters": hyperparameters,
            "InputDataConfig": [_channel(channel, uri) for channel, uri in channels.items()],
            "OutputDataConfig": {"S3OutputPath": f"{root}/jobs"},
            "CheckpointConfig": {"S3Uri": f"{root}/checkpoints/{name}/{inputs[:12]}"},
            "ResourceConfig": {
                "InstanceType": self.instance_type,
                "InstanceCount": self.instance_count,
                "VolumeSizeInGB": self.volume_size_gb,
            },
            "EnableManagedSpotTraining": self.spot,
            "StoppingCondition": stopping | ({"MaxWaitTimeInSeconds": self.max_wait_s} if self.spot else {}),
            "Environment": {**_from_here(), **(self.environment or {})},
            "Tags": [{"Key": "leeway:dag", "Value": self.dag_id}, {"Key": "leeway:task", "Value": self.task_id}],
        }

    def _name(self, context: Context) -> str:
        """At most 60 of the 63 characters that SageMaker takes: the number comes on top."""
        instance = context["ti"]
        told = hashlib.sha256("\0".join([self.dag_id, instance.run_id, self.task_id, str(instance.map_index)]).encode())
        slug = re.sub(r"[^a-zA-Z0-9]+", "-", f"{self.dag_id}-{self.task_id}").strip("-")
        return f"{slug[:43]}-{told.hexdigest()[:16]}"

    def _from_params(self, project: Path) -> dict[str, Any]:
        try:
            return dict(params.section(project, "train").get("hyperparameters", {}))
        except LeewayError as error:
            raise AirflowFailException(str(error)) from None

    def _image(self) -> str:
        if self.image_uri:
            return self.image_uri
        self._hook = StepHook(self.log, self.python, self.env)
        asked = {"framework": self.framework, "framework_version": self.framework_version}
        place = {"region": self.hook.conn_region_name or "us-east-1", "instance_type": self.instance_type}
        return str(self._hook.run("image", {**asked, **place})["image_uri"])

    def _required(self, variable: str, field: str) -> str:
        value = os.environ.get(variable, "")
        if not value:
            raise AirflowFailException(f"give {field}= to {self.task_id}, or set {variable}.")
        return value

    def _longest_s(self) -> int:
        return self.max_wait_s if self.spot else self.max_run_s

    def _show_log(self, name: str) -> None:
        """The job's log lines are in the task's log."""
        try:
            for stream in self.hook.logs_hook.conn.describe_log_streams(
                logGroupName=LOG_GROUP,
                logStreamNamePrefix=f"{name}/",
            )["logStreams"]:
                for event in self.hook.logs_hook.get_log_events(LOG_GROUP, stream["logStreamName"]):
                    self.log.info("%s", event["message"])
        except ClientError as error:
            self.log.warning("the job's log cannot be read: %s", error)

    def _collected(self, name: str) -> dict[str, Any]:
        job = self.conn.describe_training_job(TrainingJobName=name)
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


def _channel(name: str, uri: str) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": uri, "S3DataDistributionType": "FullyReplicated"}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}, "InputMode": "File"}


def _from_here() -> dict[str, str]:
    """What the script is told of this place: where MLflow is, and which code this is."""
    from pipelines.git import commit_of

    told = {"LEEWAY_GIT_COMMIT": commit_of(Path(os.environ.get("LEEWAY_PROJECT", ".")))}
    tracking = os.environ.get("MLFLOW_TRACKING_URI")
    return told | ({"MLFLOW_TRACKING_URI": tracking} if tracking else {})
