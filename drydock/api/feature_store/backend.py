"""The feature groups of one account and region."""

from collections.abc import Mapping
from typing import Any

from moto.sagemaker.exceptions import ResourceInUseException, ResourceNotFound
from moto.sagemaker.utils import arn_formatter

from drydock.api.endpoints_backend import EndpointsBackend
from drydock.endpoints.registry import Endpoints
from drydock.feature_store.group import FeatureGroup
from drydock.feature_store.registry import FeatureGroups
from drydock.jobs.record import get_now
from drydock.jobs.rules import check_owner, refuse

# SageMaker adds columns with these names to the offline store.
RESERVED_NAMES = ("is_deleted", "write_time", "api_invocation_time")


class FeatureGroupsBackend(EndpointsBackend):
    """The SageMaker backend of one account and region, with feature groups that store records.

    Args:
        endpoints: The endpoints of all accounts and regions.
        feature_groups: The feature groups of all accounts and regions.
        region_name: The region.
        account_id: The account.
    """

    def __init__(self, endpoints: Endpoints, feature_groups: FeatureGroups, region_name: str, account_id: str) -> None:
        super().__init__(endpoints, region_name, account_id)
        self._feature_groups = feature_groups
        # The Resource Groups Tagging API and the operation Search read this attribute, both in moto.
        self.feature_groups: dict[str, Any] = feature_groups.get_groups(self._owner)

    def delete_stored_resources(self) -> None:
        """Delete all feature groups, endpoints, endpoint configurations and models."""
        super().delete_stored_resources()
        self._feature_groups.delete_all(self._owner)

    def create_group(self, request: Mapping[str, Any]) -> FeatureGroup:
        """Store a feature group.

        Raises:
            AWSValidationException: The request is not valid, or needs what drydock lacks. A retry cannot help.
            ResourceInUseException: A group of this name exists, ignoring case. A retry cannot help.
        """
        _check_request(request)
        check_owner(self.account_id, self.region_name)
        name = request["FeatureGroupName"]
        arn = arn_formatter("feature-group", name.lower(), self.account_id, self.region_name)
        stored_request = {key: value for key, value in request.items() if key != "Tags"}
        group = FeatureGroup(name, arn, stored_request, get_now(), list(request.get("Tags", [])))
        if not self._feature_groups.create(self._owner, group):
            raise ResourceInUseException(
                f"Resource Already Exists: FeatureGroup with name {name} already exists. Choose a different name.\n"
                f"Info: Feature Group '{name}' already exists."
            )
        return group

    def find_group(self, name_or_arn: str) -> FeatureGroup:
        """Return a feature group by its name or its ARN.

        Raises:
            ResourceNotFound: The feature group does not exist. A retry cannot help.
        """
        group = self._feature_groups.find(self._owner, name_or_arn)
        if group is None:
            raise ResourceNotFound(
                f"Resource Not Found: Amazon SageMaker can't find a FeatureGroup with name {name_or_arn}."
            )
        return group

    def delete_group(self, name: str) -> None:
        """Delete a feature group with its records. Raises the same errors as `find_group`."""
        self._feature_groups.delete(self._owner, self.find_group(name).name)

    def save_group(self, group: FeatureGroup) -> None:
        """Store a group with its tags, in place of what is stored."""
        self._feature_groups.save(self._owner, group)

    def _get_resource_from_arn(self, arn: str) -> Any:
        # In moto 5.2.5, SageMaker's AddTags, ListTags and DeleteTags do not find feature groups.
        return self.find_group(arn) if ":feature-group/" in arn else super()._get_resource_from_arn(arn)


def _check_request(request: Mapping[str, Any]) -> None:
    names = [definition["FeatureName"] for definition in request["FeatureDefinitions"]]
    types = {definition["FeatureName"]: definition["FeatureType"] for definition in request["FeatureDefinitions"]}
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        refuse(f"FeatureDefinitions: the feature {duplicates[0]} is defined more than once.")
    if reserved_names := sorted(set(names) & set(RESERVED_NAMES)):
        refuse(f"FeatureDefinitions: the name {reserved_names[0]} is reserved.")
    for member in ("RecordIdentifierFeatureName", "EventTimeFeatureName"):
        if request[member] not in names:
            refuse(f"{member}: FeatureDefinitions has no feature {request[member]}.")
    if types[request["EventTimeFeatureName"]] == "Integral":
        refuse("EventTimeFeatureName: the feature of the event time must be String or Fractional.")
    if "OnlineStoreConfig" not in request and "OfflineStoreConfig" not in request:
        refuse("You must include at least one of OnlineStoreConfig and OfflineStoreConfig to create a FeatureGroup.")
    if "OfflineStoreConfig" in request:
        refuse("OfflineStoreConfig is not supported by drydock: give an OnlineStoreConfig alone.")
    if not request["OnlineStoreConfig"].get("EnableOnlineStore"):
        refuse("OnlineStoreConfig: EnableOnlineStore must be true, since drydock has no offline store.")
    if any("CollectionType" in definition for definition in request["FeatureDefinitions"]):
        refuse("FeatureDefinitions: CollectionType is not supported by drydock.")
