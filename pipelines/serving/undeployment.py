"""Delete endpoints that Leeway created, with their configurations, models and alarms; count their requests."""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import boto3

from pipelines.errors import DataError, ServiceError, SpecError
from pipelines.registry.lifecycle import Event, Journal, Kind, State
from pipelines.registry.lifecycle.deployments import record_deployment
from pipelines.serving import endpoint_resources
from pipelines.system.aws_errors import translate_aws_errors
from pipelines.system.log import log

KEEP_TAG = "leeway:keep"
"""Tag of an endpoint that is not deleted although it is idle. The value of the tag has no effect."""
DELETION_TIMEOUT_S = 900.0
"""Longest wait for the end of a deletion, seconds."""
CHECK_INTERVAL_S = 0.5
MINUTE_S, HOUR_S = 60, 3_600
MAX_POINTS = 1_440
"""CloudWatch's limit of values for one request."""


@dataclass(frozen=True)
class Endpoint:
    """An endpoint of the account."""

    name: str
    tags: Mapping[str, str]
    description: Mapping[str, Any]

    @property
    def is_created_by_leeway(self) -> bool:
        """Whether Leeway created the endpoint, so that Leeway may delete it."""
        return endpoint_resources.ENDPOINT_TAG in self.tags

    @property
    def model(self) -> str:
        """Registered model that the endpoint serves; empty if no tag names it."""
        return self.tags.get(endpoint_resources.MODEL_TAG, "")

    @property
    def version(self) -> str:
        """Version of the endpoint's last deployment; empty if no tag names it."""
        return self.tags.get(endpoint_resources.VERSION_TAG, "")


class Endpoints:
    """The endpoints of the region AWS_DEFAULT_REGION, at AWS_ENDPOINT_URL if that is set.

    Raises:
        SpecError: no AWS region is configured. A retry cannot help.
    """

    def __init__(self) -> None:
        if not boto3.Session().region_name:
            raise SpecError("no AWS region is configured.", "Set AWS_DEFAULT_REGION.")
        self.sagemaker, self.cloudwatch = boto3.client("sagemaker"), boto3.client("cloudwatch")

    @property
    def region(self) -> str:
        """Name of the AWS region."""
        return str(self.sagemaker.meta.region_name)

    def undeploy(self, name: str, why: str, model: str = "") -> bool:
        """Delete an endpoint with its configurations, models and alarms, and wait until it is deleted. Idempotent.

        Args:
            name: name of the endpoint.
            why: the reason, for the event in the model's history.
            model: registered model that the endpoint must serve; empty: any.

        Returns:
            Whether the endpoint existed.

        Raises:
            DataError: Leeway did not create the endpoint, or it serves another model. A retry cannot help.
            InvalidError: AWS denies the request. A retry cannot help.
            ServiceError: SageMaker does not answer; or refuses the deletion, such as while the endpoint is being
                changed; or the deletion takes too long. A retry continues the deletion.
        """
        with translate_aws_errors("SageMaker or CloudWatch"):
            endpoint = self.find(name)
            if endpoint:
                _require_created_by_leeway(endpoint)
                _require_model(endpoint, model)
                endpoint_resources.delete_endpoint(self.sagemaker, name)
                self._wait_for_deletion(name)
            deleted_count = endpoint_resources.delete_unused_resources(self.sagemaker, name)
            deleted_count += endpoint_resources.delete_alarms(self.cloudwatch, name)
        if endpoint and endpoint.model:
            self._record(endpoint.model, endpoint.version, name, why)
        elif deleted_count and model:  # a process was killed while it deleted the endpoint
            events = [event for event in Journal.open().read_deployments() if event.model == model]
            for event in self._list_deployments_without_endpoint(
                event for event in events if event.evidence.get("endpoint") == name
            ):
                self._record(model, event.version, name, why)
        log.info("endpoint %s: %s", name, f"deleted: {why}" if endpoint else "there is none, so nothing to delete")
        return endpoint is not None

    def finish_deletions(self) -> None:
        """Finish deletions of endpoints that a killed process began: delete what belonged to them. Idempotent.

        Only endpoints that do not exist any more are examined. An endpoint of which nothing is left may be in another
        account, so nothing is recorded about it. What was created after an endpoint's last deployment stays, since
        another deployment may have begun.

        Raises:
            InvalidError: AWS denies the request. A retry cannot help.
            ServiceError: SageMaker or the lake does not answer. A retry continues the deletions.
        """
        for event in self._list_deployments_without_endpoint(Journal.open().read_deployments()):
            name = str(event.evidence["endpoint"])
            with translate_aws_errors("SageMaker or CloudWatch"):
                deleted_count = endpoint_resources.delete_unused_resources(self.sagemaker, name, before=event.at)
            if deleted_count:
                with translate_aws_errors("SageMaker or CloudWatch"):
                    endpoint_resources.delete_alarms(self.cloudwatch, name)
                self._record(event.model, event.version, name, "its deletion was finished")
                log.info("endpoint %s: its deletion was finished: %d configurations and models", name, deleted_count)

    def _list_deployments_without_endpoint(self, events: Iterable[Event]) -> list[Event]:
        """Return the last deployment of each endpoint of the region that no longer exists, though no event says so."""
        last_events = {
            event.evidence.get("endpoint"): event
            for event in events
            if event.kind is not Kind.DEPLOYMENT_FAILED and event.evidence.get("region") == self.region
        }
        with translate_aws_errors("SageMaker or CloudWatch"):
            return [
                event
                for name, event in last_events.items()
                if event.kind is Kind.DEPLOYED and not endpoint_resources.describe_endpoint(self.sagemaker, str(name))
            ]

    def _record(self, model: str, version: str, name: str, why: str) -> None:
        evidence = {"config": "", "region": self.region}  # the endpoint has no configuration any more
        record_deployment(Kind.UNDEPLOYED, model, version, name, why, evidence)

    def list_names(self) -> list[str]:
        """Return the names of all endpoints that are InService, sorted."""
        with translate_aws_errors("SageMaker or CloudWatch"):
            pages = self.sagemaker.get_paginator("list_endpoints").paginate(StatusEquals="InService")
            return sorted(item["EndpointName"] for page in pages for item in page["Endpoints"])

    def count_invocations(self, endpoint: Endpoint, begin: dt.datetime, end: dt.datetime) -> float:
        """Count the requests that an endpoint got between two moments."""
        begin = begin.replace(second=0, microsecond=0)  # metrics have whole minutes
        responses = [
            self.cloudwatch.get_metric_statistics(
                Namespace="AWS/SageMaker",
                MetricName="Invocations",
                Dimensions=[
                    {"Name": "EndpointName", "Value": endpoint.name},
                    {"Name": "VariantName", "Value": variant["VariantName"]},
                ],
                StartTime=begin,
                EndTime=end + dt.timedelta(minutes=1),
                Period=choose_period_s(begin, end),
                Statistics=["Sum"],
            )
            for variant in endpoint.description.get("ProductionVariants", [])
        ]
        return float(sum(point["Sum"] for response in responses for point in response["Datapoints"]))

    def count_instances(self, endpoint: Endpoint) -> dict[str, int] | None:
        """Return how many instances of each type an endpoint has now. Serverless variants have none.

        Returns:
            None if the types are not known, because the configuration was deleted; or if a variant has provisioned
            concurrency, which costs money without an instance.
        """
        variants = self._list_configured_variants(endpoint)
        if not variants or any(item.get("ServerlessConfig", {}).get("ProvisionedConcurrency") for item in variants):
            return None
        types = {item["VariantName"]: item.get("InstanceType") for item in variants}
        counts: Counter[str] = Counter()
        for variant in _list_variants(endpoint.description):
            if instance_type := types.get(variant["VariantName"]):
                counts[instance_type] += int(variant.get("CurrentInstanceCount", 0))
        return dict(counts)

    def are_all_requests_counted(self, endpoint: Endpoint) -> bool:
        """Return whether the metrics of an endpoint's variants count all its requests.

        Requests to inference components have metrics of their own. The variants of an endpoint with such components
        have no model.
        """
        variants = self._list_configured_variants(endpoint)
        return bool(variants) and all(variant.get("ModelName") for variant in variants)

    def _list_configured_variants(self, endpoint: Endpoint) -> list[Mapping[str, Any]]:
        """Return the variants of an endpoint's configuration; empty if this was deleted, which SageMaker allows."""
        name = endpoint.description["EndpointConfigName"]
        return _list_variants(endpoint_resources.describe_config(self.sagemaker, name) or {})

    def find(self, name: str) -> Endpoint | None:
        """Return an endpoint; None if it does not exist."""
        description = endpoint_resources.describe_endpoint(self.sagemaker, name)
        if description is None:
            return None
        return Endpoint(name, endpoint_resources.read_tags(self.sagemaker, description["EndpointArn"]), description)

    def _wait_for_deletion(self, name: str) -> None:
        deadline = time.monotonic() + DELETION_TIMEOUT_S
        while endpoint_resources.describe_endpoint(self.sagemaker, name):
            if time.monotonic() > deadline:
                raise ServiceError(f"endpoint {name} was not deleted within {DELETION_TIMEOUT_S:.0f} s.", "Try again.")
            time.sleep(CHECK_INTERVAL_S)


