"""Read records of the online store of SageMaker Feature Store, or of drydock's."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

KEY_FEATURE, TIME_FEATURE = "leeway_key", "leeway_event_time"
"""Features of each group besides the lookup's features: the identifier and the event time of a record."""
MAX_IDENTIFIERS = 100
"""Largest number of records that one BatchGetRecord returns."""
Identifiers = Mapping[str, Sequence[str]]
"""Maps the name of each feature group to the identifiers of records."""


class StoreError(RuntimeError):
    """The online store does not answer, or refuses a request. A retry can help."""


@dataclass(frozen=True)
class Record:
    """A record of the online store."""

    event_time: dt.datetime
    """Event time of the record, in UTC."""
    values: Mapping[str, str]
    """The features that are not missing, as texts."""


class OnlineRecords:
    """Reads records of the configured account and region. Threads may share it.

    Args:
        timeout_s: longest time to connect, and to wait for each answer, seconds.
        attempts: largest number of times that a request is sent if the store does not answer. With 1, a request
            takes half the CPU time, because `StoreConnection` sends it.
        connections: largest number of connections that stay open.
    """

    def __init__(self, timeout_s: float, attempts: int, connections: int) -> None:
        self._timeout_s, self._attempts, self._connections = timeout_s, attempts, connections
        self._lock, self._client = threading.Lock(), None

    def read(self, identifiers: Identifiers) -> dict[tuple[str, str], Record]:
        """Return the records that exist, by group and identifier. A group that does not exist has no records.

        Raises:
            StoreError: no region or credentials are configured, or the store does not answer or refuses the request.
                A retry can help.
        """
        from botocore.exceptions import BotoCoreError, ClientError  # only a model with lookups needs boto3
        from urllib3.exceptions import HTTPError

        pairs = iter([(group, identifier) for group in identifiers for identifier in identifiers[group]])
        records: dict[tuple[str, str], Record] = {}
        try:
            client = self._open_client()
            while batch := list(islice(pairs, MAX_IDENTIFIERS)):
                records |= _parse_response(client.batch_get_record(Identifiers=_build_identifiers(batch)))
        except ClientError as error:
            raise StoreError(f"the online store refused a request: {error}.") from None
        except (BotoCoreError, HTTPError) as error:
            raise StoreError(f"the online store does not answer: {error}.") from None
        return records

    def _open_client(self) -> Any:
        """Return the client. It is created at the first request, so that a missing region fails only a request."""
        with self._lock:
            if self._client is None:
                self._client = self._create_client()
            return self._client

    def _create_client(self) -> Any:
        from pipelines.container.serving.store_connection import SERVICE, StoreConnection

        if self._attempts == 1:
            return StoreConnection(self._timeout_s, self._connections)
        import boto3
        from botocore.config import Config

        config = Config(
            connect_timeout=self._timeout_s,
            read_timeout=self._timeout_s,
            retries={"total_max_attempts": self._attempts, "mode": "standard"},
            max_pool_connections=self._connections,
        )
        return boto3.client(SERVICE, config=config)


def _parse_response(response: Mapping[str, Any]) -> dict[tuple[str, str], Record]:
    problems = [error for error in response["Errors"] if "ResourceNotFound" not in error["ErrorCode"]]
    if problems or response["UnprocessedIdentifiers"]:
        reason = problems[0]["ErrorMessage"] if problems else "not all records were read"
        raise StoreError(f"the online store did not return all records: {reason}.")
    records = {}
    for item in response["Records"]:
        values = {feature["FeatureName"]: feature["ValueAsString"] for feature in item["Record"]}
        event_time = dt.datetime.fromisoformat(values.pop(TIME_FEATURE))
        identifier = values.pop(KEY_FEATURE)
        records[item["FeatureGroupName"], identifier] = Record(event_time, values)
    return records


def _build_identifiers(pairs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Build the parameter `Identifiers` of BatchGetRecord from pairs of group and identifier."""
    identifiers: dict[str, list[str]] = {}
    for group, identifier in pairs:
        identifiers.setdefault(group, []).append(identifier)
    return [
        {"FeatureGroupName": group, "RecordIdentifiersValueAsString": identifiers_of_group}
        for group, identifiers_of_group in identifiers.items()
    ]
