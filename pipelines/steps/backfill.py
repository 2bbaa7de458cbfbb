"""Ingests and validates every unpublished partition between two days, in one process.

The laptop's way to fill the lake without Airflow: the same two steps, their imports paid once. A refused partition
does not stop the others; the run fails at the end and names them all. Idempotent: published partitions are left alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pipelines.contract import Result, Spec
from pipelines.dataset import Dataset, load_dataset
from pipelines.errors import DataError, InvalidError, SpecError
from pipelines.steps import ingest, validate
from pipelines.system.log import log
from pipelines.system.progress import track_progress
from pipelines.window import Days

if TYPE_CHECKING:
    from pipelines.source import Source

MAX_NAMED = 5
"""Refused partitions that the error quotes."""


class BackfillSpec(Spec):
    """Partitions to fill."""

    dataset: str = "flights"
    """The dataset."""
    first: dt.date
    """First day (YYYY-MM-DD)."""
    last: dt.date
    """Last day, included."""
    again: bool = False
    """Also days that are published already: their source was corrected, say."""
    absent: Literal["fail", "skip"] = "fail"
    """What to do about days that the source has not: fail, or go on without them."""


class BackfillResult(Result):
    """What was filled."""

    published: int
    """Partitions that this run ingested and published."""
    changed: int
    """Those of them that were not published before, or differ from what was."""
    skipped: int
    """Partitions that were published already."""
    absent: int
    """Days that the source has not, where these are skipped."""
    snapshot_id: int
    """Iceberg snapshot of the published table that wrote the last of the days; 0 where it has none of them."""


def run(spec: BackfillSpec) -> BackfillResult:
    """Every day from `first` to `last` is published.

    Raises:
        SpecError: `last` is before `first`.
        DataError: some partitions were refused, or are not in the source; the others are published.
    """
    from pipelines.lake import Lake

    days, chosen, lake = Days(spec.first, spec.last), load_dataset(spec.dataset), Lake.open()
    if not len(days):
        raise SpecError(f"last ({spec.last}) is before first ({spec.first}).")
    source = chosen.open_source()
    wanted = list(days) if spec.absent == "fail" else source.partitions(days)
    have = {} if spec.again else lake.count_rows_by_day(chosen.published)
    todo = [day for day in wanted if day not in have]
    changed = _fill(chosen, source, todo)
    held = any(day in days for day in lake.count_rows_by_day(chosen.published))
    return BackfillResult(
        published=len(todo),
        changed=changed,
        skipped=len(wanted) - len(todo),
        absent=len(days) - len(wanted),
        snapshot_id=lake.pin_window(chosen.published, spec.first, spec.last) if held else 0,
    )


def _fill(chosen: Dataset, source: Source, todo: Sequence[dt.date]) -> int:
    """Ingests and validates the days; returns how many of them changed what is published."""
    changed, refused = 0, []
    for day in track_progress(todo, len(todo), f"{chosen.name}: ingest, validate"):
        try:
            ingest.stage_partition(chosen, source, day)
            changed += validate.run(validate.ValidateSpec(dataset=chosen.name, partition=day)).changed
        except InvalidError as error:
            refused.append(f"{day}: {error.message[:200]}")
            log.error("%s", error)
    if refused:
        named = " / ".join(refused[:MAX_NAMED])
        raise DataError(f"{len(refused)} of {len(todo)} partitions were not published: {named}", "The others are.")
    return changed
