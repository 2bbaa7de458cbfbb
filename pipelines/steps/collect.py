"""Collect the scores of one partition from the requests that an endpoint captured.

Of several captured rows with the same key, the newest is used. Idempotent: the step replaces the partition's rows of
the same version, endpoint and variant in the table DATASET_requests, and the file of scored rows.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.dataset import Dataset, load_dataset
from pipelines.partitions import PartitionKey
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.lake import Commit, Lake
    from pipelines.window import Days

NAME_PATTERN = r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$"
"""SageMaker's form of the names of endpoints and variants."""
EMPTY_OR_NAME_PATTERN = rf"^$|{NAME_PATTERN}"
"""Form of a name that may be left out."""
VERSION_PLACEHOLDER = "{version}"
"""Part of `captured` that the version's number replaces."""


class CollectSpec(Spec):
    """Captured requests, and the partition whose rows are collected."""

    dataset: str
    """Dataset of the model. The key and the labels come from its published table."""
    model: str
    """Registered model."""
    version: str = ""
    """Number or alias of the version that the variant served on the days of the requests; empty: the last version that
    was deployed to the endpoint by the end of these days, according to the events of the model."""
    endpoint: str = Field(default="", pattern=EMPTY_OR_NAME_PATTERN)
    """Name of the endpoint, SageMaker's EndpointName; empty: the one that DeployOperator gives the model."""
    variant: str = Field(default="AllTraffic", pattern=NAME_PATTERN)
    """Name of the endpoint's variant: SageMaker's VariantName."""
    captured: str
    """Address of the captured requests: DestinationS3Uri of the endpoint's DataCaptureConfig, or a folder with a copy.
    `{version}` in this address stands for the number of the version."""
    partition: PartitionKey
    """Partition of the rows: a day (YYYY-MM-DD), an hour (YYYY-MM-DDTHH) or a month (YYYY-MM), depending on the
    dataset."""
    first_day: dt.date | None = None
    """First day (UTC) of the requests; by default the day before the partition, for rows scored a day ahead."""
    last_day: dt.date | None = None
    """Last day (UTC) of the requests, included; by default the last day of the partition."""


class CollectResult(Result):
    """The rows of a partition that an endpoint scored."""

    table: str
    """Table of the online scores."""
    partition: PartitionKey
    """Partition of the rows."""
    model_name: str
    """Registered model."""
    version: str
    """Number of the version; empty if none was deployed to the endpoint by the end of the days."""
    endpoint: str
    """Name of the endpoint."""
    scored: int = 0
    """Rows of the partition, each key once."""
    changed: bool = False
    """False if the same rows were stored before."""
    rows: Path | None = None
    """Parquet file of the rows: key, features, label (null if it is not known), score. `profile` reads it."""
    requests: int = 0
    """Captured requests that could be read, with rows of any partition."""
    unreadable: int = 0
    """Captured requests that could not be read: their rows have no column names, or a row has no score."""
    invalid: int = 0
    """Captured rows that lack a column of the key or what their features need, or have a value of another type."""
    rows_of_other_partitions: int = 0
    """Captured rows of other partitions."""
    reason: str = ""
    """Why there are no rows, in one line."""


def run(spec: CollectSpec) -> CollectResult:
    """Replace the partition's online scores by those in the captured requests; if they have none, change nothing.

    Raises:
        SpecError: the dataset has no label, or partitions of another unit, or the first day is after the last. A
            retry cannot help.
        DataError: there is no such version, or no row of the dataset is published. A retry can help once both exist.
        ServiceError: MLflow or S3 does not answer. A retry can help.
    """
    from pipelines.lake import Lake
    from pipelines.serving.endpoint_resources import build_endpoint_name
    from pipelines.serving.online_scores import find_request_days

    dataset, lake = load_dataset(spec.dataset), Lake.open()
    spec = spec.model_copy(update={"endpoint": spec.endpoint or build_endpoint_name(spec.model)})
    days = find_request_days(dataset, spec.partition, spec.first_day, spec.last_day)
    version = _find_version(spec, days.last)
    result = CollectResult(
        table=dataset.requests,
        partition=spec.partition,
        model_name=spec.model,
        version=version,
        endpoint=spec.endpoint,
    )
    if version:
        return _collect(lake, dataset, spec, days, result)
    reason = f"no version of {spec.model} was deployed to {spec.endpoint} up to {days.last}."
    log.info("%s", reason)
    return result.model_copy(update={"reason": reason})


def _collect(lake: Lake, dataset: Dataset, spec: CollectSpec, days: Days, result: CollectResult) -> CollectResult:
    """Store the scores that the result's version gave on the days; return the result with the counts and the file."""
    from dataclasses import asdict

    from pipelines.registry.versions import Registry
    from pipelines.serving.captured_raw_rows import open_raw_rows
    from pipelines.serving.captured_requests import Capture, read_requests
    from pipelines.serving.online_scores import OnlineRows
    from pipelines.system.temporary_folders import make_temporary_folder

    location = spec.captured.replace(VERSION_PLACEHOLDER, result.version)
    requests = read_requests(Capture(location, spec.endpoint, spec.variant), days)
    model_version = Registry.open().get_version(spec.model, result.version)
    with make_temporary_folder() as folder, open_raw_rows(model_version) as raw_rows:
        online_rows = OnlineRows(lake, dataset, spec.partition, raw_rows)
        counts = online_rows.write_answers(requests, folder / "answers.parquet")
        count_fields = {name: value for name, value in asdict(counts).items() if name != "rows"}
        if not counts.rows:
            reason = f"{spec.endpoint} captured no row of {spec.partition} on {days}."
            log.info("%s", reason)
            return result.model_copy(update={**count_fields, "reason": reason})
        online_rows.write_scored_rows(folder / "answers.parquet", folder / "rows.parquet")
        commit, path = _store(lake, dataset, spec, result.version, folder / "rows.parquet")
    log.info(
        "%s %s: %d rows scored by %s version %s in %d requests; %d requests could not be read, %d rows were invalid",
        *(spec.endpoint, spec.partition, commit.rows, spec.model, result.version),
        *(counts.requests, counts.unreadable, counts.invalid),
    )
    return result.model_copy(update={**count_fields, "scored": commit.rows, "changed": commit.changed, "rows": path})


def _find_version(spec: CollectSpec, last_day: dt.date) -> str:
    """Return the number of the version that the spec names, or that was deployed last; empty if there is none."""
    from pipelines.registry.lifecycle import Journal
    from pipelines.registry.lifecycle.deployments import find_deployed_version
    from pipelines.registry.versions import Registry

    if spec.version:
        return str(Registry.open().find_version(spec.model, spec.version).version)
    return find_deployed_version(Journal.open().read_state(spec.model), spec.endpoint, last_day)


def _store(lake: Lake, dataset: Dataset, spec: CollectSpec, version: str, file: Path) -> tuple[Commit, Path]:
    from pipelines.serving.online_scores import store_online_scores

    partition_values = {
        "model_name": spec.model,
        "model_version": version,
        "endpoint": spec.endpoint,
        "variant": spec.variant,
    }
    return store_online_scores(lake, dataset, spec.partition, file, partition_values)
