"""The endpoints of one account and region, and their configurations."""

import threading
from collections.abc import Mapping
from typing import Any, NoReturn

from moto.cloudwatch.models import cloudwatch_backends
from moto.sagemaker.exceptions import AWSValidationException
from moto.sagemaker.models import FakeEndpoint, FakeEndpointConfig

from drydock.api.models.backend import ModelsBackend
from drydock.autoscaling.targets import list_resource_ids
from drydock.cloudwatch.alarm_rules import find_evaluation_problem
from drydock.endpoints import rules
from drydock.endpoints.config import EndpointConfig
from drydock.endpoints.endpoint import Endpoint
from drydock.endpoints.records import EndpointRecord, EndpointStatus, ServedConfig, Variant
from drydock.endpoints.registry import Endpoints
from drydock.endpoints.sizes import compute_size, retain_properties
from drydock.endpoints.traffic import build_traffic_plan
from drydock.jobs.record import get_now
from drydock.jobs.rules import check_owner, refuse
from drydock.resources import Resources


class EndpointsBackend(ModelsBackend):
    """The SageMaker backend of one account and region, with endpoints that run.

    Args:
        endpoints: The endpoints of all accounts and regions.
        region_name: The region.
        account_id: The account.
    """

    def __init__(self, endpoints: Endpoints, region_name: str, account_id: str) -> None:
        super().__init__(endpoints.store, region_name, account_id)
        self._registry = endpoints
        self._configs = Resources(endpoints.store, "endpoint-config")
        self._config_lock = threading.Lock()
        configs = [EndpointConfig.load(text) for text in self._configs.list_texts(self._owner)]
        # moto's tagging reads these two attributes.
        self.endpoint_configs: dict[str, Any] = {config.name: config for config in configs}
        self.endpoints: dict[str, Any] = endpoints.get_endpoints(self._owner)

    def delete_stored_resources(self) -> None:
        """Delete all endpoints, endpoint configurations and models."""
        self._registry.remove_all(self._owner)
        self._configs.delete_all(self._owner)
        self._models_store.delete_all(self._owner)

    def create_config(self, request: Mapping[str, Any]) -> EndpointConfig:
        """Store an endpoint configuration.

        Raises:
            AWSValidationException: drydock cannot run the configuration, a model does not exist, or the name is in use.
                A retry cannot help.
        """
        rules.check_config(request)
        for variant in (*request["ProductionVariants"], *request.get("ShadowProductionVariants", ())):
            self.find_container(variant["ModelName"])
        check_owner(self.account_id, self.region_name)
        name = request["EndpointConfigName"]
        arn = FakeEndpointConfig.arn_formatter(name, self.account_id, self.region_name)
        stored_request = {key: value for key, value in request.items() if key != "Tags"}
        config = EndpointConfig(name, arn, stored_request, get_now(), list(request.get("Tags", [])))
        with self._config_lock:
            if name in self.endpoint_configs:
                refuse(f'Cannot create already existing endpoint configuration "{arn}".')
            self.save_config(config)
            self.endpoint_configs[name] = config
        return config

    def save_config(self, config: EndpointConfig) -> None:
        """Store a configuration and its tags."""
        self._configs.write(self._owner, config.name, config.dump())

    def find_config(self, name: str) -> EndpointConfig:
        """Return an endpoint configuration.

        Raises:
            AWSValidationException: The configuration does not exist. A retry cannot help.
        """
        config: EndpointConfig | None = self.endpoint_configs.get(name)
        if config is None:
            arn = FakeEndpointConfig.arn_formatter(name, self.account_id, self.region_name)
            raise AWSValidationException(f'Could not find endpoint configuration "{arn}".')
        return config

    def delete_config(self, name: str) -> None:
        """Delete an endpoint configuration. Endpoints that use it stay.

        Raises:
            AWSValidationException: The configuration does not exist. A retry cannot help.
        """
        self.find_config(name)
        self._configs.delete(self._owner, name)
        del self.endpoint_configs[name]

    def find_endpoint(self, name: str) -> Endpoint:
        """Return an endpoint.

        Raises:
            AWSValidationException: The endpoint does not exist. A retry cannot help.
        """
        endpoint: Endpoint | None = self.endpoints.get(name)
        if endpoint is None:
            raise AWSValidationException(f'Could not find endpoint "{self._build_arn(name)}".')
        return endpoint

    def begin_endpoint_creation(self, request: Mapping[str, Any]) -> str:
        """Create an endpoint, and return its ARN. Its instances start in the background.

        Raises:
            AWSValidationException: The configuration, a model or an alarm does not exist, the DeploymentConfig is not
                valid, or the name is in use, ignoring case. A retry cannot help.
        """
        check_owner(self.account_id, self.region_name)
        name, now = request["EndpointName"], get_now()
        served_config = self._build_served_config(request["EndpointConfigName"])
        deployment = request.get("DeploymentConfig")
        # A new endpoint has no instances to replace, so its DeploymentConfig has no effect yet. But a later update may
        # retain it, so it must be valid.
        self._check_deployment(deployment, served_config)
        tags = list(request.get("Tags", []))
        arn = self._build_arn(name)
        record = EndpointRecord(name, arn, served_config, created=now, modified=now, tags=tags, deployment=deployment)
        if not self._registry.create(self._owner, record):
            refuse(f'Cannot create already existing endpoint "{record.arn}".')
        return record.arn

    def update_endpoint(self, request: Mapping[str, Any]) -> str:
        """Begin to replace the instances of an endpoint by those of another configuration, and return its ARN.

        Raises:
            AWSValidationException: The endpoint is not InService, the configuration, a model or an alarm does not
                exist, or the DeploymentConfig is not valid. A retry can help only if the endpoint is being changed.
        """
        endpoint = self._find_endpoint_in_service(request["EndpointName"])
        served_config = self._build_served_config(request["EndpointConfigName"])
        if request.get("RetainAllVariantProperties"):
            excluded_properties = {
                item["VariantPropertyType"] for item in request.get("ExcludeRetainedVariantProperties", ())
            }
            retain_properties(endpoint.record.plan, served_config, excluded_properties)
            rules.check_instance_count(served_config.count_instances())
        rules.check_conversion(endpoint.record.plan, served_config)
        self._check_scalable_targets(endpoint, served_config)
        deployment = request.get("DeploymentConfig")
        if request.get("RetainDeploymentConfig") and deployment is None:
            deployment = endpoint.record.deployment
        self._check_deployment(deployment, served_config)
        if not endpoint.update(served_config, deployment):
            self._refuse_change(endpoint)
        return endpoint.record.arn

    def scale_endpoint(self, request: Mapping[str, Any]) -> str:
        """Begin to change the weights and numbers of instances of an endpoint's variants, and return its ARN.

        Raises:
            AWSValidationException: The endpoint is not InService, a variant does not exist, all weights would be 0, or
                there would be too many instances. A retry can help only if the endpoint is being changed.
        """
        endpoint = self._find_endpoint_in_service(request["EndpointName"])
        plan = endpoint.record.plan
        variants = {variant.name: variant for variant in plan.variants}
        changes: dict[str, Any] = {}
        for change in request["DesiredWeightsAndCapacities"]:
            if change["VariantName"] in changes:
                refuse(f"The variant {change['VariantName']} is in DesiredWeightsAndCapacities more than once.")
            changes[change["VariantName"]] = change
        if unknown_names := changes.keys() - variants.keys():
            refuse(f"The endpoint {endpoint.name} has no variant {sorted(unknown_names)[0]}.")
        sizes = {
            name: compute_size(variant, changes.get(name, {}), endpoint.min_instances)
            for name, variant in variants.items()
        }
        shadow_weights = [sizes[plan.shadow.name].weight] if plan.shadow else []
        rules.check_weights([sizes[variant.name].weight for variant in plan.production_variants], shadow_weights)
        rules.check_instance_count(sum(size.count for size in sizes.values()))
        if not endpoint.scale(sizes):
            self._refuse_change(endpoint)
        return endpoint.record.arn

    def begin_endpoint_deletion(self, name: str) -> None:
        """Begin to delete an endpoint.

        Raises:
            AWSValidationException: The endpoint does not exist. A retry cannot help.
        """
        self._registry.delete(self.find_endpoint(name))

    def _find_endpoint_in_service(self, name: str) -> Endpoint:
        endpoint = self.find_endpoint(name)
        if endpoint.record.status is not EndpointStatus.IN_SERVICE:
            self._refuse_change(endpoint)
        return endpoint

    def _refuse_change(self, endpoint: Endpoint) -> NoReturn:
        refuse(f'Cannot update endpoint "{endpoint.record.arn}": its status is {endpoint.status}, not InService.')

    def _check_scalable_targets(self, endpoint: Endpoint, served_config: ServedConfig) -> None:
        """Check that each variant with a scalable target stays: `served_config` has it, with the same instance type."""
        targets = list_resource_ids(self._registry.store, self._owner)
        planned_variants = {(variant.name, variant.instance_type) for variant in served_config.variants}
        names = [
            variant.name
            for variant in endpoint.record.plan.variants
            if f"endpoint/{endpoint.name}/variant/{variant.name}" in targets
            and (variant.name, variant.instance_type) not in planned_variants
        ]
        if names:
            refuse(
                f'The variant(s) "[{", ".join(names)}]" must be deregistered as scalable targets with AWS Auto Scaling '
                "before they can be removed or have their instance type changed."
            )

    def _check_deployment(self, deployment: Mapping[str, Any] | None, served_config: ServedConfig) -> None:
        """Check a DeploymentConfig: its steps fit the configuration, and its alarms exist and can be evaluated."""
        alarm_names = build_traffic_plan(deployment, served_config.count_instances()).alarms
        alarms = cloudwatch_backends[self.account_id][self.region_name].alarms if alarm_names else {}
        for name in alarm_names:
            if name not in alarms:
                refuse(f"The CloudWatch alarm {name} does not exist.")
            if problem := find_evaluation_problem(alarms[name]):
                refuse(f"The CloudWatch alarm {name} cannot guard an update: {problem}.")

    def _build_served_config(self, config_name: str) -> ServedConfig:
        request = self.find_config(config_name).request
        variants = [
            Variant(
                name=variant["VariantName"],
                container=dict(self.find_container(variant["ModelName"])),
                instance_type=variant.get("InstanceType", ""),
                count=rules.count_instances(variant),
                weight=variant.get("InitialVariantWeight", 1.0),
                is_shadow=member == "ShadowProductionVariants",
                serverless=variant.get("ServerlessConfig"),
                managed_scaling=variant.get("ManagedInstanceScaling"),
                volume_gib=variant.get("VolumeSizeInGB", 0),
            )
            for member in ("ProductionVariants", "ShadowProductionVariants")
            for variant in request.get(member, ())
        ]
        return ServedConfig(
            config_name, variants, request.get("DataCaptureConfig"), request.get("AsyncInferenceConfig")
        )

    def _build_arn(self, name: str) -> str:
        return str(FakeEndpoint.arn_formatter(name, self.account_id, self.region_name))
