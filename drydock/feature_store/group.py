"""A feature group, as CreateFeatureGroup requests it and DescribeFeatureGroup shows it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

TTL_UNIT_S = {"Seconds": 1, "Minutes": 60, "Hours": 3600, "Days": 86_400, "Weeks": 604_800}


@dataclass
class FeatureGroup:
    """One feature group. All of it is stored.

    Attributes:
        name: FeatureGroupName.
        arn: FeatureGroupArn.
        request: The request without its tags.
        created_at: CreationTime.
        tags: The tags; AddTags and DeleteTags change them.
    """

    name: str
    arn: str
    request: dict[str, Any]
    created_at: datetime
    tags: list[dict[str, str]] = field(default_factory=list)
    status = "Created"

    @property
    def modified_at(self) -> datetime:
        """When it was created: a group does not change."""
        return self.created_at

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
        """TtlDuration of records that have none of their own."""
        return self.request["OnlineStoreConfig"].get("TtlDuration")  # type: ignore[no-any-return]

    def dump(self) -> str:
        """Return the group as JSON."""
        return json.dumps(asdict(self), default=datetime.isoformat)

    @classmethod
    def load(cls, text: str) -> "FeatureGroup":
        """Return the group that `dump` wrote as JSON."""
        content = json.loads(text)
        return cls(**{**content, "created_at": datetime.fromisoformat(content["created_at"])})

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
