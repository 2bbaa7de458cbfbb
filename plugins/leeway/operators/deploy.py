"""The operator that deploys a registered version to a SageMaker endpoint."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.amazon.aws.operators.sagemaker import SageMakerEndpointOperator
from airflow.sdk.definitions.context import Context

from leeway.hooks.endpoint.task import DeployFields, DeployTask
from leeway.hooks.endpoint.wait import DeploymentWait
from leeway.hooks.endpoint.wait_for_endpoint import start_and_wait_for_endpoint
from leeway.operators.job import SageMakerOperator
from leeway.operators.step import ACTOR_VARIABLES
from leeway.triggers.deployment import DeploymentTrigger


class DeployOperator(SageMakerOperator, SageMakerEndpointOperator):
    """Deploy a registered version to a SageMaker endpoint step by step, and roll back if an alarm is raised.

    The endpoint is created, or updated as section `serving` of the parameters says (docs/how-to/serving.md). It accepts
    raw rows and rows of features. The names of SageMaker's model and configuration are derived from their content. If
    the endpoint serves that content already, only its alarms and tags may change. If that content is being deployed,
    because an earlier try or a killed worker began this, the task waits for the end. If another deployment is in
    progress, the task first waits for the end of that one. Idempotent.

    Before anything is created, the costs until the end of this month and those of a full month are checked against the
    budget of the project, together with the project's other endpoints. An alarm, or a version that does not load, ends
    the deployment: the endpoint serves what it served before, the task fails without a retry, and the model's history
    has an event with the alarm and the reason. A new endpoint that does not start is deleted.

    If the endpoint served the version before its present one, this is a rollback: the version is released at once, and
    neither alarms nor the budget prevent it.

    The task waits in the triggerer. SageMaker cannot cancel a deployment: if a person clears the task or sets its
    state, the deployment continues.

    Args:
        model: registered model (templated).
        version: version to deploy, a number or an alias (templated); by default the champion.
        endpoint: name of the endpoint (templated); by default the model's name.
        serving: values that replace those of section `serving` of the parameters, such as
            `{"traffic": "all_at_once"}`, or the JSON text of an object (templated).
        image_uri: image with SageMaker's inference toolkit (templated); by default the SDK's xgboost image.
        role_arn: execution role of the model (templated); by default the environment's LEEWAY_ROLE_ARN.
        bucket: S3 bucket of model and captured requests (templated); by default LEEWAY_BUCKET.
        prefix: key prefix in the bucket (templated).
        project: project whose budget is checked (templated); by default the one in params.yaml, section `budget`.
        check_interval_s: seconds between two requests for the endpoint's state (templated).
        deferrable: whether to wait in the triggerer; if not, the task waits in the worker.
        python: interpreter of the environment that has the ML libraries (templated); if empty, LEEWAY_PYTHON, or else
            the interpreter that runs Airflow.
        env: more environment variables for the steps (templated). No secrets: they show in the UI.

    Returns:
        model_name, version, previous (version that served before), endpoint, endpoint_arn, config, changed (false if
        the endpoint served this version already), cost_usd_h and cost_usd_month (of the endpoint; None for a rollback,
        and if this try began no deployment).
    """

    step = "serving"
    """Step that chooses the version. The notification callbacks choose the message about the task by this name."""
    job_task_class = DeployTask
    job_fields_class = DeployFields
    previous = False
    """Whether the version before the present one is deployed, instead of `version`."""
    template_fields: Sequence[str] = (
        *("aws_conn_id", "region_name", "verify", "model", "version", "endpoint", "serving", "image_uri", "role_arn"),
        *("bucket", "prefix", "project", "check_interval_s", "python", "env", "actor_variables"),
    )
    ui_color = "#dcebf7"

    def __init__(
        self,
        *,
        model: str,
        version: str = "",
        endpoint: str = "",
        serving: Mapping[str, Any] | str | None = None,
        image_uri: str = "",
        role_arn: str = "",
        bucket: str = "",
        prefix: str = "leeway",
        project: str = "",
        check_interval_s: int | str = 5,
        deferrable: bool = True,
        python: str = "",
        env: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(config={}, deferrable=deferrable, **kwargs)
        self.model, self.version, self.endpoint, self.serving = model, version, endpoint, serving
        self.image_uri, self.role_arn, self.bucket, self.prefix = image_uri, role_arn, bucket, prefix
        self.project, self.check_interval_s, self.python, self.env = project, check_interval_s, python, env
        self.actor_variables = ACTOR_VARIABLES

    def _make_job_task(self, context: Context) -> DeployTask:
        job_task = super()._make_job_task(context)
        assert isinstance(job_task, DeployTask), "job_task_class must be DeployTask or its subclass"
        job_task.max_tries = context["ti"].max_tries  # it shows whether a person cleared the task
        return job_task

    def build_step_variables(self) -> Mapping[str, str]:
        """Return the variables that say who acts, for the events in the model's history."""
        return self.actor_variables

    def build_trigger(self, wait: DeploymentWait) -> DeploymentTrigger:
        """Return the trigger that begins the deployment and waits for its end."""
        return DeploymentTrigger(**dataclasses.asdict(wait))

    def wait_in_worker(self, wait: DeploymentWait) -> Mapping[str, Any]:
        """Begin the deployment, wait for its end in this process, and return how the wait ended."""
        return dict(asyncio.run(start_and_wait_for_endpoint(wait, self.log)))
