"""Ingest and validate every unpublished partition of a range, in one process.

The steps `ingest` and `validate` run for each partition. If a partition is refused, the run continues with the others,
fails at the end, and names the refused ones. Idempotent: published partitions are skipped, unless one of their files is
lost; with `include_published` they are ingested again, and published if their rows changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pipelines import params
from pipelines.contract import Result, Spec
from pipelines.dataset import Dataset, load_dataset
from pipelines.errors import DataError, InvalidError, SpecError, describe_refusals
from pipelines.partitions import Partition, PartitionKey, check_partition, get_date, get_last_day, list_range
from pipelines.settings import settings
from pipelines.source import read_once
from pipelines.steps import ingest, validate
from pipelines.system.log import log
from pipelines.system.progress import track_progress
from pipelines.window import Days

if TYPE_CHECKING:
    from pipelines.lake import Lake
    from pipelines.source import Source


class BackfillSpec(Spec):
    """The partitions to publish."""

    dataset: str
    """Dataset whose partitions are published."""
    first: PartitionKey
    """First partition: a day (YYYY-MM-DD), an hour (YYYY-MM-DDTHH) or a month (YYYY-MM), depending on the dataset."""
    last: PartitionKey
    """Last partition, included."""
    include_published: bool = False
    """Also ingest partitions that are published already, for example after a correction of the source."""
    allow_shrink: bool | None = None
    """Whether to publish partitions that have fewer rows than their published version, or that end earlier than the
    published partitions around them. Null: section `validate` of params.yaml decides."""
    on_absent: Literal["fail", "skip"] = "fail"
    """What to do about partitions that the source does not have: fail, or skip them."""


class BackfillResult(Result):
    """The numbers of published, changed and skipped partitions."""

    published: int
    """Partitions that this run ingested and validated. All of them are published now."""
    changed: int
    """Partitions among these that were not published before, or whose published rows changed."""
    skipped: int
    """Partitions that were skipped because they were published already."""
    absent: int
    """Partitions that were skipped because the source does not have them."""
    snapshot_id: int
    """Iceberg snapshot of the published table that last wrote one of the partitions; 0 if none of them is published."""


def run(spec: BackfillSpec) -> BackfillResult:
    """Publish every partition from `first` to `last`.

    Raises:
        SpecError: `last` is before `first`, or they are not of the dataset's unit. A retry cannot help.
        DataError: some partitions were refused, or are not in the source; the others are published. A retry cannot
            help.
    """
    from pipelines.lake import Lake

    dataset, lake = load_dataset(spec.dataset), Lake.open()
    check_partition(dataset, spec.first, "first")
    check_partition(dataset, spec.last, "last")
    partitions = list_range(spec.first, spec.last)
    if not partitions:
        raise SpecError(f"last ({spec.last}) is before first ({spec.first}).")
    source = dataset.open_source()
    source_partitions = partitions if spec.on_absent == "fail" else _list_source_partitions(source, partitions)
    published_partitions = (
        set() if spec.include_published else _list_published_partitions(lake, dataset, source_partitions)
    )
    partitions_to_publish = [partition for partition in source_partitions if partition not in published_partitions]
    validate_spec = _build_validate_spec(spec)
    with read_once(source, partitions_to_publish) as source_for_range:
        changed_count = _publish_partitions(lake, dataset, source_for_range, partitions_to_publish, validate_spec)
    is_any_published = not lake.count_rows_by_partition(dataset.table, dataset.partition).keys().isdisjoint(partitions)
    return BackfillResult(
        published=len(partitions_to_publish),
        changed=changed_count,
        skipped=len(source_partitions) - len(partitions_to_publish),
        absent=len(partitions) - len(source_partitions),
        snapshot_id=lake.pin_window(dataset.table, spec.first, spec.last) if is_any_published else 0,
    )


def _list_source_partitions(source: Source, partitions: Sequence[Partition]) -> list[Partition]:
    """List the partitions that the source has."""
    days = Days(get_date(partitions[0]), get_last_day(partitions[-1]))
    return sorted(set(source.list_partitions(days)).intersection(partitions))


def _list_published_partitions(lake: Lake, dataset: Dataset, partitions: Sequence[Partition]) -> set[Partition]:
    """Return the partitions that are published and have no lost file."""
    published_partitions = lake.count_rows_by_partition(dataset.table, dataset.partition).keys() & set(partitions)
    lost_partitions = lake.find_lost_partitions(dataset.table, published_partitions)
    if lost_partitions:
        log.warning(
            "%s: files of %d published %ss are lost, the first of %s; they are written again",
            *(dataset.table, len(lost_partitions), dataset.partition, min(lost_partitions)),
        )
    return published_partitions - lost_partitions


def _build_validate_spec(spec: BackfillSpec) -> validate.ValidateSpec:
    """Build the spec of a validation from params.yaml. The caller replaces `partition` for each partition."""
    values = params.load_section(settings().project, "validate") | {"dataset": spec.dataset, "partition": spec.first}
    values |= {} if spec.allow_shrink is None else {"allow_shrink": spec.allow_shrink}
    return validate.ValidateSpec.parse(values, "validate")


def _publish_partitions(
    lake: Lake, dataset: Dataset, source: Source, partitions: Sequence[Partition], validate_spec: validate.ValidateSpec
) -> int:
    """Ingest and validate the partitions; return the number of those whose published rows changed."""
    from pipelines.validation import datadocs

    changed_count, refusals = 0, dict[Partition, InvalidError]()
    try:
        for partition in track_progress(partitions, len(partitions), f"{dataset.name}: ingest, validate"):
            try:
                ingest.stage_partition(dataset, source, partition, lake)
                spec = validate_spec.model_copy(update={"partition": partition})
                changed_count += validate.validate_partition(spec, lake, updates_indexes=False).changed
            except InvalidError as error:
                refusals[partition] = error
                log.error("%s", error)
    finally:
        if partitions:  # once at the end, because the time of an update grows with the number of partitions
            datadocs.update_indexes(dataset.name)
    if refusals:
        summary = f"{len(refusals)} of {len(partitions)} partitions were not published"
        raise DataError(f"{summary}: {describe_refusals(refusals)}", "The others were published.")
    return changed_count
