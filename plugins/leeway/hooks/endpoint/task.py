"""Check the fields of a deployment task, upload the packaged model, and build its requests."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.sdk.exceptions import AirflowFailException

from leeway.hooks.endpoint import requests
from leeway.hooks.endpoint.client import EndpointClient
from leeway.hooks.endpoint.deployment import Deployment, Release
from leeway.hooks.endpoint.wait import DeploymentWait
from leeway.hooks.sagemaker import request_checks
from leeway.hooks.sagemaker.costs import CostAllocation, Costs
from leeway.hooks.sagemaker.task import AwsTask
from leeway.hooks.sagemaker.uploads import S3Uploader
from pipelines.serving.endpoint_resources import build_capture_uri, build_endpoint_name


@dataclass(frozen=True)
class DeployFields:
    """The rendered fields of DeployOperator; its docstring describes each."""

    model: str
    version: str
    previous: bool
    endpoint: str
    serving: Mapping[str, Any] | str | None
    image_uri: str
    role_arn: str
    bucket: str
    prefix: str
    project: str
    check_interval_s: int | str


class DeployTask(AwsTask):
    """One task that deploys a registered version to an endpoint."""

    fields: DeployFields
    max_tries = 0
    """Airflow's `max_tries` of the task: a clear changes it, and a retry does not. It shows whether a
    failed deployment began before the last clear: then a new one begins."""

    def prepare_operation(self, inputs: Mapping[str, Any] | None = None) -> Deployment:
        """Choose and upload the version, unless this try has done so; see `AwsTask.prepare_operation`."""
        self.parse_count_field("check_interval_s")  # raises an error before the upload
        inputs = inputs or self._upload_inputs()
        return Deployment(
            EndpointClient(self.connection, self._endpoint, self.log),
            self._build_release(inputs),
            inputs,
            self._build_costs(),
            self.step_hook,
            self._build_wait(requests.compute_duration_s(inputs["policy"])),
            self.log,
        )

    def stop(self) -> None:
        """Log that the deployment continues: SageMaker cannot cancel one."""
        self.log.warning("endpoint %s: its deployment continues; a retry waits for it", self._endpoint)

    def _build_wait(self, max_duration_s: int) -> DeploymentWait:
        """Return a wait for the endpoint. The name of the endpoint configuration is empty: the operation sets it."""
        return DeploymentWait(
            endpoint=self._endpoint,
            config_name="",
            check_interval_s=self.parse_count_field("check_interval_s"),
            max_duration_s=max_duration_s,
            **asdict(self.connection),
        )

    def _build_costs(self) -> Costs:
        return Costs(
            self.step_hook,
            CostAllocation(self._region, self.fields.project, self.fields.model, budget_usd=None, task=self.identity),
        )

    @property
    def _endpoint(self) -> str:
        return self.fields.endpoint or build_endpoint_name(self.fields.model)

    @property
    def _region(self) -> str:
        return self.hook.conn_region_name or "us-east-1"

    @property
    def _bucket(self) -> str:
        return self.get_setting("bucket", "LEEWAY_BUCKET")

    def _upload_inputs(self, **spec: str) -> dict[str, Any]:
        """Check the requests, upload the packaged model, and return the inputs that determine the release.

        Args:
            spec: fields of the step `serving`, which replace those of the task.
        """
        with tempfile.TemporaryDirectory(prefix="leeway-") as parent:
            folder = Path(parent) / "model"
            result = self.step_hook.run("serving", {**self._build_spec(), **spec, "folder": str(folder)})
            inputs = {name: result[name] for name in ("version", "policy", "is_rollback")}
            inputs["image"] = self._get_image(inputs["policy"]["instance_type"])
            self._check_requests({**inputs, "model": f"s3://{self._bucket}/"})
            uploader = S3Uploader(self.connection.create_hook(S3Hook), self._bucket, self.fields.prefix, self.log)
            uploader.check_bucket()
            return {**inputs, "model": uploader.upload_channel(str(folder))}

    def _build_spec(self) -> dict[str, Any]:
        """Return the spec of the step `serving`, without the folder."""
        fields = self.fields
        version = {"previous": True} if fields.previous else {"version": fields.version}
        return {**self._read_serving(), **version, "model": fields.model, "endpoint": self._endpoint}

    def _read_serving(self) -> Mapping[str, Any]:
        """Return the field `serving`, which is a JSON text if a template rendered it."""
        value = self.fields.serving or {}
        if isinstance(value, str):
            with suppress(ValueError):
                value = json.loads(value)
        if not isinstance(value, Mapping):
            raise AirflowFailException(f"{self.describe_field('serving')} must be a JSON object, unlike {value!r}.")
        return value

    def _get_image(self, instance_type: str) -> str:
        if self.fields.image_uri:
            return self.fields.image_uri
        machine = {"region": self._region, "instance_type": instance_type}
        return str(self.step_hook.run("image", machine)["image_uri"])

    def _build_release(self, inputs: Mapping[str, Any]) -> Release:
        fields, version = self.fields, inputs["version"]
        tags = self.build_tags(project=fields.project, model=fields.model)
        container = {
            "Image": inputs["image"],
            "ModelDataUrl": f"{inputs['model']}model.tar.gz",
            "Environment": {"SAGEMAKER_PROGRAM": "inference.py", "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code"},
        }
        role = self.get_setting("role_arn", "LEEWAY_ROLE_ARN")
        model_request = requests.build_model_request(self._endpoint, version, role, container, tags)
        return Release(
            model=fields.model,
            version=version,
            policy=inputs["policy"],
            model_request=model_request,
            config_request=requests.build_config_request(
                self._endpoint,
                version,
                model_request["ModelName"],
                inputs["policy"],
                self._build_capture_uri(version),
                tags,
            ),
            tags=tags,
            task_identity=self.identity,
            is_rollback=inputs["is_rollback"],
            max_tries=self.max_tries,
        )

    def _build_capture_uri(self, version: str) -> str:
        return build_capture_uri(self._bucket, self.fields.prefix, version)

    def _check_requests(self, inputs: Mapping[str, Any]) -> None:
        """Check the requests before anything is uploaded. `inputs` has a placeholder instead of the model's address."""
        release, service = self._build_release(inputs), self.hook.conn.meta.service_model
        for operation, request in (
            ("CreateModel", release.model_request),
            ("CreateEndpointConfig", release.config_request),
        ):
            request_checks.check_shape(request, service.operation_model(operation).input_shape)
