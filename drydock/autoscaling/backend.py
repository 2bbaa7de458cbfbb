"""Extend moto's Application Auto Scaling: check variants, list activities, and store targets and policies."""

import json
import re
from typing import Any

from moto.applicationautoscaling import urls
from moto.applicationautoscaling.exceptions import AWSValidationException
from moto.applicationautoscaling.models import (
    ApplicationAutoscalingBackend,
    FakeApplicationAutoscalingPolicy,
    FakeScalableTarget,
    applicationautoscaling_backends,
)
from moto.applicationautoscaling.responses import ApplicationAutoScalingResponse
from moto.core.exceptions import JsonRESTError

from drydock.autoscaling.activities import create_activities
from drydock.autoscaling.rules import check_policy, check_range
from drydock.autoscaling.targets import DIMENSION, iterate_owners, open_targets
from drydock.endpoints.endpoint import Endpoint
from drydock.endpoints.registry import Endpoints
from drydock.moto_registry import bind_arguments
from drydock.resources import Owner, Resources

DEFAULT_PAGE = 50
"""Number of activities in a page if the request has no MaxResults: AWS's default."""


class ScalingResponse(ApplicationAutoScalingResponse):
    """moto's HTTP responses, and DescribeScalingActivities, which moto 5.2.5 does not have."""

    def describe_scaling_activities(self) -> str:
        """Answer DescribeScalingActivities."""
        resource_id, token = self._get_param("ResourceId"), str(self._get_param("NextToken") or 0)
        if not re.fullmatch("[0-9]{1,18}", token):
            raise AWSValidationException("NextToken is not a token of this server.")
        begin = int(token)
        end = begin + (self._get_int_param("MaxResults") or DEFAULT_PAGE)
        backend = applicationautoscaling_backends[self.current_account][self.region]
        activities = [activity for activity in list(backend.activities) if resource_id in (None, activity.resource_id)]
        page = {"ScalingActivities": [activity.describe() for activity in activities[begin:end]]}
        return json.dumps(page | ({"NextToken": str(end)} if end < len(activities) else {}))


