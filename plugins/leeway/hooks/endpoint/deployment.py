"""Decide what a try of a deployment task does next, from SageMaker's description of the endpoint.

Only SageMaker stores the state of a deployment. The name of a configuration is derived from its content, and a tag of
the endpoint (`deployment_tag`) names the deployment that a task began, and whether it failed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from leeway.hooks.endpoint import failures
from leeway.hooks.endpoint.client import EndpointClient
from leeway.hooks.endpoint.deployment_tag import (
    DEPLOYMENT_TAG,
    get_deployment_name,
    get_modification_time,
    has_begun,
    record_failure,
)
from leeway.hooks.endpoint.requests import (
    build_alarm_requests,
    build_deployment_tag,
    build_endpoint_tags,
    build_traffic_fields,
    is_serverless,
)
from leeway.hooks.endpoint.wait import CHANGING_STATES, DeploymentEvent, DeploymentWait, get_pending_config
from leeway.hooks.sagemaker.costs import Costs, describe_machine
from leeway.hooks.step.hook import Logger, StepHook
from pipelines.serving.endpoint_resources import VERSION_TAG

Endpoint = Mapping[str, Any]
"""SageMaker's description of an endpoint."""


@dataclass(frozen=True)
class Release:
    """A version to deploy, with the requests that deploy it."""

    model: str
    version: str
    policy: Mapping[str, Any]
    model_request: Mapping[str, Any]
    config_request: Mapping[str, Any]
    tags: list[dict[str, str]]
    task_identity: Mapping[str, Any]
    """dag_id, run_id, task_id and map_index."""
    is_rollback: bool
    """Whether the endpoint served this version before its present one. Neither the budget nor raised alarms prevent a
    rollback."""
    max_tries: int = 0
    """Airflow's `max_tries` of the task: a clear changes it, and a retry does not."""

    @property
    def config_name(self) -> str:
        """Name of the configuration."""
        return str(self.config_request["EndpointConfigName"])

    @property
    def deployment_tag(self) -> str:
        """Value of the endpoint's tag `DEPLOYMENT_TAG` while this task deploys the release."""
        return build_deployment_tag(self.config_name, self.task_identity)


