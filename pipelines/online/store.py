"""Create feature groups of SageMaker Feature Store, or of drydock, and read and write their records."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from contextlib import contextmanager

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from pipelines.container.serving.online_records import (
    KEY_FEATURE,
    TIME_FEATURE,
    Identifiers,
    OnlineRecords,
    Record,
    StoreError,
)
from pipelines.dataset import Dataset
from pipelines.errors import ServiceError, SpecError
from pipelines.lookups import Lookup
from pipelines.online.declarations import name_group

TIMEOUT_S, ATTEMPTS, CONNECTIONS = 10.0, 4, 10
"""Longest time to connect and to wait for an answer, seconds; attempts for a request; largest number of connections."""
CREATION_S, POLL_S = 900, 1.0
"""Longest time to wait for the creation of a group, and the interval of the checks, seconds."""


class OnlineStore:
    """Reads and writes the feature groups of the configured account and region. Threads may share it."""

    def __init__(self) -> None:
        config = Config(
            connect_timeout=TIMEOUT_S,
            read_timeout=TIMEOUT_S,
            retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
            max_pool_connections=CONNECTIONS,
        )
        self._records = OnlineRecords(TIMEOUT_S, ATTEMPTS, CONNECTIONS)
        with _translate_errors():
            self._control = boto3.client("sagemaker", config=config)
            self._runtime = boto3.client("sagemaker-featurestore-runtime", config=config)

    @classmethod
    def open(cls) -> OnlineStore:
        """Open the configured store.

        Raises:
            SpecError: neither AWS nor drydock is configured. A retry cannot help.
        """
        require_store_configuration()
        return cls()

    def read(self, identifiers: Identifiers) -> dict[tuple[str, str], Record]:
        """Return the records that exist, by group and identifier. A group that does not exist has no records.

        Raises:
            ServiceError: the store does not answer, or refuses the request. A retry can help.
        """
        try:
            return self._records.read(identifiers)
        except StoreError as error:
            raise ServiceError(str(error), "Check AWS_ENDPOINT_URL, and whether drydock is up.") from None

    def write(self, group: str, identifier: str, record: Record, ttl_days: int = 0) -> None:
        """Write a record, unless the stored one is as new or newer. Idempotent.

        Args:
            group: name of the feature group.
            identifier: identifier of the record.
            record: the record; its event time has milliseconds.
            ttl_days: days from the event time until the store deletes the record; 0: it is never deleted.

        Raises:
            ServiceError: the store does not answer, or refuses the record. A retry can help.
        """
        values = {KEY_FEATURE: identifier, TIME_FEATURE: format_time(record.event_time), **record.values}
        features = [{"FeatureName": name, "ValueAsString": value} for name, value in values.items()]
        ttl = {"TtlDuration": {"Unit": "Days", "Value": ttl_days}} if ttl_days else {}
        with _translate_errors():
            self._runtime.put_record(FeatureGroupName=group, Record=features, **ttl)

    def create_group(self, dataset: Dataset, lookup: Lookup) -> str:
        """Create the feature group of a lookup, wait until it exists, and return its name. Idempotent.

        Raises:
            ServiceError: the store does not answer, or does not create the group. A retry can help.
        """
        name = name_group(dataset, lookup)
        kinds = {feature: dataset.features[feature] for feature in lookup.features}
        types = {feature: "Fractional" if kind == "number" else "String" for feature, kind in kinds.items()}
        definitions = {KEY_FEATURE: "String", TIME_FEATURE: "String", **types}
        if not self._find_status(name):
            with _translate_errors(ignored_code="ResourceInUse"):  # another process has just created it
                self._control.create_feature_group(
                    FeatureGroupName=name,
                    RecordIdentifierFeatureName=KEY_FEATURE,
                    EventTimeFeatureName=TIME_FEATURE,
                    FeatureDefinitions=[
                        {"FeatureName": feature, "FeatureType": feature_type}
                        for feature, feature_type in definitions.items()
                    ],
                    OnlineStoreConfig={"EnableOnlineStore": True},
                    Description=f"{dataset.name} by {', '.join(lookup.key)}"[:128],
                )
        deadline = time.monotonic() + CREATION_S
        while (status := self._find_status(name)) != "Created":
            if status not in ("", "Creating") or time.monotonic() > deadline:
                raise ServiceError(f"the feature group {name} is {status or 'not there'}.", "Delete it, and try again.")
            time.sleep(POLL_S)
        return name

    def _find_status(self, name: str) -> str:
        """Return the status of a feature group; empty if it does not exist."""
        with _translate_errors(ignored_code="ResourceNotFound"):
            return str(self._control.describe_feature_group(FeatureGroupName=name)["FeatureGroupStatus"])
        return ""


def require_store_configuration() -> None:
    """Check that an online store is configured.

    Raises:
        SpecError: neither AWS nor drydock is configured. A retry cannot help.
    """
    if not is_store_configured():
        hint = "Set AWS_DEFAULT_REGION and credentials; for drydock, AWS_ENDPOINT_URL, too."
        raise SpecError("no online store is configured: there is no AWS region.", hint)


def is_store_configured() -> bool:
    """Return whether an AWS region is configured, without which no service of AWS or drydock can be called."""
    return bool(boto3.Session().region_name)


def format_time(time: dt.datetime) -> str:
    """Format a time in UTC as Feature Store accepts it, with milliseconds."""
    return f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03d}Z"


@contextmanager
def _translate_errors(ignored_code: str = "") -> Iterator[None]:
    """Raise a ServiceError instead of boto3's errors; suppress an AWS error whose code is `ignored_code`."""
    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] != (ignored_code or None):
            raise ServiceError(f"the online store refused a request: {error}.") from None
    except BotoCoreError as error:
        hint = "Check AWS_ENDPOINT_URL, and whether drydock is up."
        raise ServiceError(f"the online store does not answer: {error}.", hint) from None