class VariantAutoscaling(ApplicationAutoscalingBackend):
    """The Application Auto Scaling of one account and region.

    Args:
        endpoints: The endpoints of all accounts and regions.
        region_name: The region.
        account_id: The account.
    """

    def __init__(self, endpoints: Endpoints, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.endpoints, self.owner = endpoints, Owner(account_id, region_name)
        self.activities = create_activities()
        self._stored_targets = open_targets(endpoints.store)
        self._stored_policies = Resources(endpoints.store, "scaling-policy")
        for text in self._stored_targets.list_texts(self.owner):
            super().register_scalable_target(**json.loads(text))
        for text in self._stored_policies.list_texts(self.owner):
            content = json.loads(text)
            super().put_scaling_policy(**content["arguments"]).policy_arn = content["arn"]

    @property
    def url_bases(self) -> list[str]:
        """The host names at which moto serves Application Auto Scaling."""
        return list(urls.url_bases)

    @property
    def url_paths(self) -> dict[str, Any]:
        """The only path of the protocol, with the handler that also answers DescribeScalingActivities."""
        return {"/$": ScalingResponse.dispatch}

    def reset(self) -> None:
        """Delete all targets, policies and activities, for moto's /moto-api/reset."""
        for resources in (self._stored_targets, self._stored_policies):
            resources.delete_all(self.owner)
        arguments = (self.endpoints, self.region_name, self.account_id)
        # The reset of moto 5.2.5 would call __init__ without the endpoints.
        self.__dict__.clear()
        VariantAutoscaling.__init__(self, *arguments)

    def find_variant(self, resource_id: str) -> tuple[Endpoint, str] | None:
        """Return the endpoint and the name of a variant; None if the endpoint or the variant does not exist.

        Args:
            resource_id: The variant, as endpoint/NAME/variant/NAME.
        """
        parts = resource_id.split("/")
        endpoint = self.endpoints.get_endpoints(self.owner).get(parts[1]) if len(parts) == 4 else None
        if endpoint is None or parts[3] not in {variant.name for variant in endpoint.record.plan.variants}:
            return None
        return endpoint, parts[3]

    def register_scalable_target(self, namespace: str, r_id: str, dimension: str, **values: Any) -> FakeScalableTarget:
        """Register a scalable target, or change it.

        Raises:
            AWSValidationException: The variant does not exist or is serverless, or the range of its number of instances
                is not valid. A retry cannot help.
        """
        if dimension == DIMENSION:
            self._check_range(r_id, values)
        target = super().register_scalable_target(namespace, r_id, dimension, **values)
        if dimension == DIMENSION:
            stored_values = {
                "min_capacity": target.min_capacity,
                "max_capacity": target.max_capacity,
                "role_arn": target.role_arn,
                "suspended_state": target.suspended_state,
            }
            text = json.dumps({"namespace": namespace, "r_id": r_id, "dimension": dimension, **stored_values})
            self._stored_targets.write(self.owner, r_id, text)
        return target

    def deregister_scalable_target(self, namespace: str, r_id: str, dimension: str) -> None:
        """Delete a scalable target and its policies, as AWS does.

        Raises:
            AWSValidationException: The scalable target does not exist. A retry cannot help.
        """
        super().deregister_scalable_target(namespace, r_id, dimension)
        self._stored_targets.delete(self.owner, r_id)
        for policy in list(self.policies.values()):
            if (policy.resource_id, policy.scalable_dimension) == (r_id, dimension):
                self.delete_scaling_policy(policy.policy_name, namespace, r_id, dimension)

    def put_scaling_policy(self, **arguments: Any) -> FakeApplicationAutoscalingPolicy:
        """Store a scaling policy, in place of an earlier policy with the same name.

        Raises:
            JsonRESTError: The policy's scalable target is not registered. A retry cannot help.
            AWSValidationException: The policy is not valid, or drydock cannot evaluate it. A retry cannot help.
        """
        if arguments["scalable_dimension"] != DIMENSION:
            return super().put_scaling_policy(**arguments)
        if arguments["resource_id"] not in self.targets.get(DIMENSION, {}):
            resource = f"resource ID: {arguments['resource_id']}, scalable dimension: {DIMENSION}"
            text = f"No scalable target registered for service namespace: sagemaker, {resource}"
            raise JsonRESTError("ObjectNotFoundException", text)
        key = FakeApplicationAutoscalingPolicy.formulate_key(
            "sagemaker", arguments["resource_id"], DIMENSION, arguments["policy_name"]
        )
        earlier_policy = self.policies.get(key)
        # As on AWS, an update keeps the type and the configuration that the request does not have.
        for argument, attribute in (("policy_type", "policy_type"), ("policy_body", "_policy_body")):
            arguments[argument] = arguments[argument] or getattr(earlier_policy, attribute, None)
        check_policy(arguments["policy_type"], arguments["policy_body"] or {})
        policy = super().put_scaling_policy(**arguments)
        if earlier_policy:
            # As on AWS, the ARN stays the same: alarms refer to it.
            policy.policy_arn = earlier_policy.policy_arn
        text = json.dumps({"arguments": arguments, "arn": policy.policy_arn})
        self._stored_policies.write(self.owner, _build_key(policy.resource_id, policy.policy_name), text)
        return policy

    def delete_scaling_policy(
        self, policy_name: str, service_namespace: str, resource_id: str, scalable_dimension: str
    ) -> None:
        """Delete a scaling policy.

        Raises:
            AWSValidationException: The policy does not exist. A retry cannot help.
        """
        super().delete_scaling_policy(policy_name, service_namespace, resource_id, scalable_dimension)
        self._stored_policies.delete(self.owner, _build_key(resource_id, policy_name))

    def _check_range(self, resource_id: str, values: dict[str, Any]) -> None:
        """Check a variant and the range of its instances. A bound that the request lacks keeps its present value."""
        endpoint_and_name = self.find_variant(resource_id)
        if endpoint_and_name is None:
            raise AWSValidationException(f"The variant {resource_id} does not exist.")
        target = self.targets.get(DIMENSION, {}).get(resource_id)
        low, high = (
            getattr(target, name, None) if values[name] is None else values[name]
            for name in ("min_capacity", "max_capacity")
        )
        endpoint, variant = endpoint_and_name
        check_range(low, high, endpoint.record.plan, variant, endpoint.min_instances)


def install(endpoints: Endpoints) -> None:
    """Make moto use `VariantAutoscaling`, and load the stored targets and policies."""
    applicationautoscaling_backends.clear()
    applicationautoscaling_backends.backend = bind_arguments(VariantAutoscaling, endpoints)
    for owner in iterate_owners(endpoints.store):
        applicationautoscaling_backends[owner.account_id][owner.region]  # moto creates it at the first access


def _build_key(resource_id: str, policy_name: str) -> str:
    return f"{resource_id} {policy_name}"
