"""Build the requests that add a shadow variant to an endpoint and remove it.

Also build the value of the endpoint's tag by which a later try of the task finds the shadow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any, Self

from leeway.hooks.endpoint.requests import Tags, build_capture, build_endpoint_tags, build_name

SHADOW_TAG = "leeway:shadow"
"""Key of the endpoint's tag that describes the last shadow; see `ShadowRecord`."""
BASE_TAG = "leeway:shadow-base"
"""Key of a tag of the configuration with the shadow. The value is the name of the configuration without the shadow."""
MAX_VARIANT_CHARS = 63
"""Largest number of characters of a variant's name in SageMaker."""


@dataclass(frozen=True)
class Shadow:
    """A version that runs as a shadow variant."""

    model: str
    version: str
    champion: str
    """Version that the endpoint serves."""
    policy: Mapping[str, Any]
    """Section `serving` of the parameters."""
    model_request: Mapping[str, Any]
    """Request of CreateModel for the version."""
    capture_uri: str
    """s3:// prefix for captured requests, used if the endpoint does not capture requests yet."""
    tags: Tags
    task_identity: Mapping[str, Any]
    """dag_id, run_id, task_id and map_index."""
    max_tries: int = 0
    """Airflow's `max_tries` of the task: a clear changes it, and a retry does not."""

    @property
    def variant(self) -> str:
        """Name of the shadow variant."""
        return build_variant_name(self.version)


@dataclass(frozen=True)
class ShadowRecord:
    """Identity, begin, end and outcome of a shadow, as the endpoint's tag `SHADOW_TAG` stores them.

    Times are in ISO format, in UTC. A record outlives the shadow: if a try is killed before Airflow has its result, the
    next try reports the same shadow.
    """

    shadow_id: str
    """Name of the shadow variant, and a digest of the task that started it."""
    since: str
    """When the shadow began."""
    until: str = ""
    """When the shadow ended; empty while it runs."""
    outcome: str = ""
    """failed or undecided, after the judgement was recorded; empty before, and if the version passed."""
    max_tries: str = ""
    """Airflow's `max_tries` of the task that began the shadow or, with an outcome, recorded it. A clear changes
    it, and a retry does not. Empty in a record of an earlier version of Leeway."""

    @classmethod
    def parse(cls, value: str) -> Self | None:
        """Parse the value of the tag; None if it is empty or has another form."""
        fields = value.split("@")
        return cls(*fields) if len(fields) in (3, 5) else None  # 3: of an earlier version of Leeway

    def format(self) -> str:
        """Return the value of the tag."""
        return "@".join(astuple(self))

    def is_discarded(self, max_tries: int) -> bool:
        """Return whether another shadow begins, because a person cleared the task after this record was written.

        A clear discards a shadow that still runs, and one that did not pass. A shadow that has ended and was not judged
        yet is judged after a clear: the reason of the clear may have been an error of the judgement.

        Args:
            max_tries: Airflow's `max_tries` of the task now.
        """
        has_to_be_judged = bool(self.until and not self.outcome)
        return not has_to_be_judged and self.max_tries not in ("", str(max_tries))


def build_variant_name(version: str) -> str:
    """Return the name of the shadow variant of a version."""
    return f"shadow-{version}"[:MAX_VARIANT_CHARS]


def build_shadow_request(
    endpoint: str, version: str, model_name: str, base: Mapping[str, Any], capture_uri: str, tags: Tags
) -> dict[str, Any]:
    """Build the request to CreateEndpointConfig for a configuration with a shadow variant.

    The production variant is copied from the base. All requests are captured.

    Args:
        endpoint: name of the endpoint.
        version: registered version that is the shadow.
        model_name: name of SageMaker's model of that version.
        base: SageMaker's description of the configuration without the shadow.
        capture_uri: s3:// prefix for captured requests, used if the base does not capture requests.
        tags: tags of the task.
    """
    (production,) = base["ProductionVariants"]
    # With the weight of the production variant, the shadow variant gets a copy of each request.
    names = ("InstanceType", "InitialInstanceCount", "InitialVariantWeight")
    shadow = {
        "VariantName": build_variant_name(version),
        "ModelName": model_name,
        **{name: production[name] for name in names},
    }
    content = {
        "ProductionVariants": [production],
        "ShadowProductionVariants": [shadow],
        **build_capture(100, get_capture_uri(base) or capture_uri),
    }
    return {
        "EndpointConfigName": build_name(endpoint, version, content),
        **content,
        "Tags": [*build_endpoint_tags(endpoint, tags), {"Key": BASE_TAG, "Value": base["EndpointConfigName"]}],
    }


def build_update_request(endpoint: str, config_name: str) -> dict[str, Any]:
    """Build the request to UpdateEndpoint that adds or removes a shadow variant.

    The production variant keeps the number of instances that a scaling policy has given it.
    """
    return {
        "EndpointName": endpoint,
        "EndpointConfigName": config_name,
        "RetainAllVariantProperties": True,
        "ExcludeRetainedVariantProperties": [{"VariantPropertyType": "DataCaptureConfig"}],
    }


def get_capture_uri(config: Mapping[str, Any]) -> str:
    """Return the s3:// prefix of the requests that a configuration captures; empty if it captures none."""
    return str(config.get("DataCaptureConfig", {}).get("DestinationS3Uri", ""))
