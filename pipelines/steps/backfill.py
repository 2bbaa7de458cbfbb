"""Ingests and validates every unpublished partition between two days, in one process.

The laptop's way to fill the lake without Airflow: the same two steps, their imports paid once. A refused partition
does not stop the others; the run fails at the end and names them all. Idempotent: published partitions are left alone.
"""

from __future__ import annotations

import datetime as dt
import sys

from pipelines.contract import Result, Spec
from pipelines.dataset import dataset
from pipelines.errors import DataError, InvalidError, SpecError
from pipelines.log import log
from pipelines.steps import ingest, validate
from pipelines.window import Days

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


class BackfillResult(Result):
    """What was filled."""

    published: int
    """Partitions that this run ingested and published."""
    skipped: int
    """Partitions that were published already."""


def run(spec: BackfillSpec) -> BackfillResult:
    """Every day from `first` to `last` is published.

    Raises:
        SpecError: `last` is before `first`.
        DataError: some partitions were refused, or are not in the source; the others are published.
    """
    from rich.console import Console
    from rich.progress import Progress

    from pipelines.lake import Lake

    days = Days(spec.first, spec.last)
    if not len(days):
        raise SpecError(f"last ({spec.last}) is before first ({spec.first}).")
    have = {} if spec.again else Lake.open().partitions(dataset(spec.dataset).published)
    todo, refused = [day for day in days if day not in have], []
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        for day in progress.track(todo, description=f"{spec.dataset}: ingest, validate"):
            try:
                _fill(spec.dataset, day)
            except InvalidError as error:
                refused.append(f"{day}: {error.message[:200]}")
                log.error("%s", error)
    if refused:
        named = " / ".join(refused[:MAX_NAMED])
        raise DataError(f"{len(refused)} of {len(todo)} partitions were not published: {named}", "The others are.")
    return BackfillResult(published=len(todo), skipped=len(days) - len(todo))


def _fill(name: str, day: dt.date) -> None:
    ingest.run(ingest.IngestSpec(dataset=name, partition=day))
    validate.run(validate.ValidateSpec(dataset=name, partition=day))