def _list_variants(description: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [variant for member in endpoint_resources.VARIANT_MEMBERS for variant in description.get(member, [])]


def _require_created_by_leeway(endpoint: Endpoint) -> None:
    if not endpoint.is_created_by_leeway:
        hint = f"It has no tag {endpoint_resources.ENDPOINT_TAG}: delete it where it was made."
        raise DataError(f"Leeway did not make the endpoint {endpoint.name}, so it is not deleted.", hint)


def _require_model(endpoint: Endpoint, model: str) -> None:
    if model and endpoint.model and endpoint.model != model:
        raise DataError(
            f"endpoint {endpoint.name} serves the model {endpoint.model}, not {model}, so it is not deleted.",
            f"Give --model {endpoint.model}, or another endpoint.",
        )


def require_known_endpoint(state: State, model: str, endpoint: str) -> None:
    """Refuse the name of an endpoint that does not exist, because it may be misspelled.

    The name is accepted if an event of the model has it, or if it is that of the model's default endpoint.

    Args:
        state: the model's state.
        model: name of the model.
        endpoint: name of the endpoint.

    Raises:
        DataError: the model has no events; or no event names the endpoint, and it is not the model's default endpoint.
            A retry cannot help.
    """
    if not state.events:
        raise DataError(
            f"there is no model {model}: its history has no event; nor is there an endpoint {endpoint}.",
            "`python -m pipelines status` lists the models.",
        )
    names = {str(event.evidence["endpoint"]) for event in state.events if event.evidence.get("endpoint")}
    names.add(endpoint_resources.build_endpoint_name(model))
    if endpoint not in names:
        raise DataError(
            f"there is no endpoint {endpoint}, and {model} was never deployed to one of that name.",
            f"Its endpoints are or were: {', '.join(sorted(names))}.",
        )


def choose_period_s(begin: dt.datetime, end: dt.datetime) -> int:
    """Return the period of a metric's values, seconds: a minute, or an hour if there would be too many minutes."""
    max_minutes = MAX_POINTS - 2  # `count_invocations` rounds `begin` down, and reads a minute more after `end`
    return MINUTE_S if (end - begin).total_seconds() <= MINUTE_S * max_minutes else HOUR_S
