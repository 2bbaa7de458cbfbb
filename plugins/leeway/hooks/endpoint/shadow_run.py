"""Decide what a try of a shadow's task does next, from SageMaker's description of the endpoint.

A shadow has five stages:

1. The endpoint is changed to a configuration with the shadow variant.
2. The endpoint's tag `SHADOW_TAG` says when the shadow began.
3. The tag also says when the shadow ended.
4. The endpoint is changed back to the configuration without the shadow variant.
5. The shadow is judged.

A later try finds the stage in SageMaker. So if a task is killed, the time of the shadow is not restarted, and its
variant is removed in the end.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from leeway.hooks.endpoint import failures
from leeway.hooks.endpoint.client import EndpointClient
from leeway.hooks.endpoint.deployment import Endpoint
from leeway.hooks.endpoint.deployment_tag import (
    DEPLOYMENT_TAG,
    get_deployment_name,
    get_modification_time,
    has_begun,
    record_failure,
)
from leeway.hooks.endpoint.requests import build_deployment_tag
from leeway.hooks.endpoint.shadow_requests import (
    BASE_TAG,
    SHADOW_TAG,
    Shadow,
    ShadowRecord,
    build_shadow_request,
    build_update_request,
)
from leeway.hooks.endpoint.shadow_wait import ShadowEvent, ShadowWait
from leeway.hooks.endpoint.wait import CHANGING_STATES, DeploymentEvent, DeploymentWait, get_pending_config
from leeway.hooks.sagemaker.costs import Costs
from leeway.hooks.sagemaker.machines import Machine
from leeway.hooks.step.hook import Logger, StepHook

Event = DeploymentEvent | ShadowEvent
Wait = DeploymentWait | ShadowWait


class ShadowRun:
    """Begin a shadow, wait for the one in progress, end it, or judge the one that ended.

    Args:
        client: calls AWS for the endpoint.
        shadow: the version that runs as the shadow.
        inputs: inputs that determine the shadow.
        costs: checks the budget.
        step_hook: runs steps.
        wait_template: a wait for the endpoint, from which the wait for each change is made.
        log: log of the task.
    """

    def __init__(
        self,
        client: EndpointClient,
        shadow: Shadow,
        inputs: Mapping[str, Any],
        costs: Costs,
        step_hook: StepHook,
        wait_template: DeploymentWait,
        log: Logger,
    ) -> None:
        self.client, self.shadow, self.inputs, self.costs = client, shadow, dict(inputs), costs
        self.step_hook, self.wait_template, self.log = step_hook, wait_template, log

    def resume(self, event: Event | None) -> Wait | dict[str, Any]:
        """Find out what this try does next: begin the shadow, wait, end it, or return the judgement. Idempotent.

        Raises:
            AirflowFailException: the version did not start, the endpoint was changed or deleted meanwhile or is Failed,
                it has not exactly one variant with instances, the budget does not allow the shadow, or Leeway did not
                make the endpoint. A retry cannot help.
            AirflowException: SageMaker failed. A retry can help.
        """
        endpoint = self.client.describe()
        self._check_event(event, endpoint)
        assert endpoint is not None, "_check_event refuses an endpoint that does not exist"
        base_name, request = self._build_request(endpoint)
        config_name = str(request["EndpointConfigName"])
        if event and event["cause"] == "refused":
            if endpoint["EndpointConfigName"] != config_name:
                self._discard(request)
            raise AirflowFailException(f"endpoint {self.client.name} was not changed: {event['message']}")
        if endpoint["EndpointStatus"] in CHANGING_STATES:
            return self._build_wait_for_change(endpoint, config_name)
        tags = self.client.read_own_tags(endpoint)
        own_tag = build_deployment_tag(config_name, self.shadow.task_identity)
        record = ShadowRecord.parse(tags.get(SHADOW_TAG, ""))
        record = record if record and record.shadow_id == self._shadow_id else None
        if endpoint["EndpointConfigName"] == config_name:
            # A record with an outcome is of an earlier shadow, after which the task was cleared.
            record = record if record and not record.outcome else self._record_begin(endpoint)
            if get_deployment_name(tags.get(DEPLOYMENT_TAG, "")) == own_tag:
                # This shadow began, so a later try must not report a failed start.
                self.client.remove_tag(endpoint, DEPLOYMENT_TAG)
            return self._continue(endpoint, base_name, record, event)
        # If a person cleared the task since the record was written, `max_tries` differs, and a new shadow may begin.
        if record and not record.is_discarded(self.shadow.max_tries):
            return self._judge(endpoint, request, record)
        is_own_event = event and event["config_name"] == config_name
        if is_own_event or has_begun(tags.get(DEPLOYMENT_TAG, ""), own_tag, self.shadow.max_tries, endpoint):
            raise self._handle_failed_start(endpoint, request, own_tag)
        return self._begin(endpoint, request, own_tag)

    def _check_event(self, event: Event | None, endpoint: Endpoint | None) -> None:
        """Raise an error if the endpoint was deleted or has failed, or if its state is not known after the wait."""
        name = self.client.name
        if event and event["cause"] not in ("ended", "over", "changed", "refused"):
            raise AirflowException(f"the state of endpoint {name} is not known: {event['message']}")
        if endpoint is None:
            raise AirflowFailException(f"endpoint {name} was deleted during the shadow.")
        if endpoint["EndpointStatus"] == "Failed":
            raise AirflowFailException(f"endpoint {name} is Failed: deploy a version first.")

    def _build_request(self, endpoint: Endpoint) -> tuple[str, dict[str, Any]]:
        """Return the name of the configuration without a shadow, and the request for the one with this shadow."""
        config = self.client.describe_config(str(endpoint["EndpointConfigName"]))
        if config.get("ShadowProductionVariants"):
            config = self.client.describe_config(self.client.read_config_tags(config)[BASE_TAG])
        variants = config["ProductionVariants"]
        if len(variants) != 1 or "InstanceType" not in variants[0]:
            raise AirflowFailException(
                f"a shadow needs one production variant with instances; endpoint {self.client.name} has another kind, "
                f"or {len(variants)} variants."
            )
        shadow = self.shadow
        model_name = shadow.model_request["ModelName"]
        request = build_shadow_request(
            self.client.name, shadow.version, model_name, config, shadow.capture_uri, shadow.tags
        )
        return str(config["EndpointConfigName"]), request

    def _build_wait_for_change(self, endpoint: Endpoint, config_name: str) -> DeploymentWait:
        """Return the wait for the change of the endpoint that is in progress: this shadow's, or another one."""
        pending_config = get_pending_config(endpoint)
        self.log.info(
            "endpoint %s is %s (new configuration: %s): waiting for the end of this change",
            *(self.client.name, endpoint["EndpointStatus"], pending_config or "none"),
        )
        if pending_config != config_name:
            return replace(self.wait_template, config_name="", tag="")
        own_tag = build_deployment_tag(config_name, self.shadow.task_identity)
        return replace(self.wait_template, config_name=config_name, tag=own_tag)

    def _begin(self, endpoint: Endpoint, request: Mapping[str, Any], own_tag: str) -> DeploymentWait:
        self._require_budget(request["ShadowProductionVariants"][0])
        self.client.create_model_and_config(self.shadow.model_request, request)
        return self._build_update_wait(endpoint, request["EndpointConfigName"], own_tag)

    def _build_update_wait(self, endpoint: Endpoint, config_name: str, tag: str) -> DeploymentWait:
        """Return the wait that changes the endpoint's configuration, unless the endpoint was modified meanwhile."""
        wait = replace(
            self.wait_template, config_name=config_name, tag=tag, modification=get_modification_time(endpoint)
        )
        return replace(wait, verb="update", request=build_update_request(self.client.name, config_name))

    def _require_budget(self, variant: Mapping[str, Any]) -> None:
        """Check that the project's budget of the month allows the instances of the shadow variant."""
        duration_s = round(60 * self.shadow.policy["shadow_minutes"])
        machine = Machine(
            instance_type=variant["InstanceType"],
            instance_count=variant["InitialInstanceCount"],
            volume_size_gb=0,
            is_spot=False,
            max_run_s=max(1, duration_s),
            max_wait_s=0,
        )
        budget = self.costs.check_budget([machine])
        if not budget["allowed"]:
            raise AirflowFailException(
                f"the budget does not allow a shadow on endpoint {self.client.name}: {budget['reason']}"
            )

    @property
    def _shadow_id(self) -> str:
        """The identity of this task's shadow, as the endpoint's tag `SHADOW_TAG` stores it."""
        return build_deployment_tag(self.shadow.variant, self.shadow.task_identity)

    def _record_begin(self, endpoint: Endpoint) -> ShadowRecord:
        record = ShadowRecord(self._shadow_id, _get_now().isoformat(), max_tries=str(self.shadow.max_tries))
        self.client.set_tags(endpoint, {SHADOW_TAG: record.format()})
        return record

    def _continue(self, endpoint: Endpoint, base_name: str, record: ShadowRecord, event: Event | None) -> Wait:
        """Return the wait for the end of the shadow or, after its end, for the removal of the shadow variant."""
        wait = self._build_shadow_wait(str(endpoint["EndpointConfigName"]), base_name, record)
        is_over = bool(event and event["cause"] == "over" and event["config_name"] == wait.config_name)
        if not (record.until or is_over or wait.compute_remaining_time() <= dt.timedelta()):
            return wait
        if event and event["cause"] == "ended" and event["config_name"] == base_name:
            reason = failures.format_reason(endpoint)
            raise AirflowException(f"the shadow variant of endpoint {self.client.name} was not removed: {reason}")
        if not record.until:
            ended_record = replace(record, until=_get_now().isoformat())
            self.client.set_tags(endpoint, {SHADOW_TAG: ended_record.format()})
        self.log.info("endpoint %s: removing %s", self.client.name, self.shadow.variant)
        return self._build_update_wait(endpoint, base_name, tag="")

    def _build_shadow_wait(self, config_name: str, base_name: str, record: ShadowRecord) -> ShadowWait:
        template, policy = self.wait_template, self.shadow.policy
        end = dt.datetime.fromisoformat(record.since) + dt.timedelta(minutes=policy["shadow_minutes"])
        return ShadowWait(
            endpoint=self.client.name,
            config_name=config_name,
            base_name=base_name,
            variant=self.shadow.variant,
            since=record.since,
            until=end.isoformat(),
            requests=policy["shadow_requests"],
            check_interval_s=template.check_interval_s,
            **asdict(template.connection),
        )

    def _judge(self, endpoint: Endpoint, request: Mapping[str, Any], record: ShadowRecord) -> dict[str, Any]:
        """Judge the shadow that has ended, and record the judgement. Idempotent.

        If the version did not pass, the outcome is stored in the endpoint's tag. So another shadow begins if a person
        clears the task. A retry judges the same shadow again, and reports the same outcome.
        """
        self._discard(request)
        shadow, name = self.shadow, self.client.name
        if not record.until:
            raise AirflowFailException(
                f"endpoint {name} was changed by another deployment while version {shadow.version} of {shadow.model} "
                "was its shadow: nothing was judged."
            )
        fields = {"model": shadow.model, "version": shadow.version, "champion": shadow.champion, "endpoint": name}
        capture = request["DataCaptureConfig"]["DestinationS3Uri"]
        times = {"since": record.since, "until": record.until}
        result = self.step_hook.run("shadow", {**fields, "variant": shadow.variant, "captured": capture, **times})
        self._record_outcome(result["outcome"], request["EndpointConfigName"], result["reason"])
        if result["outcome"] != "passed":
            judged_record = replace(record, outcome=result["outcome"], max_tries=str(shadow.max_tries))
            self.client.set_tags(endpoint, {SHADOW_TAG: judged_record.format()})
        return result

    def _handle_failed_start(self, endpoint: Endpoint, request: Mapping[str, Any], own_tag: str) -> AirflowException:
        """Record that the version did not start, delete its configuration and model, and return the task's error.

        The endpoint's tag changes last, so that the retry of a killed task reports the same failure. Idempotent.
        """
        shadow, reason = self.shadow, failures.format_reason(endpoint)
        lines = self.client.read_log_end(shadow.variant)
        for line in lines:
            self.log.warning("endpoint %s: %s", self.client.name, line)
        self._record_outcome("failed", request["EndpointConfigName"], reason)
        self._discard(request)
        text = (
            f"version {shadow.version} of {shadow.model} did not start as a shadow on endpoint {self.client.name}, "
            f"which serves what it served before: {reason}{failures.format_log_end(lines)}"
        )
        error = failures.make_deployment_error(text, reason)
        record_failure(self.client, endpoint, own_tag, shadow.max_tries, error)
        return error

    def _discard(self, request: Mapping[str, Any]) -> None:
        self.client.delete_config_and_model(request["EndpointConfigName"], self.shadow.model_request["ModelName"])

    def _record_outcome(self, outcome: str, config_name: str, why: str) -> None:
        shadow = self.shadow
        fields = {"model": shadow.model, "version": shadow.version, "endpoint": self.client.name, "config": config_name}
        self.step_hook.run("record_deployment", {**fields, "outcome": f"shadow_{outcome}", "why": why[:2_000]})


def remove_shadow(client: EndpointClient, variant: str) -> None:
    """Begin to remove a shadow variant from an endpoint, if the endpoint has it and is InService. Idempotent."""
    endpoint = client.describe()
    if endpoint is None or endpoint["EndpointStatus"] != "InService":
        return
    config = client.describe_config(str(endpoint["EndpointConfigName"]))
    if any(item["VariantName"] == variant for item in config.get("ShadowProductionVariants", ())):
        client.update(build_update_request(client.name, client.read_config_tags(config)[BASE_TAG]))


def _get_now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
