"""List the versions whose answers an endpoint may have given on the days of a partition's requests.

These are the version that the endpoint served at the beginning of the days, and each version that was deployed, or
whose deployment failed, on one of the days: a canary answers requests before it is rolled back.
"""

from __future__ import annotations

import datetime as dt

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.dataset import load_dataset
from pipelines.partitions import PartitionKey
from pipelines.steps.collect import EMPTY_OR_NAME_PATTERN
from pipelines.system.log import log


class ListVersionsSpec(Spec):
    """An endpoint, and the partition whose requests it answered."""

    dataset: str
    """Dataset of the model."""
    model: str
    """Registered model."""
    version: str = ""
    """Number or alias of the only version to list; empty: those that the events of the model name."""
    endpoint: str = Field(default="", pattern=EMPTY_OR_NAME_PATTERN)
    """Name of the endpoint, SageMaker's EndpointName; empty: the one that DeployOperator gives the model."""
    partition: PartitionKey
    """Partition of the rows: a day (YYYY-MM-DD), an hour (YYYY-MM-DDTHH) or a month (YYYY-MM), depending on the
    dataset."""
    first_day: dt.date | None = None
    """First day (UTC) of the requests; by default the day before the partition, for rows scored a day ahead."""
    last_day: dt.date | None = None
    """Last day (UTC) of the requests, included; by default the last day of the partition."""


class ListVersionsResult(Result):
    """The versions that may have answered."""

    endpoint: str
    """Name of the endpoint."""
    versions: list[str]
    """Numbers of the versions, in the order of their first deployment; empty if none was deployed by the last day."""


def run(spec: ListVersionsSpec) -> ListVersionsResult:
    """Return the versions that may have answered requests for the partition's rows.

    Raises:
        SpecError: the dataset has no label, or partitions of another unit, or the first day is after the last. A
            retry cannot help.
        DataError: there is no such version. A retry can help after it is registered.
        ServiceError: MLflow does not answer. A retry can help.
    """
    from pipelines.registry.lifecycle import Journal
    from pipelines.registry.lifecycle.deployments import find_released_versions
    from pipelines.registry.versions import Registry
    from pipelines.serving.endpoint_resources import build_endpoint_name
    from pipelines.serving.online_scores import find_request_days

    days = find_request_days(load_dataset(spec.dataset), spec.partition, spec.first_day, spec.last_day)
    endpoint = spec.endpoint or build_endpoint_name(spec.model)
    if spec.version:
        versions = [str(Registry.open().find_version(spec.model, spec.version).version)]
    else:
        versions = find_released_versions(Journal.open().read_state(spec.model), endpoint, days)
    log.info(
        "versions of %s that may have answered requests to %s on %s: %s",
        *(spec.model, endpoint, days, ", ".join(versions) or "none, because none was deployed"),
    )
    return ListVersionsResult(endpoint=endpoint, versions=versions)
