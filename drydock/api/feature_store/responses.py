"""Answer the operations of feature groups."""

from typing import cast

from moto.core.responses import ActionResult, EmptyResult

from drydock.api import listing
from drydock.api.endpoint_responses import EndpointResponse
from drydock.api.feature_store.backend import FeatureGroupsBackend

FEATURE_GROUP_OPERATIONS = (
    *(f"{verb}FeatureGroup" for verb in ("Create", "Describe", "Delete")),
    "ListFeatureGroups",
)
# Values of SortBy in `listing`, by the values of SortBy in ListFeatureGroups. No group here has an offline store:
# OfflineStoreStatus sorts by the status of the group.
_SORT_VALUES = {"Name": "Name", "FeatureGroupStatus": "Status", "OfflineStoreStatus": "Status"}


class FeatureGroupResponse(EndpointResponse):
    """Answers requests for feature groups."""

    def create_feature_group(self) -> ActionResult:
        """Answer CreateFeatureGroup."""
        group = self._feature_groups_backend.create_group(self.read_request("CreateFeatureGroup"))
        return ActionResult({"FeatureGroupArn": group.arn})

    def describe_feature_group(self) -> ActionResult:
        """Answer DescribeFeatureGroup."""
        request = self.read_request("DescribeFeatureGroup")
        return ActionResult(self._feature_groups_backend.find_group(request["FeatureGroupName"]).describe())

    def delete_feature_group(self) -> ActionResult:
        """Answer DeleteFeatureGroup, which moto does not have."""
        self._feature_groups_backend.delete_group(self.read_request("DeleteFeatureGroup")["FeatureGroupName"])
        return EmptyResult()

    def list_feature_groups(self) -> ActionResult:
        """Answer ListFeatureGroups, which moto does not have."""
        request = listing.NEWEST_FIRST | self.read_request("ListFeatureGroups")
        groups = list(self._feature_groups_backend.feature_groups.values())
        if "OfflineStoreStatusEquals" in request:
            groups = []  # groups of this server have no offline store
        if "FeatureGroupStatusEquals" in request:
            request["StatusEquals"] = request["FeatureGroupStatusEquals"]
        request["SortBy"] = _SORT_VALUES.get(request.get("SortBy", ""), "CreationTime")
        return ActionResult(listing.list_page(groups, request, "FeatureGroupSummaries"))

    @property
    def _feature_groups_backend(self) -> FeatureGroupsBackend:
        return cast(FeatureGroupsBackend, self.sagemaker_backend)
