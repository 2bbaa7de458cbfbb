"""A feature group, as CreateFeatureGroup requests it and DescribeFeatureGroup shows it."""

from collections.abc import Mapping
from typing import Any

from drydock.resources import StoredRequest

TTL_UNIT_S = {"Seconds": 1, "Minutes": 60, "Hours": 3600, "Days": 86_400, "Weeks": 604_800}


class FeatureGroup(StoredRequest):
    """One feature group."""

    status = "Created"

    @property
    def identifier_name(self) -> str:
        """Name of the feature that identifies a record."""
        return str(self.request["RecordIdentifierFeatureName"])

    @property
    def event_time_name(self) -> str:
        """Name of the feature with a record's event time."""
        return str(self.request["EventTimeFeatureName"])

    @property
    def types(self) -> dict[str, str]:
        """Type of each feature, by its name: Integral, Fractional or String."""
        return {item["FeatureName"]: item["FeatureType"] for item in self.request["FeatureDefinitions"]}

    @property
    def ttl(self) -> Mapping[str, Any] | None:
        """TtlDuration of records that have no TtlDuration of their own; None if such records never expire."""
        return self.request["OnlineStoreConfig"].get("TtlDuration")  # type: ignore[no-any-return]

    def describe(self) -> dict[str, Any]:
        """Return the response of DescribeFeatureGroup."""
        return {
            "ThroughputConfig": {"ThroughputMode": "OnDemand"},
            **self.request,
            "FeatureGroupArn": self.arn,
            "CreationTime": self.created_at,
            "LastModifiedTime": self.created_at,
            "FeatureGroupStatus": self.status,
        }

    def summarize(self) -> dict[str, Any]:
        """Return the entry in ListFeatureGroups."""
        return {
            "FeatureGroupName": self.name,
            "FeatureGroupArn": self.arn,
            "CreationTime": self.created_at,
            "FeatureGroupStatus": self.status,
        }


def compute_seconds(ttl: Mapping[str, Any]) -> int:
    """Return the seconds of a TtlDuration."""
    return int(ttl["Value"]) * TTL_UNIT_S[ttl["Unit"]]