class Deployment:
    """Begin the deployment of a release, attach to the one in progress, or return the result of the one that ended.

    Args:
        client: calls AWS for the endpoint.
        release: what to deploy.
        inputs: version, policy, image and model address from which the release is built.
        costs: checks the budget.
        step_hook: runs steps.
        wait_template: a wait for the endpoint, from which the wait for each change is made.
        log: log of the task.
    """

    def __init__(
        self,
        client: EndpointClient,
        release: Release,
        inputs: Mapping[str, Any],
        costs: Costs,
        step_hook: StepHook,
        wait_template: DeploymentWait,
        log: Logger,
    ) -> None:
        self.client, self.release, self._inputs, self.costs = client, release, inputs, costs
        self.step_hook, self.wait_template, self.log = step_hook, wait_template, log

    @property
    def inputs(self) -> dict[str, Any]:
        """The inputs of the release, to be stored while the task waits.

        If the task resumes in the same try, they are passed to `DeployTask.prepare_operation`, not built again.
        """
        return dict(self._inputs)

    def resume(self, event: DeploymentEvent | None) -> DeploymentWait | dict[str, Any]:
        """Find out what this try does next: begin a deployment, wait for one, or return the task's result. Idempotent.

        Raises:
            AirflowFailException: the deployment was rolled back or refused, the budget does not allow it, Leeway did
                not make the endpoint, or the endpoint has instances and the release is serverless. A retry cannot help.
            AirflowException: SageMaker failed, the endpoint was deleted meanwhile, or an alarm is raised before the
                deployment. A retry can help.
        """
        endpoint = self.client.describe()
        if event:
            self._check_event(event, endpoint)
        if endpoint is None:
            return self._begin_creation()
        tags = self.client.read_own_tags(endpoint)
        if endpoint["EndpointStatus"] in CHANGING_STATES:
            return self._attach(endpoint)
        own_tag, tag = self.release.deployment_tag, tags.get(DEPLOYMENT_TAG, "")
        if endpoint["EndpointStatus"] == "InService" and endpoint["EndpointConfigName"] == self.release.config_name:
            return self._finish(endpoint, tags)
        is_own_event = event and event["config_name"] == self.release.config_name
        if is_own_event or has_begun(tag, own_tag, self.release.max_tries, endpoint):
            raise self._handle_failure(endpoint)
        if endpoint["EndpointStatus"] == "Failed":
            self.log.info("endpoint %s is Failed: deleting it, then creating it again", self.client.name)
            self.client.delete()
            return self._build_other_wait()
        return self._begin_update(endpoint)

    def _check_event(self, event: DeploymentEvent, endpoint: Endpoint | None) -> None:
        """Raise an error if the request was refused, the endpoint was deleted, or the deployment has not ended.

        After a refusal, also delete what the release created; see `_discard`.
        """
        name, is_own_config = self.client.name, event["config_name"] == self.release.config_name
        if event["cause"] == "refused":
            self._discard(endpoint)
            raise AirflowFailException(f"endpoint {name} was not changed: {event['message']}")
        if event["cause"] != "ended":
            raise AirflowException(f"the deployment of endpoint {name} is not known to have ended: {event['message']}")
        if is_own_config and endpoint is None:
            raise AirflowException(f"endpoint {name} was deleted during its deployment.")

    def _begin_creation(self) -> DeploymentWait:
        self._prepare()
        tags = {DEPLOYMENT_TAG: self.release.deployment_tag, VERSION_TAG: self.release.version}
        request = {
            "EndpointName": self.client.name,
            "EndpointConfigName": self.release.config_name,
            "Tags": [
                *build_endpoint_tags(self.client.name, self.release.tags),
                *({"Key": key, "Value": value} for key, value in tags.items()),
            ],
        }
        return replace(self._build_own_wait(), verb="create", request=request, tag="")

    def _begin_update(self, endpoint: Endpoint) -> DeploymentWait:
        failures.refuse_conversion(endpoint, is_serverless(self.release.policy))
        has_alarms = self.release.policy["rollback"] and not self.release.is_rollback
        if has_alarms and (raised_alarms := self.client.list_raised_alarms()):
            name, reason = next(iter(raised_alarms.items()))
            raise AirflowException(
                f"alarm {name} is in the state ALARM already, and would roll the deployment back at once: {reason} "
                "Wait, set serving={'rollback': False}, or roll the endpoint back."
            )
        self._prepare()
        request = {
            "EndpointName": self.client.name,
            "EndpointConfigName": self.release.config_name,
            **build_traffic_fields(self.client.name, self.release.policy),
        }
        self.log.info("endpoint %s serves configuration %s", self.client.name, endpoint["EndpointConfigName"])
        modification_time = get_modification_time(endpoint)
        return replace(self._build_own_wait(), verb="update", request=request, modification=modification_time)

    def _prepare(self) -> None:
        """Check the budget, then create the model, the configuration and the alarms, unless they exist."""
        if not self.release.is_rollback:
            self._require_budget()
        self.client.create_model_and_config(self.release.model_request, self.release.config_request)
        self._put_alarms()

    def _put_alarms(self) -> None:
        """Create and change the alarms that the policy sets, and delete the endpoint's other alarms. Idempotent."""
        self.client.put_alarms(build_alarm_requests(self.client.name, self.release.policy))

    def _require_budget(self) -> None:
        """Check that the project's budget allows the endpoint, beside the project's other endpoints."""
        forecast = self.costs.require_deployment_budget(self.client.name, self.release.policy)
        self.log.info(
            "endpoint %s costs %.3f USD/h, %.2f USD a month",
            *(self.client.name, forecast["usd_h"], forecast["full_month_usd"]),
        )
        costs = {"cost_usd_h": forecast["usd_h"], "cost_usd_month": round(forecast["full_month_usd"], 2)}
        self._inputs = {**self._inputs, **costs}

    def _attach(self, endpoint: Endpoint) -> DeploymentWait:
        """Return the wait for the change of the endpoint that is in progress: this deployment, or another change."""
        status, config_name = endpoint["EndpointStatus"], get_pending_config(endpoint)
        if config_name == self.release.config_name:
            self.log.info("endpoint %s is %s: waiting for the deployment in progress", self.client.name, status)
            return self._build_own_wait()
        self.log.info(
            "endpoint %s is %s with %s: this deployment begins after its end",
            *(self.client.name, status, config_name or "another change"),
        )
        return self._build_other_wait()

    def _build_own_wait(self) -> DeploymentWait:
        """Return the wait until this deployment has ended."""
        return replace(self.wait_template, config_name=self.release.config_name, tag=self.release.deployment_tag)

    def _build_other_wait(self) -> DeploymentWait:
        """Return the wait until a change that is not this deployment has ended."""
        return replace(self.wait_template, config_name="", tag="")

    def _finish(self, endpoint: Endpoint, tags: Mapping[str, str]) -> dict[str, Any]:
        """Record the deployment, delete what the endpoint does not use any more, and return the task's result."""
        release = self.release
        is_changed = get_deployment_name(tags.get(DEPLOYMENT_TAG, "")) == release.deployment_tag
        # The limits of alarms are not part of the configuration, so they may have changed although the configuration
        # has not.
        self._put_alarms()
        if tags.get(VERSION_TAG) != release.version:
            self.client.set_tags(endpoint, {VERSION_TAG: release.version})
        record = self._record("deployed", f"{release.policy['traffic']} release", created=endpoint["CreationTime"])
        if DEPLOYMENT_TAG in tags:
            self.client.delete_unused_resources(endpoint)
            self.client.remove_tag(endpoint, DEPLOYMENT_TAG)
        self.log.info("endpoint %s serves version %s of %s", self.client.name, release.version, release.model)
        return {
            "model_name": release.model,
            "version": release.version,
            "previous": record["previous"],
            "endpoint": self.client.name,
            "endpoint_arn": endpoint["EndpointArn"],
            "config": release.config_name,
            "changed": is_changed,
            **{name: self._inputs.get(name) for name in ("cost_usd_h", "cost_usd_month")},
        }

    def _handle_failure(self, endpoint: Endpoint) -> AirflowException:
        """Record the failed deployment, delete what it created, and return the task's error. Idempotent.

        If the endpoint still serves, its tag changes last. If the task is killed before this change, the retry finds
        that the deployment has begun, and reports the same failure. If it is killed later, before Airflow has stored
        its error, the retry reports the failure that the tag names; or it deploys again if the failure was temporary,
        since the tag was removed then.
        """
        name, release, reason = self.client.name, self.release, failures.format_reason(endpoint)
        alarms = self.client.list_alarms()
        causes = failures.find_causing_alarms(reason, alarms, self.client.list_raised_alarms())
        reason_text = failures.describe_cause(reason, causes, alarms)
        for line in self.client.read_log_end():
            self.log.warning("endpoint %s: %s", name, line)
        self._record("deployment_failed", reason_text, causes)
        is_serving = endpoint["EndpointStatus"] == "InService"
        self._discard(endpoint if is_serving else None)
        endpoint_state = "the endpoint serves what it served before" if is_serving else "the endpoint was deleted"
        version = f"version {release.version} of {release.model}"
        text = f"{version} was not deployed to endpoint {name}, and {endpoint_state}: {reason_text}"
        error = failures.make_deployment_error(text, reason)
        if is_serving:
            record_failure(self.client, endpoint, release.deployment_tag, release.max_tries, error)
        return error

    def _discard(self, endpoint: Endpoint | None) -> None:
        """Delete the release's configuration and model, unless the endpoint uses them.

        If `endpoint` is None, delete the endpoint and all its resources.
        """
        if endpoint is None:
            self.client.delete_all()
        elif endpoint["EndpointConfigName"] != self.release.config_name:
            self.client.delete_config_and_model(self.release.config_name, self.release.model_request["ModelName"])

    def _record(
        self, outcome: str, why: str, alarms: list[str] | None = None, created: dt.datetime | None = None
    ) -> dict[str, Any]:
        release = self.release
        spec = {"model": release.model, "version": release.version, "endpoint": self.client.name, "outcome": outcome}
        payer = {"region": self.costs.allocation.region, "project": self.costs.allocation.project}
        return self.step_hook.run(
            "record_deployment",
            {
                **spec,
                **describe_machine(release.policy),
                **payer,
                "config": release.config_name,
                "why": why,
                "alarms": alarms or [],
                "created": created and created.isoformat(),
            },
        )
